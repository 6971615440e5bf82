// What every port promises. Compiled once for each, with the fake of its kernel.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "../base/needs.h"
#include "fake.h"
#include "platform/platform.h"
#include "platform/task_pool.h"
#include "runtime/platform.h"

namespace et::platform {
namespace {

class Port : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(start(), Error::Ok); }
};

TEST_F(Port, TheClockNeverGoesBackAndIsTheRuntimes) {
  uint64_t last = current().now_ns();
  const uint64_t first = last;
  for (int i = 0; i < 200; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const uint64_t now = current().now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_GT(last, first);
  EXPECT_LT(last - first, 60'000'000'000u) << "a turn of the counter was taken for time";
  EXPECT_GE(runtime::platform_now_ns(), last);
}

TEST_F(Port, AMessageIsWrittenWhole) {
  const int num_threads = current().start_thread == nullptr ? 1 : 4;
  if (num_threads > 1) {  // a port that writes to stderr
    ET_NEEDS_REDIRECTION();
  }
  static_cast<void>(take_written());
  testing::internal::CaptureStderr();
  const auto say = [](int t) {
    for (int i = 0; i < 20; ++i) {
      ET_LOG(kError, "thread %d says %s", t, std::string(40, static_cast<char>('a' + t)).c_str());
    }
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < num_threads; ++t) {
    threads.emplace_back(say, t);
  }
  say(0);
  for (std::thread& thread : threads) {
    thread.join();
  }
  const std::string text = testing::internal::GetCapturedStderr() + take_written();
  for (int t = 0; t < num_threads; ++t) {
    const std::string line = "thread " + std::to_string(t) + " says " + std::string(40, static_cast<char>('a' + t));
    size_t count = 0;
    for (size_t at = text.find(line); at != std::string::npos; at = text.find(line, at + 1)) {
      const char end = text[at + line.size()];
      count += end == '\n' || end == '\r' ? 1 : 0;
    }
    EXPECT_EQ(count, 20u) << text;
  }
}

TEST_F(Port, MemoryIsAlignedAndComesBack) {
  if (current().allocate == nullptr) {
    EXPECT_EQ(current().free, nullptr);
    return;
  }
  for (int round = 0; round < 300; ++round) {  // what is not given back would be missed
    std::vector<void*> blocks;
    for (size_t alignment = 1; alignment <= 256; alignment *= 2) {
      void* const block = current().allocate(600 + alignment, alignment);
      ASSERT_NE(block, nullptr) << round;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u);
      std::memset(block, static_cast<int>(alignment), 600 + alignment);
      blocks.push_back(block);
    }
    for (void* const block : blocks) {
      current().free(block);
    }
  }
  current().free(nullptr);
  EXPECT_EQ(current().allocate(SIZE_MAX / 2, 16), nullptr);
  EXPECT_EQ(current().allocate(SIZE_MAX, 16), nullptr);
}

TEST_F(Port, ACriticalSectionIsOneThreadsAndNests) {
  volatile int counter = 0;
  const auto count = [&counter] {
    for (int i = 0; i < 20000; ++i) {
      const uintptr_t outer = current().enter_critical();
      const uintptr_t inner = current().enter_critical();
      counter = counter + 1;
      current().leave_critical(inner);
      counter = counter + 1;  // still inside
      current().leave_critical(outer);
    }
  };
  if (current().start_thread == nullptr) {  // one thread: they nest and end
    count();
    EXPECT_EQ(counter, 40000);
    return;
  }
  ET_NEEDS_THREADS();
  std::thread other(count);
  count();
  other.join();
  EXPECT_EQ(counter, 80000);
}

TEST_F(Port, APoolDoesEachTaskOnce) {
  static TaskPool* const pool = new TaskPool;  // its threads never end
  if (current().start_thread == nullptr) {
    EXPECT_EQ(pool->start(1), Error::NotSupported);
  } else {
    ET_NEEDS_THREADS();
    ASSERT_EQ(pool->start(2), Error::Ok);
    EXPECT_EQ(pool->start(2), Error::InvalidState);
    EXPECT_EQ(pool->num_threads(), 3u);
  }
  for (size_t count = 0; count < 400; ++count) {
    std::vector<std::atomic<int>> done(count);
    pool->run(
        count, [](void* counts, size_t i) { ++(*static_cast<std::vector<std::atomic<int>>*>(counts))[i]; }, &done);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(done[i], 1) << i << " of " << count;
    }
  }
  std::atomic<int> inner{0};  // a loop in a loop
  struct Nested {
    TaskPool* pool;
    std::atomic<int>* count;
  } nested = {pool, &inner};
  pool->run(
      8,
      [](void* given, size_t) {
        const auto* const both = static_cast<Nested*>(given);
        both->pool->run(5, [](void* count, size_t) { ++*static_cast<std::atomic<int>*>(count); }, both->count);
      },
      &nested);
  EXPECT_EQ(inner, 40);
}

TEST_F(Port, ThreadsThatCannotStartAreAnError) {
  if (current().start_thread == nullptr) {
    return;
  }
  static TaskPool* const pool = new TaskPool;
  size_t started = 0;
  Platform limited = {};
  static size_t left = 1;
  static bool (*const real)(void (*)(void*), void*) = current().start_thread;
  left = 0;
  limited.start_thread = [](void (*entry)(void*), void* argument) { return left-- > 0 && real(entry, argument); };
  limited.make_signal = current().make_signal;
  limited.give = current().give;
  limited.wait = current().wait;
  ASSERT_EQ(install(limited), Error::Ok);
  EXPECT_EQ(pool->start(2), Error::OutOfResources);
  pool->run(3, [](void* count, size_t) { ++*static_cast<size_t*>(count); }, &started);
  EXPECT_EQ(started, 3u) << "a pool without threads works on the calling one";
  limited.start_thread = real;
  ASSERT_EQ(install(limited), Error::Ok);
}

TEST_F(Port, FunctionsAreExchangedAtRunTimeOneByOne) {
  const Platform before = current();
  Platform other = {};
  other.now_ns = [] { return uint64_t{42}; };
  static std::string said;
  other.write = [](LogLevel, const char* text, size_t length) { said.assign(text, length); };
  ASSERT_EQ(install(other), Error::Ok);
  EXPECT_EQ(runtime::platform_now_ns(), 42u);
  ET_LOG(kError, "to the %s", "other");
  EXPECT_EQ(said, "to the other");
  EXPECT_EQ(current().enter_critical, before.enter_critical);
  Platform half = {};
  half.free = [](void*) {};
  EXPECT_EQ(install(half), Error::InvalidArgument);
  EXPECT_EQ(current().free, before.free);
  ASSERT_EQ(install(before), Error::Ok);
}

#if GTEST_HAS_DEATH_TEST  // not in WebAssembly, which has no second process
TEST_F(Port, AbortDoesNotComeBack) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH({ abort(); }, "");
}
#endif

}  // namespace
}  // namespace et::platform
