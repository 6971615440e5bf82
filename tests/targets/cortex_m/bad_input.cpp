// Bad input, on the device: each case prints "case NAME" and what the firmware says of it, and the program goes on.
//
// Takes the place of main.cpp in a project of `etpy firmware`; tests/targets/test_bad_input.py reads what it prints.

#include <cstring>

#include "board/board.h"
#include "kernels.h"
#include "memory.h"
#include "model.h"
#include "report.h"

namespace {

using namespace et;           // NOLINT(google-build-using-namespace): a program, not a header
using namespace et::runtime;  // NOLINT(google-build-using-namespace)

constexpr size_t kRounds = 2000;  // of damage at random places

alignas(16) uint8_t g_model[firmware::kModelBytes + 16];
alignas(16) uint8_t g_method_pool[firmware::kMethodPoolBytes];
alignas(64) uint8_t g_temp_pool[firmware::kTempPoolBytes];
alignas(16) uint8_t g_arena[firmware::kArenaBytes];
// What an inference uses; the first case finds it out.
size_t g_method_used = sizeof(g_method_pool);
size_t g_temp_used = sizeof(g_temp_pool);

/// What a case takes away.
struct Lack {
  size_t method = 0;
  size_t temp = 0;
  size_t arena = 0;
  bool kernels = false;
  ptrdiff_t input = 0;  // bytes that the first input has more
  size_t place = 0;     // of the input, beyond its own
};

/// One inference; the fault that it meets is what the firmware says.
Error infer(const uint8_t* model, Lack lack) {
  BufferLoader loader(model, firmware::kModelBytes);
  ET_TRY(const Program program, firmware::load_program(&loader, model));
  KernelRegistry kernels;
  if (!lack.kernels) {
    ET_RETURN_IF_ERROR(firmware::register_kernels(kernels));
  }
  firmware::Pool method_pool("method pool", g_method_pool, g_method_used - lack.method);
  firmware::Pool temp_pool("temporary pool", g_temp_pool, g_temp_used - lack.temp);
  Span<uint8_t> planned[firmware::kNumArenas];
  for (size_t i = 0, used = 0; i < firmware::kNumArenas; used += firmware::kArenas[i], ++i) {
    planned[i] = {g_arena + used, firmware::kArenas[i] - lack.arena};
  }
  const MemoryManager memory{&method_pool, {planned, firmware::kNumArenas}, &temp_pool, nullptr};
  MethodOptions options;
  options.kernels = &kernels;
  Result<Method> method = firmware::load_method(program, firmware::kMethod, memory, options);
  if (!method.ok()) {
    method_pool.write_lack();
    return method.error();
  }
  for (size_t i = 0; i < method->num_inputs(); ++i) {
    const firmware::Bytes& input = firmware::kInputs[i];
    const size_t nbytes = static_cast<size_t>(static_cast<ptrdiff_t>(input.size) + lack.input);
    ET_RETURN_IF_ERROR(firmware::set_input(*method, i + lack.place, input.data, nbytes));
  }
  const Error error = method->execute();
  if (error != Error::Ok) {
    static_cast<void>(firmware::fail("execute", error));
    temp_pool.write_lack();
  } else {
    g_method_used = method_pool.used();
    g_temp_used = temp_pool.most_used();
  }
  return error;
}

void run_case(const char* name, const uint8_t* model, Lack lack = {}) {
  board::write("case ");
  board::write(name);
  board::write("\n");
  firmware::write_number("code ", static_cast<uint64_t>(infer(model, lack)));
  board::write("\n");
}

/// Bytes of the header and the tables: what the header says.
size_t num_table_bytes() {
  uint32_t nbytes;
  memcpy(&nbytes, firmware::kModel + 16, sizeof(nbytes));
  return nbytes;
}

uint32_t g_random = 1;
uint32_t next_random(size_t bound) {
  g_random = g_random * 1664525u + 1013904223u;
  return static_cast<uint32_t>((uint64_t{g_random} * bound) >> 32);
}

/// Damages one to four bytes, mostly of the tables, and infers; nothing may fault, whatever comes of it.
void damage_at_random() {
  size_t refused = 0;
  for (size_t round = 0; round < kRounds; ++round) {
    memcpy(g_model, firmware::kModel, firmware::kModelBytes);
    const size_t range = round % 4 == 0 ? firmware::kModelBytes : num_table_bytes();
    for (uint32_t n = next_random(4) + 1; n > 0; --n) {
      const uint32_t byte = next_random(256);
      g_model[next_random(range)] = static_cast<uint8_t>(round % 3 == 0 ? byte >> 5 : byte);
    }
    g_method_used = sizeof(g_method_pool);
    g_temp_used = sizeof(g_temp_pool);
    board::write("damage\n");
    refused += infer(g_model, {}) == Error::Ok ? 0 : 1;
  }
  firmware::write_number("refused ", refused);
  board::write("\n");
}

}  // namespace

int main() {
  firmware::install_log();
  run_case("nothing", firmware::kModel);

  memcpy(g_model, firmware::kModel, firmware::kModelBytes);
  memcpy(g_model + 4, "ET99", 4);
  run_case("version", g_model);
  memset(g_model, 0, sizeof(g_model));
  run_case("erased", g_model);
  memset(g_model, 0xff, sizeof(g_model));
  run_case("erased flash", g_model);
  memcpy(g_model + 4, firmware::kModel, firmware::kModelBytes);
  run_case("misaligned", g_model + 4);
  memmove(g_model + 1, g_model + 4, firmware::kModelBytes);
  run_case("odd address", g_model + 1);

  run_case("method pool", firmware::kModel, Lack{16});
  run_case("half a method pool", firmware::kModel, Lack{g_method_used / 2});
  run_case("temporary pool", firmware::kModel, Lack{0, 16});
  run_case("arena", firmware::kModel, Lack{0, 0, 48});
  run_case("kernels", firmware::kModel, Lack{0, 0, 0, true});
  run_case("short input", firmware::kModel, Lack{0, 0, 0, false, -4});
  run_case("long input", firmware::kModel, Lack{0, 0, 0, false, 4});
  run_case("an input too many", firmware::kModel, Lack{0, 0, 0, false, 0, 1});

  damage_at_random();
  run_case("nothing", firmware::kModel);
  return 0;
}
