// One workspace for the delegates of a method, as long as one of them is there.
#include "backends/xnnpack/runtime/workspace.h"

#include <gtest/gtest.h>

#include "backends/xnnpack/kernels/library.h"

namespace et::backends::xnnpack {
namespace {

TEST(Workspace, IsOneOfAMethod) {
  ASSERT_EQ(start_library(), Error::Ok);
  const int first = 0, second = 0;
  const auto workspace = workspace_of(&first);
  ASSERT_NE(workspace, nullptr);
  EXPECT_EQ(workspace_of(&first), workspace);
  EXPECT_NE(workspace_of(&second), workspace);
  EXPECT_NE(workspace_of(nullptr), workspace_of(nullptr));
}

TEST(Workspace, GoesWithTheLastDelegate) {
  ASSERT_EQ(start_library(), Error::Ok);
  const int method = 0;
  std::weak_ptr<xnn_workspace> gone;
  {
    const auto workspace = workspace_of(&method), again = workspace_of(&method);
    gone = workspace;
  }
  EXPECT_TRUE(gone.expired());
  EXPECT_NE(workspace_of(&method), nullptr);
}

}  // namespace
}  // namespace et::backends::xnnpack
