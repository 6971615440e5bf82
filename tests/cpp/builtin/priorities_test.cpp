// Several kernels of one operator are tried by priority. Of two of one priority the order of registration would decide,
// in silence.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "builtin/builtin.h"

namespace et::builtin {
namespace {

using runtime::Kernel;
using runtime::KernelTable;

TEST(Priorities, NoTwoKernelsOfAnOperatorHaveOne) {
  runtime::KernelRegistry kernels;
  runtime::BackendRegistry backends;
  ASSERT_EQ(register_all(kernels, backends), Error::Ok);
  std::map<std::pair<std::string, int>, std::string> seen;  // operator, priority: library
  for (const KernelTable& table : kernels.tables()) {
    for (const Kernel& kernel : table.kernels) {
      const auto [other, is_new] = seen.insert({{kernel.name, kernel.priority}, table.library});
      EXPECT_TRUE(is_new) << kernel.name << " has two kernels of priority " << int{kernel.priority} << ", one of '"
                          << other->second << "', one of '" << table.library << "'";
    }
  }
  EXPECT_GT(seen.size(), 400u);
}

}  // namespace
}  // namespace et::builtin
