// Any bytes are safe as a .ptd; what is accepted can be looked up and read.

#include "../cpp/robustness/hostile_data_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static_cast<void>(et::test::run_hostile_data_file(data, size));
  return 0;
}
