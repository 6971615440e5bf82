#include "network.h"

#include "board/board.h"
#include "kernels.h"
#include "memory.h"
#include "model.h"
#include "parameters.h"
#include "report.h"

namespace application {
namespace {

using namespace et;           // NOLINT(google-build-using-namespace): a program, not a header
using namespace et::runtime;  // NOLINT(google-build-using-namespace)

alignas(16) uint8_t g_method_pool[firmware::kMethodPoolBytes];
alignas(64) uint8_t g_temp_pool[firmware::kTempPoolBytes];
alignas(16) uint8_t g_arena[firmware::kArenaBytes];
int8_t g_input[kNumInputs];

Error start(int argc, char** argv, int& status) {
  firmware::install_log();
  BufferLoader loader(firmware::kModel, firmware::kModelBytes);
  ET_TRY(const Program program, firmware::load_program(&loader, firmware::kModel));
  KernelRegistry kernels;
  ET_RETURN_IF_ERROR(firmware::register_kernels(kernels));
  firmware::Pool method_pool("method pool", g_method_pool, sizeof(g_method_pool));
  firmware::Pool temp_pool("temporary pool", g_temp_pool, sizeof(g_temp_pool));
  Span<uint8_t> planned[] = {{g_arena, sizeof(g_arena)}};
  const MemoryManager memory{&method_pool, {planned, 1}, &temp_pool, nullptr};
  MethodOptions options;
  options.kernels = &kernels;
  ET_TRY(Method method, firmware::load_method(program, firmware::kMethod, memory, options));
  Network network(method);
  status = run(network, argc, argv);
  return Error::Ok;
}

}  // namespace

const int8_t* Network::run(const int8_t* values) {
  for (size_t i = 0; i < kNumInputs; ++i) {
    g_input[i] = kSteps[values[i] + 128];
  }
  if (firmware::set_input(method_, 0, g_input, kNumInputs) != Error::Ok) {
    return nullptr;
  }
  const uint64_t before = board::instructions();
  if (const Error error = method_.execute(); error != Error::Ok) {
    static_cast<void>(firmware::fail("execute", error));
    return nullptr;
  }
  instructions_ += board::instructions() - before;
  return method_.get_output(0).to_tensor().const_data_ptr<int8_t>();
}

}  // namespace application

int main(int argc, char** argv) {
  int status = 1;
  const et::Error error = application::start(argc, argv, status);
  return error == et::Error::Ok ? status : static_cast<int>(error);
}
