// The model as functions that index.html calls: one tensor goes in, the first output comes out.
#include <emscripten.h>

#include <cstdlib>

#include "backends.h"
#include "cases.h"
#include "kernels.h"
#include "memory.h"
#include "model.h"
#include "report.h"

namespace {

using namespace et;           // NOLINT(google-build-using-namespace): a program, not a header
using namespace et::runtime;  // NOLINT(google-build-using-namespace)

alignas(16) uint8_t g_method_pool[firmware::kMethodPoolBytes];
alignas(64) uint8_t g_temp_pool[firmware::kTempPoolBytes];
alignas(16) uint8_t g_arena[firmware::kArenaBytes];
uint8_t* g_input = nullptr;
Method* g_method = nullptr;

/// What a method stands on; it stays as long as the page.
struct Ground {
  Span<const uint8_t> bytes{firmware::kModel, firmware::kModelBytes};
  BufferLoader loader{bytes.data(), bytes.size()};
  KernelRegistry kernels;
  firmware::Pool method_pool{"method pool", g_method_pool, sizeof(g_method_pool)};
  firmware::Pool temp_pool{"temporary pool", g_temp_pool, sizeof(g_temp_pool)};
  Span<uint8_t> planned[firmware::kNumArenas == 0 ? 1 : firmware::kNumArenas];
};

Result<Method> load(const Program& program, Ground& ground) {
  ET_RETURN_IF_ERROR(firmware::register_kernels(ground.kernels));
  for (size_t i = 0, used = 0; i < firmware::kNumArenas; used += firmware::kArenas[i], ++i) {
    ground.planned[i] = {g_arena + used, firmware::kArenas[i]};
  }
  const MemoryManager memory{&ground.method_pool, {ground.planned, firmware::kNumArenas}, &ground.temp_pool, nullptr};
  MethodOptions options;
  options.kernels = &ground.kernels;
  ET_TRY(options.backends, firmware::backends());
  return firmware::load_method(program, firmware::kMethod, memory, options);
}

Error start() {
  firmware::install_log();
  static Ground ground;
  static Result<Program> program = firmware::load_program(&ground.loader, ground.bytes.data());
  ET_RETURN_IF_ERROR(program.error());
  static Result<Method> method = load(*program, ground);
  ET_RETURN_IF_ERROR(method.error());
  g_input = static_cast<uint8_t*>(std::malloc(firmware::kInputs[0].size));
  g_method = g_input == nullptr ? nullptr : &*method;
  return g_method == nullptr ? Error::MemoryAllocationFailed : Error::Ok;
}

Tensor tensor(int is_output) { return (is_output != 0 ? g_method->get_output(0) : g_method->get_input(0)).to_tensor(); }

}  // namespace

extern "C" {
/// 0, or an error's code; `model_error` has its name. The others may be called behind a 0.
EMSCRIPTEN_KEEPALIVE int model_start() { return static_cast<int>(start()); }
EMSCRIPTEN_KEEPALIVE const char* model_error(int code) { return to_string(static_cast<Error>(code)); }
/// Of input 0 or, with 1, output 0: its dimensions; size and stride of one; its dtype as PyTorch numbers it; its bytes.
EMSCRIPTEN_KEEPALIVE int model_rank(int is_output) { return static_cast<int>(tensor(is_output).dim()); }
EMSCRIPTEN_KEEPALIVE int model_size(int is_output, int d) {
  return static_cast<int>(tensor(is_output).sizes()[static_cast<size_t>(d)]);
}
EMSCRIPTEN_KEEPALIVE int model_stride(int is_output, int d) {
  return static_cast<int>(tensor(is_output).strides()[static_cast<size_t>(d)]);
}
EMSCRIPTEN_KEEPALIVE int model_dtype(int is_output) { return static_cast<int>(tensor(is_output).scalar_type()); }
EMSCRIPTEN_KEEPALIVE const void* model_bytes(int is_output) {
  return is_output != 0 ? tensor(1).const_data_ptr() : g_input;
}
/// Runs the model on what stands in the input's bytes; 0, or an error's code.
EMSCRIPTEN_KEEPALIVE int model_run() {
  Error error = firmware::set_input(*g_method, 0, g_input, firmware::kInputs[0].size);
  error = error == Error::Ok ? g_method->execute() : error;
  return static_cast<int>(error);
}
}
