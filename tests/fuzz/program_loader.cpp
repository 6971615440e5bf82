// Any bytes are safe for the loader; what it accepts can be run.

#include "../cpp/robustness/hostile_program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static_cast<void>(et::test::run_hostile_program(data, size));
  return 0;
}
