// The functions that XNNPACK calls: every tile of a grid once, with its extent, on a pool and without one.

#include <gtest/gtest.h>
#include <pthreadpool.h>

#include <atomic>
#include <limits>
#include <vector>

#include "threads/native_pool.h"
#include "threads/thread_pool.h"

namespace et::threads {
namespace {

/// Counts how often each element of a grid is covered; elements outside of it are failures.
struct Grid {
  std::vector<size_t> sizes;
  std::vector<std::atomic<int>> cells;
  std::atomic<int> outside{0};
  std::atomic<int> wrong_thread{0};
  size_t num_threads = 1;

  explicit Grid(std::vector<size_t> dims) : sizes(std::move(dims)), cells(count()) {}

  size_t count() const {
    size_t n = 1;
    for (const size_t size : sizes) {
      n *= size;
    }
    return n;
  }
  /// Marks the tile that begins at `at`; `extent` has the sizes of the last dimensions.
  void mark(std::vector<size_t> at, std::vector<size_t> extent) {
    extent.insert(extent.begin(), sizes.size() - extent.size(), 1);
    mark_from(0, 0, at, extent);
  }
  void check_thread(size_t thread) { wrong_thread += thread < num_threads ? 0 : 1; }
  bool is_covered_once() const {
    bool once = outside == 0 && wrong_thread == 0;
    for (const auto& cell : cells) {
      once = once && cell == 1;
    }
    return once;
  }

 private:
  void mark_from(size_t dim, size_t offset, const std::vector<size_t>& at, const std::vector<size_t>& extent) {
    if (dim == sizes.size()) {
      ++cells[offset];
      return;
    }
    for (size_t i = at[dim]; i < at[dim] + extent[dim]; ++i) {
      if (i >= sizes[dim]) {
        ++outside;
        return;
      }
      mark_from(dim + 1, offset * sizes[dim] + i, at, extent);
    }
  }
};

Grid& grid(void* context) { return *static_cast<Grid*>(context); }

void expect_all_loops(pthreadpool_t pool, size_t threads) {
  const auto run = [&](std::vector<size_t> sizes, auto&& loop) {
    Grid cells(std::move(sizes));
    cells.num_threads = threads;
    loop(&cells);
    EXPECT_TRUE(cells.is_covered_once()) << cells.sizes.size() << " dims, " << threads << " threads";
  };
  run({7},
      [&](void* c) { pthreadpool_parallelize_1d(pool, [](void* g, size_t i) { grid(g).mark({i}, {}); }, c, 7, 0); });
  run({7}, [&](void* c) {
    pthreadpool_parallelize_1d_with_thread(
        pool,
        [](void* g, size_t t, size_t i) {
          grid(g).check_thread(t);
          grid(g).mark({i}, {});
        },
        c, 7, 0);
  });
  run({7}, [&](void* c) {
    pthreadpool_parallelize_1d_tile_1d(pool, [](void* g, size_t i, size_t ti) { grid(g).mark({i}, {ti}); }, c, 7, 3, 0);
  });
  run({3, 5}, [&](void* c) {
    pthreadpool_parallelize_2d_tile_2d(
        pool, [](void* g, size_t i, size_t j, size_t ti, size_t tj) { grid(g).mark({i, j}, {ti, tj}); }, c, 3, 5, 2, 2,
        0);
  });
  run({2, 3, 5}, [&](void* c) {
    pthreadpool_parallelize_3d_tile_1d_with_thread(
        pool,
        [](void* g, size_t t, size_t i, size_t j, size_t k, size_t tk) {
          grid(g).check_thread(t);
          grid(g).mark({i, j, k}, {tk});
        },
        c, 2, 3, 5, 2, 0);
  });
  run({2, 3, 5}, [&](void* c) {
    pthreadpool_parallelize_3d_tile_2d_with_uarch(
        pool,
        [](void* g, uint32_t uarch, size_t i, size_t j, size_t k, size_t tj, size_t tk) {
          grid(g).wrong_thread += uarch == 1 ? 0 : 1;
          grid(g).mark({i, j, k}, {tj, tk});
        },
        c, 1, 3, 2, 3, 5, 2, 4, 0);
  });
  run({2, 1, 3, 2, 3, 5}, [&](void* c) {
    pthreadpool_parallelize_6d_tile_2d(
        pool,
        [](void* g, size_t i, size_t j, size_t k, size_t l, size_t m, size_t n, size_t tm, size_t tn) {
          grid(g).mark({i, j, k, l, m, n}, {tm, tn});
        },
        c, 2, 1, 3, 2, 3, 5, 2, 2, 0);
  });
}

TEST(PthreadpoolApi, EveryTileOnce) {
  EXPECT_EQ(pthreadpool_get_threads_count(nullptr), 1u);
  expect_all_loops(nullptr, 1);
  for (const size_t threads : {2, 3}) {
    ThreadPool* const pool = make_pool(threads);
    {
      const NativePool native(pool);
      ASSERT_EQ(pthreadpool_get_threads_count(native.get()), threads);
      for (int round = 0; round < 20; ++round) {
        expect_all_loops(native.get(), threads);
      }
    }
    destroy_pool(pool);
  }
}

TEST(PthreadpoolApi, LeavesTheRestOutOnceItIsTold) {
  constexpr size_t kPieces = 1000, kBefore = 10;
  ThreadPool* const pool = make_pool(2);
  {
    const NativePool native(pool);
    for (pthreadpool_t where : {static_cast<pthreadpool_t>(nullptr), static_cast<pthreadpool_t>(native.get())}) {
      std::atomic<size_t> done{0};
      const auto loop = [&] {
        pthreadpool_parallelize_1d(
            where, [](void* c, size_t) { ++*static_cast<std::atomic<size_t>*>(c); }, &done, kPieces, 0);
      };
      {
        const auto stops = [](const void* c) { return *static_cast<const std::atomic<size_t>*>(c) >= kBefore; };
        const StopScope scope(stops, &done);
        loop();
        loop();
      }
      EXPECT_GE(done, kBefore);
      EXPECT_LE(done, kBefore + 1);  // the other thread may have asked before
      done = 0;
      loop();
      EXPECT_EQ(done, kPieces);
    }
  }
  destroy_pool(pool);
}

#if defined(__riscv) || defined(__wasm__)
constexpr bool kCanFlush = false;
#else
constexpr bool kCanFlush = true;
#endif

TEST(PthreadpoolApi, FlushesDenormalsWhereItIsAsked) {
  const auto halve = [](void* out, size_t i) {
    volatile float x = std::numeric_limits<float>::min();
    x = x / 2;
    static_cast<std::atomic<int>*>(out)[i] = x == 0 ? 1 : 0;
  };
  ThreadPool* const pool = make_pool(2);
  {
    const NativePool native(pool);
    for (pthreadpool_t where : {static_cast<pthreadpool_t>(nullptr), static_cast<pthreadpool_t>(native.get())}) {
      for (const bool flush : {false, true}) {
        std::vector<std::atomic<int>> is_zero(64);
        pthreadpool_parallelize_1d(where, halve, is_zero.data(), is_zero.size(),
                                   flush ? PTHREADPOOL_FLAG_DISABLE_DENORMALS : 0);
        for (const auto& zero : is_zero) {
          EXPECT_EQ(zero, flush && kCanFlush ? 1 : 0);
        }
      }
    }
  }
  destroy_pool(pool);
}

}  // namespace
}  // namespace et::threads
