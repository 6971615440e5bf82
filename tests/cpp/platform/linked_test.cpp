// A program that defines functions of its own under the published names has them, whatever the port is.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "platform/platform.h"
#include "runtime/pal_functions.h"
#include "runtime/platform.h"

static std::string g_said;
static size_t g_blocks = 0;

extern "C" {
et_timestamp_t et_pal_current_ticks() { return 6; }
et_tick_ratio_t et_pal_ticks_to_ns_multiplier() { return {7, 2}; }
void et_pal_emit_log_message(et_timestamp_t at, et_pal_log_level_t level, const char*, const char*, size_t,
                             const char* message, size_t length) {
  g_said = std::to_string(at) + static_cast<char>(level) + std::string(message, length);
}
void et_pal_abort() { std::_Exit(9); }
void* et_pal_allocate(size_t nbytes) {
  ++g_blocks;
  return std::malloc(nbytes);
}
void et_pal_free(void* block) {
  --g_blocks;
  std::free(block);
}
}

namespace et::platform {
namespace {

TEST(Linked, FunctionsOfTheProgramComeBeforeThePorts) {
  ASSERT_EQ(start(), Error::Ok);
  EXPECT_EQ(current().now_ns(), 21u);
  EXPECT_EQ(runtime::platform_now_ns(), 21u);
  ET_LOG(kError, "lost %d", 3);
  EXPECT_EQ(g_said, "21Elost 3");
  void* const block = current().allocate(8, 8);
  EXPECT_EQ(g_blocks, 1u);
  current().free(block);
  EXPECT_EQ(g_blocks, 0u);
  EXPECT_EQ(current().allocate(8, 4096), nullptr) << "more than the published function promises";
  EXPECT_NE(current().enter_critical, nullptr) << "the port's, as there is no published name";
#if GTEST_HAS_DEATH_TEST  // not in WebAssembly, which has no second process
  EXPECT_EXIT({ abort(); }, testing::ExitedWithCode(9), "");
#endif
}

TEST(Linked, RunTimeComesBeforeLinkTime) {
  Platform other = {};
  other.now_ns = [] { return uint64_t{1}; };
  ASSERT_EQ(start(), Error::Ok);
  ASSERT_EQ(install(other), Error::Ok);
  EXPECT_EQ(runtime::platform_now_ns(), 1u);
}

}  // namespace
}  // namespace et::platform
