// Runs the model of this project once on its example inputs, and compares with what the host computed.
//
// The exit status is 0 when each output is what the host computed. A product changes where the inputs come from and
// where the outputs go.

#include <cstring>

#include "backends.h"
#include "board/board.h"
#include "kernels.h"
#include "memory.h"
#include "model.h"
#include "report.h"

namespace {

using namespace et;           // NOLINT(google-build-using-namespace): a program, not a header
using namespace et::runtime;  // NOLINT(google-build-using-namespace)
using firmware::write_number;

alignas(16) uint8_t g_method_pool[firmware::kMethodPoolBytes];
// Kernels take scratch memory at multiples of 64: what a run uses does not depend on where the pool lies.
alignas(64) uint8_t g_temp_pool[firmware::kTempPoolBytes];
alignas(16) uint8_t g_arena[firmware::kArenaBytes];

#ifdef FIRMWARE_CHECK_WEIGHTS
constexpr bool kCheckWeights = true;
#else
constexpr bool kCheckWeights = false;
#endif

/// True when these floats are as close as another library's exp() and order of sums leave them.
bool is_close(const Tensor& tensor, const uint8_t* wanted) {
  const auto* const values = static_cast<const float*>(tensor.const_data_ptr());
  for (int64_t e = 0; e < tensor.numel(); ++e) {
    float other;
    memcpy(&other, wanted + static_cast<size_t>(e) * sizeof(float), sizeof(float));
    const float difference = values[e] < other ? other - values[e] : values[e] - other;
    if (!(difference <= 1e-5f + 1e-4f * (other < 0 ? -other : other))) {
      return false;
    }
  }
  return true;
}

/// True when output `i` is what the host computed: the same bytes, or floats that are close.
bool is_as_on_host(const Method& method, size_t i) {
  const Tensor tensor = method.get_output(i).to_tensor();
  const firmware::Bytes& wanted = firmware::kOutputs[i];
  write_number("output ", i);
  const bool is_whole = tensor.nbytes() == wanted.size;
  if (is_whole && memcmp(tensor.const_data_ptr(), wanted.data, wanted.size) == 0) {
    board::write(": as on the host\n");
    return true;
  }
  const bool close = is_whole && tensor.scalar_type() == ScalarType::Float && is_close(tensor, wanted.data);
  board::write(close ? ": close to the host's\n" : ": differs from the host's\n");
  return close;
}

Error run() {
  firmware::install_log();
  board::paint_stack();
  const uint64_t start = board::instructions();
  ET_RETURN_IF_ERROR(firmware::check_model(firmware::kModel, kCheckWeights));
  BufferLoader loader(firmware::kModel, firmware::kModelBytes);
  ET_TRY(const Program program, firmware::load_program(&loader, firmware::kModel));
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
  write_number("load: instructions ", load_instructions);
  write_number(", stack ", load_stack);
  board::write("\n");

  board::paint_stack();
  for (size_t i = 0; i < method.num_inputs(); ++i) {
    ET_RETURN_IF_ERROR(firmware::set_input(method, i, firmware::kInputs[i].data, firmware::kInputs[i].size));
  }
  const uint64_t before = board::instructions();
  if (const Error error = method.execute(); error != Error::Ok) {
    temp_pool.write_lack();
    return firmware::fail("execute", error);
  }
  write_number("execute: instructions ", board::instructions() - before);
  write_number(", stack ", board::stack_used());
  write_number("\nmemory: model ", firmware::kModelBytes);
  write_number(", arena ", sizeof(g_arena));
  write_number(", method ", method_pool.used());
  write_number(", temp ", temp_pool.most_used());
  board::write("\n");

  bool equal = true;
  for (size_t i = 0; i < firmware::kNumOutputs; ++i) {
    equal = is_as_on_host(method, i) && equal;
  }
  return equal ? Error::Ok : Error::Internal;
}

}  // namespace

int main() { return static_cast<int>(run()); }
