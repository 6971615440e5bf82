// Counts the instructions of one inference, operator by operator, on a board of QEMU that runs with `-icount shift=5`:
// then an instruction takes 32 ns of the board's time, and SysTick tells how many have passed.
//
//   count_instructions MODEL.pte INPUT.bin OUTPUT.bin
//
// Prints "<operator> <instructions>" for each instruction of the method, then "total", "method" and "temp" (bytes).

#include <cstdio>
#include <cstring>

#include "kernels/cortex_m/register.h"
#include "kernels/portable/register.h"
#include "kernels/prim/register.h"
#include "kernels/quantized/register.h"
#include "runtime/event_tracer.h"
#include "runtime/method.h"
#include "runtime/platform.h"

namespace {

using namespace et;           // NOLINT(google-build-using-namespace): a program, not a header
using namespace et::runtime;  // NOLINT(google-build-using-namespace)

__attribute__((aligned(16))) uint8_t g_model[290 << 10];
__attribute__((aligned(16))) uint8_t g_arena[64 << 10];
__attribute__((aligned(16))) uint8_t g_input[28 << 10];
__attribute__((aligned(16))) uint8_t g_method_pool[32 << 10];
__attribute__((aligned(16))) uint8_t g_temp_pool[16 << 10];

volatile uint32_t* const kSysTickControl = reinterpret_cast<volatile uint32_t*>(0xE000E010);
volatile uint32_t* const kSysTickReload = reinterpret_cast<volatile uint32_t*>(0xE000E014);
volatile uint32_t* const kSysTickValue = reinterpret_cast<volatile uint32_t*>(0xE000E018);
uint32_t g_turns = 0;

/// Ticks of the processor's clock since start_clock().
uint64_t ticks() {
  const uint32_t value = *kSysTickValue;
  if ((*kSysTickControl & (1u << 16)) != 0) {  // it has been round since the last look
    ++g_turns;
    return (uint64_t{g_turns} << 24) + (0xFFFFFFu - *kSysTickValue);
  }
  return (uint64_t{g_turns} << 24) + (0xFFFFFFu - value);
}

void start_clock() {
  *kSysTickReload = 0xFFFFFFu;
  *kSysTickValue = 0;
  *kSysTickControl = 5;  // enabled, from the processor's clock
}

/// Ticks of a loop of so many instructions.
uint64_t ticks_of(uint32_t instructions) {
  const uint64_t before = ticks();
  uint32_t count = instructions / 2;
  __asm volatile("1: subs %0, #1\n bne 1b" : "+r"(count)::"cc");
  return ticks() - before;
}

struct Line {
  char name[48];
  uint64_t ticks;
};

class Recorder : public EventTracer {
 public:
  void record(const TraceEvent& event) override {
    if (event.kind == EventKind::kKernel && count_ < sizeof(lines_) / sizeof(lines_[0])) {
      Line& line = lines_[count_++];
      const size_t n = event.name.size() < sizeof(line.name) - 1 ? event.name.size() : sizeof(line.name) - 1;
      memcpy(line.name, event.name.data(), n);
      line.ticks = event.end_ns - event.start_ns;
    }
  }
  void print(uint32_t million) const {
    for (size_t i = 0; i < count_; ++i) {
      printf("%s %u\n", lines_[i].name, static_cast<unsigned>(lines_[i].ticks * 1000000 / million));
    }
  }

 private:
  Line lines_[48] = {};
  size_t count_ = 0;
};

size_t read_file(const char* path, uint8_t* memory, size_t capacity) {
  FILE* file = fopen(path, "rb");
  const size_t nbytes = file == nullptr ? 0 : fread(memory, 1, capacity, file);
  if (file != nullptr) {
    fclose(file);
  }
  return nbytes;
}

void print_message(LogLevel, const char* file, int line, const char* message, size_t) {
  printf("%s:%d %s\n", file, line, message);
}

Error execute(Method& method, const char* input) {
  ET_TRY(const TensorInfo info, method.meta().input_tensor_info(0));
  const size_t nbytes = read_file(input, g_input, sizeof(g_input));
  ET_CHECK_OR_RETURN(nbytes == info.nbytes, InvalidArgument, "%s has %u bytes", input, static_cast<unsigned>(nbytes));
  int64_t sizes[kMaxRank];
  int64_t strides[kMaxRank];
  for (size_t d = 0; d < info.sizes.size(); ++d) {
    sizes[d] = info.sizes[d];
  }
  TensorImpl impl(info.dtype, info.sizes.size(), sizes, strides, info.dim_order.data(), g_input, nbytes);
  ET_RETURN_IF_ERROR(method.set_input(EValue(Tensor(&impl)), 0));
  return method.execute();
}

Error run(char** argv) {
  const size_t model_size = read_file(argv[1], g_model, sizeof(g_model));
  BufferLoader loader(g_model, model_size);
  ET_TRY(const Program program, Program::load(&loader));
  KernelRegistry kernels;
  ET_RETURN_IF_ERROR(kernels::cortex_m::register_cortex_m_kernels(kernels));
  ET_RETURN_IF_ERROR(kernels::portable::register_portable_kernels(kernels));
  ET_RETURN_IF_ERROR(kernels::quantized::register_quantized_kernels(kernels));
  ET_RETURN_IF_ERROR(kernels::prim::register_prim_kernels(kernels));

  MemoryAllocator method_allocator(g_method_pool, sizeof(g_method_pool));
  MemoryAllocator temp_allocator(g_temp_pool, sizeof(g_temp_pool));
  ET_TRY(const MethodMeta meta, program.method_meta("forward"));
  const size_t arena = static_cast<size_t>(meta.memory_planned_buffer_size(0));
  ET_CHECK_OR_RETURN(arena <= sizeof(g_arena), MemoryAllocationFailed, "the model plans too much");
  const Span<uint8_t> planned[] = {{g_arena, arena}};
  const MemoryManager memory{&method_allocator, {planned, 1}, &temp_allocator, nullptr};
  Recorder recorder;
  MethodOptions options;
  options.kernels = &kernels;
  options.tracer = &recorder;
  ET_TRY(Method method, program.load_method("forward", &memory, options));
  memset(g_temp_pool, 0xA5, sizeof(g_temp_pool));

  start_clock();
  const auto million = static_cast<uint32_t>(ticks_of(1000000));
  const uint64_t before = ticks();
  ET_RETURN_IF_ERROR(execute(method, argv[2]));
  const uint64_t after = ticks();
  recorder.print(million);
  size_t temp = sizeof(g_temp_pool);
  while (temp > 0 && g_temp_pool[temp - 1] == 0xA5) {
    --temp;
  }
  printf("total %u\nmethod %u\ntemp %u\n", static_cast<unsigned>((after - before) * 1000000 / million),
         static_cast<unsigned>(method_allocator.used()), static_cast<unsigned>(temp));

  const Tensor tensor = method.get_output(0).to_tensor();
  FILE* file = fopen(argv[3], "wb");
  ET_CHECK_OR_RETURN(file != nullptr, AccessFailed, "cannot write %s", argv[3]);
  fwrite(tensor.const_data_ptr(), 1, tensor.nbytes(), file);
  fclose(file);
  return Error::Ok;
}

}  // namespace

namespace et::runtime {
uint64_t platform_now_ns() { return ticks(); }
}  // namespace et::runtime

int main(int argc, char** argv) {
  set_log_hook(print_message);
  const Error error = argc == 4 ? run(argv) : Error::InvalidArgument;
  if (error != Error::Ok) {
    printf("error: %s\n", to_string(error));
  }
  return static_cast<int>(error);
}
