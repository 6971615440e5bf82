// Texts of errors, on the device: numbers of each kind, and what the runtime says of a model that it cannot take.
//
// Takes the place of main.cpp in a project of `etpy firmware`; tests/targets/test_firmware_messages.py reads its lines.

#include <cinttypes>
#include <cstring>

#include "kernels.h"
#include "memory.h"
#include "model.h"
#include "report.h"

namespace {

using namespace et;           // NOLINT(google-build-using-namespace): a program, not a header
using namespace et::runtime;  // NOLINT(google-build-using-namespace)

alignas(16) uint8_t g_model[firmware::kModelBytes + 4];
alignas(16) uint8_t g_method_pool[firmware::kMethodPoolBytes];
alignas(64) uint8_t g_temp_pool[firmware::kTempPoolBytes];
alignas(16) uint8_t g_arena[firmware::kArenaBytes];

void write_numbers() {
  const int64_t least = INT64_MIN;
  const uint64_t most = UINT64_MAX;
  ET_LOG(kInfo, "integers %d %d %u %x %c", 0, -2147483647 - 1, 4294967295u, 48879u, 'M');
  ET_LOG(kInfo, "sizes %zu %zd %ld %lu", sizeof(void*), sizeof(void*), -70000L, 70000UL);
  ET_LOG(kInfo, "of 64 bits %" PRId64 " %" PRIu64 " %lld %d", least, most, 1234567890123LL, 7);
  ET_LOG(kInfo, "texts '%s' '%.*s' '%.4s' 100 %%", "whole", 3, "cut off", "ET12eh00");
  ET_LOG(kInfo, "floats %g %g %.9g %g %g", 0.1, -1234567.0, static_cast<double>(0.1f), 1e-10, 0.0);
}

/// Loads the model at an address, into a method with this many bytes for the pool and the arena, and runs it.
Error infer(const uint8_t* model, size_t method_nbytes, size_t temp_nbytes, size_t arena_lack) {
  BufferLoader loader(model, firmware::kModelBytes);
  ET_TRY(const Program program, firmware::load_program(&loader, model));
  KernelRegistry kernels;
  ET_RETURN_IF_ERROR(firmware::register_kernels(kernels));
  firmware::Pool method_pool("method pool", g_method_pool, method_nbytes);
  firmware::Pool temp_pool("temporary pool", g_temp_pool, temp_nbytes);
  Span<uint8_t> planned[firmware::kNumArenas];
  for (size_t i = 0, used = 0; i < firmware::kNumArenas; used += firmware::kArenas[i], ++i) {
    planned[i] = {g_arena + used, firmware::kArenas[i] - arena_lack};
  }
  const MemoryManager memory{&method_pool, {planned, firmware::kNumArenas}, &temp_pool, nullptr};
  MethodOptions options;
  options.kernels = &kernels;
  ET_TRY(Method method, firmware::load_method(program, firmware::kMethod, memory, options));
  for (size_t i = 0; i < method.num_inputs(); ++i) {
    ET_RETURN_IF_ERROR(firmware::set_input(method, i, firmware::kInputs[i].data, firmware::kInputs[i].size));
  }
  return method.execute();
}

}  // namespace

int main() {
  firmware::install_log();
  write_numbers();
  memcpy(g_model + 4, firmware::kModel, firmware::kModelBytes);
  const bool failed[] = {
      infer(g_model + 4, sizeof(g_method_pool), sizeof(g_temp_pool), 0) != Error::Ok,
      infer(firmware::kModel, 64, sizeof(g_temp_pool), 0) != Error::Ok,
      infer(firmware::kModel, sizeof(g_method_pool), 0, 0) != Error::Ok,
      infer(firmware::kModel, sizeof(g_method_pool), sizeof(g_temp_pool), 48) != Error::Ok,
      infer(firmware::kModel, sizeof(g_method_pool), sizeof(g_temp_pool), 0) == Error::Ok,
  };
  for (const bool is_there : failed) {
    if (!is_there) {
      return 1;
    }
  }
  return 0;
}
