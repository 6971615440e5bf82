// The pool: every index once, nested and concurrent use, resizing, fork.

#include "threads/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "threads/native_pool.h"
#include "threads/parallel.h"

#if defined(ET_SINGLE_THREAD)
#define NEEDS_WORKERS() GTEST_SKIP() << "a build without threads (ET_BUILD_THREADS=OFF) has no workers"
#else
#define NEEDS_WORKERS() static_cast<void>(0)
#endif

namespace et::threads {
namespace {

struct PoolDeleter {
  void operator()(ThreadPool* pool) const { destroy_pool(pool); }
};

std::unique_ptr<ThreadPool, PoolDeleter> pool_of(size_t n) {
  return std::unique_ptr<ThreadPool, PoolDeleter>(make_pool(n));
}

TEST(ThreadPool, RunsEveryIndexOnce) {
  for (const size_t threads : {1, 2, 3}) {
    auto pool = pool_of(threads);
    for (const size_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> seen(count);
      parallel_tasks(pool.get(), count, [&](size_t i) { seen[i].fetch_add(1); });
      for (const auto& n : seen) {
        EXPECT_EQ(n.load(), 1);
      }
    }
  }
}

TEST(ThreadPool, RangesCoverWithoutOverlap) {
  auto pool = pool_of(2);
  for (const size_t count : {0, 1, 5, 16, 17, 1001}) {
    for (const size_t grain : {1, 4, 1000}) {
      std::vector<std::atomic<int>> seen(count);
      std::atomic<int> calls{0};
      parallel_for(pool.get(), count, grain, [&](size_t begin, size_t end) {
        ASSERT_LT(begin, end);
        calls.fetch_add(1);
        for (size_t i = begin; i < end; ++i) {
          seen[i].fetch_add(1);
        }
      });
      for (const auto& n : seen) {
        EXPECT_EQ(n.load(), 1);
      }
      if (count > 0 && count <= grain) {
        EXPECT_EQ(calls.load(), 1);
      }
    }
  }
}

TEST(ThreadPool, SmallWorkStaysOnTheCallingThread) {
  const auto here = std::this_thread::get_id();
  auto pool = pool_of(2);
  parallel_for(pool.get(), 10, 100, [&](size_t, size_t) { EXPECT_EQ(std::this_thread::get_id(), here); });
  parallel_for(nullptr, 1000, 1, [&](size_t, size_t) { EXPECT_EQ(std::this_thread::get_id(), here); });
}

TEST(ThreadPool, NestedRunsFinish) {
  auto pool = pool_of(2);
  std::atomic<int> inner{0};
  parallel_tasks(pool.get(), 4, [&](size_t) { parallel_tasks(pool.get(), 4, [&](size_t) { inner.fetch_add(1); }); });
  EXPECT_EQ(inner.load(), 16);
}

TEST(ThreadPool, ConcurrentCallersDoNotWaitForEachOther) {
  NEEDS_WORKERS();
  auto pool = pool_of(2);
  std::atomic<long> total{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        long sums[8] = {};
        parallel_tasks(pool.get(), 8, [&](size_t i) { sums[i] = static_cast<long>(i); });
        total.fetch_add(std::accumulate(sums, sums + 8, 0L));
      }
    });
  }
  for (auto& caller : callers) {
    caller.join();
  }
  EXPECT_EQ(total.load(), 4L * 200 * 28);
}

TEST(ThreadPool, ChangesItsSizeWhileInUse) {
  NEEDS_WORKERS();
  auto pool = pool_of(2);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    for (size_t n = 1; !stop.load(); n = n % 3 + 1) {
      pool->set_num_threads(n);
      std::this_thread::yield();
    }
  });
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> calls{0};
    parallel_tasks(pool.get(), 16, [&](size_t) { calls.fetch_add(1); });
    EXPECT_EQ(calls.load(), 16);
  }
  stop = true;
  other.join();
}

TEST(ThreadPool, DefaultPoolHasTheAskedForThreads) {
  NEEDS_WORKERS();
  const size_t before = num_threads();
  EXPECT_GE(before, 1u);
  set_num_threads(2);
  EXPECT_EQ(num_threads(), 2u);
  EXPECT_EQ(default_pool()->num_threads(), 2u);
  set_num_threads(0);
  EXPECT_EQ(num_threads(), std::max(1u, std::thread::hardware_concurrency()));
  set_num_threads(before);
}

TEST(ThreadPool, RestingWorkersWakeAgain) {
  auto pool = pool_of(2);
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> calls{0};
    parallel_tasks(pool.get(), 4, [&](size_t) { calls.fetch_add(1); });
    pool->rest();
    EXPECT_EQ(calls.load(), 4);
  }
}

/// Processor time of this process while the calling thread sleeps for `duration`.
std::chrono::milliseconds busy_during(std::chrono::milliseconds duration) {
  const auto processor_time = [] {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return std::chrono::milliseconds(now.tv_sec * 1000 + now.tv_nsec / 1000000);
  };
  const auto before = processor_time();
  std::this_thread::sleep_for(duration);
  return processor_time() - before;
}

TEST(ThreadPool, WorkersSleepAfterACallThatStandsAlone) {
  auto pool = pool_of(2);
  pool->end_call();  // nothing was used: nothing happens
  for (int call = 0; call < 3; ++call) {
    std::atomic<int> calls{0};
    parallel_tasks(pool.get(), 4, [&](size_t) { calls.fetch_add(1); });
    EXPECT_EQ(calls.load(), 4);
    pool->end_call();
    EXPECT_LE(busy_during(std::chrono::milliseconds(30)).count(), 4);
  }
}

TEST(ThreadPool, CallsInALoopUseTheWorkersEachTime) {
  auto pool = pool_of(2);
  for (int call = 0; call < 1000; ++call) {
    std::atomic<int> calls{0};
    parallel_tasks(pool.get(), 4, [&](size_t) { calls.fetch_add(1); });
    EXPECT_EQ(calls.load(), 4);
    pool->end_call();
  }
}

TEST(NativePool, IsHeldOnce) {
  NEEDS_WORKERS();
  auto pool = pool_of(2);
  NativePool first(pool.get());
  EXPECT_NE(first.get(), nullptr);
  NativePool second(pool.get());
  EXPECT_EQ(second.get(), nullptr) << "a pool in use gives nothing: the work is done here";
  auto single = pool_of(1);
  EXPECT_EQ(NativePool(single.get()).get(), nullptr);
  EXPECT_EQ(NativePool(nullptr).get(), nullptr);
}

/// What the log hook saw on this thread.
std::vector<std::string>& lines() {
  static thread_local std::vector<std::string> instance;
  return instance;
}

TEST(ThreadPool, ErrorsOfWorkersReachTheCaller) {
  NEEDS_WORKERS();
  set_log_hook([](LogLevel level, const char*, int, const char* text, size_t) {
    lines().push_back((level == LogLevel::kError     ? "E "
                       : level == LogLevel::kContext ? "C "
                                                     : "W ") +
                      std::string(text));
  });
  for (const size_t threads : {1, 2, 4}) {
    auto pool = pool_of(threads);
    lines().clear();
    std::atomic<int> errors{0};
    parallel_tasks(pool.get(), 64, [&](size_t i) {
      if (i == 0) {  // the others get their share first
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      if (i % 7 == 3 && (threads > 1 || errors.load() == 0)) {
        ET_LOG_ERROR("task %zu failed", i);
        ET_LOG_CONTEXT("in task %zu", i);
        errors.fetch_add(1);
      }
    });
    EXPECT_EQ(lines(), (std::vector<std::string>{"E task 3 failed", "C in task 3"})) << threads << " threads";
  }
  set_log_hook(nullptr);
}

TEST(ThreadPool, ErrorsOfNestedLoopsBelongToTheOuterTask) {
  NEEDS_WORKERS();
  set_log_hook([](LogLevel, const char*, int, const char* text, size_t) { lines().emplace_back(text); });
  auto pool = pool_of(2);
  lines().clear();
  parallel_tasks(pool.get(), 4, [&](size_t outer) {
    parallel_tasks(pool.get(), 4, [&](size_t inner) {
      if (outer == 1 || outer == 2) {
        ET_LOG_ERROR("task %zu of %zu", inner, outer);
      }
    });
  });
  EXPECT_EQ(lines(), std::vector<std::string>{"task 3 of 1"}) << "the last thing that the first failed task said";
  lines().clear();
  ET_LOG_ERROR("outside");
  EXPECT_EQ(lines(), std::vector<std::string>{"outside"});
  set_log_hook(nullptr);
}

// ThreadSanitizer refuses threads in the child of a process that had some; WebAssembly has no fork().
#if !defined(__SANITIZE_THREAD__) && !defined(__EMSCRIPTEN__)
TEST(ThreadPool, WorksInAForkedChild) {
  auto pool = pool_of(2);
  std::atomic<int> before{0};
  parallel_tasks(pool.get(), 8, [&](size_t) { before.fetch_add(1); });
  ASSERT_EQ(before.load(), 8);
  for (const bool held : {false, true}) {
    // A thread that holds the pool in the parent does not exist in the child: the child must not find it held.
    std::unique_ptr<NativePool> hold(held ? new NativePool(pool.get()) : nullptr);
    const pid_t child = fork();
    if (child == 0) {
      std::set<std::thread::id> ids;
      std::atomic<int> calls{0};
      parallel_tasks(pool.get(), 64, [&](size_t) { calls.fetch_add(1); });
      const bool remade = NativePool(pool.get()).get() != nullptr;
      _exit(calls.load() == 64 && remade ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  std::atomic<int> after{0};
  parallel_tasks(pool.get(), 8, [&](size_t) { after.fetch_add(1); });
  EXPECT_EQ(after.load(), 8);
}
#endif

}  // namespace
}  // namespace et::threads
