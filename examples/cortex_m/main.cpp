// Runs one method of a .pte file on a bare-metal board, with static memory only.
//
//   cortex_m_runner MODEL.pte INPUT0.bin ... -- OUTPUT0.bin ...
//
// Files are the host's, reached through semihosting; a product would have the model in flash and call BufferLoader on
// it. Each INPUT holds the raw bytes of one tensor input, each OUTPUT gets those of one output. Prints the memory that
// was used.

#include <cstdio>
#include <cstring>

#include "kernels/portable/register.h"
#include "kernels/prim/register.h"
#include "runtime/method.h"

namespace {

using namespace et;           // NOLINT(google-build-using-namespace): a program, not a header
using namespace et::runtime;  // NOLINT(google-build-using-namespace)

__attribute__((section(".sram"), aligned(16))) uint8_t g_model[1 << 20];
__attribute__((section(".sram"), aligned(16))) uint8_t g_arena[1 << 20];
__attribute__((section(".sram"), aligned(16))) uint8_t g_inputs[256 << 10];
__attribute__((aligned(16))) uint8_t g_method_pool[96 << 10];
__attribute__((aligned(16))) uint8_t g_temp_pool[32 << 10];

void print_message(LogLevel, const char* file, int line, const char* message, size_t) {
  printf("%s:%d %s\n", file, line, message);
}

/// Reads a whole file into `memory`; 0 when it is missing, empty or too long.
size_t read_file(const char* path, uint8_t* memory, size_t capacity) {
  FILE* file = fopen(path, "rb");
  if (file == nullptr) {
    printf("cannot open %s\n", path);
    return 0;
  }
  const size_t nbytes = fread(memory, 1, capacity, file);
  const bool whole = fgetc(file) == EOF;
  fclose(file);
  if (!whole) {
    printf("%s is longer than %u bytes\n", path, static_cast<unsigned>(capacity));
  }
  return whole ? nbytes : 0;
}

/// Fills tensor input `i` of the method from a file.
Error set_input(Method& method, size_t i, const char* path, uint8_t* memory, size_t* used) {
  ET_TRY(const TensorInfo info, method.meta().input_tensor_info(i));
  const size_t nbytes = read_file(path, memory + *used, sizeof(g_inputs) - *used);
  ET_CHECK_OR_RETURN(nbytes == info.nbytes, InvalidArgument, "%s has %u bytes, input %u has %u", path,
                     static_cast<unsigned>(nbytes), static_cast<unsigned>(i), static_cast<unsigned>(info.nbytes));
  int64_t sizes[kMaxRank];
  int64_t strides[kMaxRank];
  for (size_t d = 0; d < info.sizes.size(); ++d) {
    sizes[d] = info.sizes[d];
  }
  TensorImpl impl(info.dtype, info.sizes.size(), sizes, strides, info.dim_order.data(), memory + *used, nbytes);
  *used += (nbytes + 15) / 16 * 16;
  return method.set_input(EValue(Tensor(&impl)), i);
}

Error write_output(const Method& method, size_t i, const char* path) {
  const Tensor tensor = method.get_output(i).to_tensor();
  FILE* file = fopen(path, "wb");
  ET_CHECK_OR_RETURN(file != nullptr, AccessFailed, "cannot write %s", path);
  const size_t written = fwrite(tensor.const_data_ptr(), 1, tensor.nbytes(), file);
  fclose(file);
  ET_CHECK_OR_RETURN(written == tensor.nbytes(), AccessFailed, "cannot write all of %s", path);
  return Error::Ok;
}

Error run(int argc, char** argv) {
  ET_CHECK_OR_RETURN(argc >= 2, InvalidArgument, "usage: MODEL.pte INPUT.bin ... -- OUTPUT.bin ...");
  const size_t model_size = read_file(argv[1], g_model, sizeof(g_model));
  BufferLoader loader(g_model, model_size);
  ET_TRY(const Program program, Program::load(&loader));

  KernelRegistry kernels;
  ET_RETURN_IF_ERROR(kernels::portable::register_portable_kernels(kernels));
  ET_RETURN_IF_ERROR(kernels::prim::register_prim_kernels(kernels));

  MemoryAllocator method_allocator(g_method_pool, sizeof(g_method_pool));
  MemoryAllocator temp_allocator(g_temp_pool, sizeof(g_temp_pool));
  ET_TRY(const MethodMeta meta, program.method_meta("forward"));
  ET_CHECK_OR_RETURN(meta.num_memory_planned_buffers() <= 1, NotSupported, "this program has one arena");
  const size_t arena =
      meta.num_memory_planned_buffers() == 0 ? 0 : static_cast<size_t>(meta.memory_planned_buffer_size(0));
  ET_CHECK_OR_RETURN(arena <= sizeof(g_arena), MemoryAllocationFailed, "the model plans %u bytes",
                     static_cast<unsigned>(arena));
  const Span<uint8_t> planned[] = {{g_arena, arena}};
  const MemoryManager memory{&method_allocator, {planned, meta.num_memory_planned_buffers()}, &temp_allocator, nullptr};
  MethodOptions options;
  options.kernels = &kernels;
  ET_TRY(Method method, program.load_method("forward", &memory, options));

  int argument = 2;
  size_t used = 0;
  for (size_t i = 0; argument < argc && strcmp(argv[argument], "--") != 0; ++i, ++argument) {
    ET_RETURN_IF_ERROR(set_input(method, i, argv[argument], g_inputs, &used));
  }
  ET_RETURN_IF_ERROR(method.execute());
  for (size_t i = 0; ++argument < argc; ++i) {
    ET_RETURN_IF_ERROR(write_output(method, i, argv[argument]));
  }
  printf("model %u, arena %u, method %u bytes\n", static_cast<unsigned>(model_size), static_cast<unsigned>(arena),
         static_cast<unsigned>(method_allocator.used()));
  return Error::Ok;
}

}  // namespace

int main(int argc, char** argv) {
  set_log_hook(print_message);
  const Error error = run(argc, argv);
  if (error != Error::Ok) {
    printf("error: %s\n", to_string(error));
  }
  return static_cast<int>(error);
}
