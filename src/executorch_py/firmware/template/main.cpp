// Runs the model of this project on its test cases, and compares with what they expect.
//
// The exit status is 0 when each output is as expected. A product changes where the inputs come from and where the
// outputs go.

#include "backends.h"
#include "board/board.h"
#include "cases.h"
#include "cost.h"
#include "kernels.h"
#include "memory.h"
#include "model.h"
#include "report.h"
#include "trace.h"

namespace {

using namespace et;           // NOLINT(google-build-using-namespace): a program, not a header
using namespace et::runtime;  // NOLINT(google-build-using-namespace)
using firmware::write_number;

alignas(16) uint8_t g_method_pool[firmware::kMethodPoolBytes + firmware::kTracerBytes];
// Kernels take scratch memory at multiples of 64: what a run uses does not depend on where the pool lies.
alignas(64) uint8_t g_temp_pool[firmware::kTempPoolBytes];
alignas(16) uint8_t g_arena[firmware::kArenaBytes];

#ifdef FIRMWARE_CHECK_WEIGHTS
constexpr bool kCheckWeights = true;
#else
constexpr bool kCheckWeights = false;
#endif

Error run() {
  firmware::install_log();
  board::paint_stack();
  const uint64_t start = board::instructions();
  firmware::Trace trace;
  ET_TRY(const Span<const uint8_t> bytes, firmware::program_bytes());
  ET_RETURN_IF_ERROR(firmware::check_program(bytes.data(), kCheckWeights));
  BufferLoader loader(bytes.data(), bytes.size());
  ET_TRY(const Program program, firmware::load_program(&loader, bytes.data()));
  KernelRegistry kernels;
  if (const Error error = firmware::register_kernels(kernels); error != Error::Ok) {
    return firmware::fail("kernels", error);
  }
  firmware::Pool method_pool("method pool", g_method_pool, sizeof(g_method_pool));
  firmware::Pool temp_pool("temporary pool", g_temp_pool, sizeof(g_temp_pool));
  Span<uint8_t> planned[firmware::kNumArenas == 0 ? 1 : firmware::kNumArenas];
  for (size_t i = 0, used = 0; i < firmware::kNumArenas; used += firmware::kArenas[i], ++i) {
    planned[i] = {g_arena + used, firmware::kArenas[i]};
  }
  const MemoryManager memory{&method_pool, {planned, firmware::kNumArenas}, &temp_pool, nullptr};
  MethodOptions options;
  options.kernels = &kernels;
  ET_TRY(options.backends, firmware::backends());
  options.tracer = firmware::cost_tracer() != nullptr ? firmware::cost_tracer() : trace.tracer();
  Result<Method> loaded = firmware::load_method(program, firmware::kMethod, memory, options);
  if (!loaded.ok()) {
    method_pool.write_lack();
    temp_pool.write_lack();
    return loaded.error();
  }
  Method& method = *loaded;
  const uint64_t load_instructions = board::instructions() - start;
  const size_t load_stack = board::stack_used();
  for (size_t i = 0; i < method.meta().num_instructions(); ++i) {
    const Kernel* const kernel = method.kernel(i);
    if (kernel != nullptr && kernel->priority == kPriorityPortable) {
      board::write("plain kernel: ");
      board::write(kernel->name);
      board::write("\n");
    }
  }

  bool equal = true;
  uint64_t most_instructions = 0;
  size_t most_stack = 0;
  for (size_t i = 0; i < firmware::num_cases(); ++i) {
    board::paint_stack();
    trace.begin_case(i);
    ET_RETURN_IF_ERROR(firmware::set_inputs(method, i));
    const uint64_t before = board::instructions();
    if (const Error error = method.execute(); error != Error::Ok) {
      temp_pool.write_lack();
      return firmware::fail("execute", error);
    }
    const uint64_t instructions = board::instructions() - before;
    const size_t stack = board::stack_used();
    most_instructions = instructions > most_instructions ? instructions : most_instructions;
    most_stack = stack > most_stack ? stack : most_stack;
    equal = firmware::check_outputs(method, i) && equal;
  }
  ET_RETURN_IF_ERROR(trace.write());
  write_number("load: instructions ", load_instructions);
  write_number(", stack ", load_stack);
  write_number("\nexecute: instructions ", most_instructions);
  write_number(", stack ", most_stack);
  write_number("\nmemory: model ", firmware::kModelBytes);
  write_number(", arena ", sizeof(g_arena));
  write_number(", method ", method_pool.used());
  write_number(", temp ", temp_pool.most_used());
  board::write("\n");
  return equal ? Error::Ok : Error::Internal;
}

}  // namespace

int main() { return static_cast<int>(run()); }
