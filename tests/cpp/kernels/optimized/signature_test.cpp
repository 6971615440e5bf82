// Kernels of one operator have the same letters, but for what may lie in place: programs are checked against either.

#include <algorithm>
#include <string>

#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

std::string without_places(const char* signature) {
  std::string letters(signature);
  std::replace(letters.begin(), letters.end(), 'e', 'T');
  std::replace(letters.begin(), letters.end(), 'E', 't');
  return letters;
}

TEST(Signature, VectorKernelsHaveThePlainKernelsLetters) {
  size_t compared = 0;
  for (const runtime::KernelTable& table : test_registry().tables()) {
    for (const Kernel& kernel : table.kernels) {
      const Kernel* found[16];
      const size_t count = test_registry().find(kernel.name, found);
      const Kernel* const plain = count == 0 ? nullptr : found[count - 1];
      if (plain == nullptr || plain->priority != runtime::kPriorityPortable || plain == &kernel ||
          kernel.signature == nullptr) {
        continue;
      }
      EXPECT_EQ(without_places(kernel.signature), without_places(plain->signature)) << kernel.name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 300u);
}

}  // namespace
}  // namespace et::kernels::testing
