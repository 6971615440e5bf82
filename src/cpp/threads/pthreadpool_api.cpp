// pthreadpool's interface on our WorkerPool, for kernel libraries that call it by name. Only the loops: pools are made
// by shared_pool.cpp, and a `pthreadpool` is a WorkerPool. A null pool means the calling thread alone.
//
// All loops are one: dimensions are flattened into one index, and a tile is one step of its dimension. Where
// pthreadpool tells a task on what kind of core it runs (the `uarch` of big.LITTLE processors), tasks here get the
// default they gave.

#include <pthreadpool.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "threads/native_pool.h"
#include "threads/worker_pool.h"

namespace {

using et::threads::StopScope;
using et::threads::WorkerPool;

thread_local const StopScope* t_scope = nullptr;

/// The loop over a grid of kDims dimensions, the last kTiles of which advance by tiles. `First` are arguments that a
/// task gets before its position: a kind of core, or nothing.
template <bool kWithThread, size_t kDims, size_t kTiles, typename Task, typename... First>
class Grid {
 public:
  using Range = std::array<size_t, kDims>;
  using Tile = std::array<size_t, kTiles>;

  Grid(Task task, void* context, const Range& range, const Tile& tile, First... first)
      : task_(task), context_(context), range_(range), tile_(tile), first_(first...) {
    for (size_t d = 0; d < kDims; ++d) {
      steps_[d] = d < kUntiled ? range[d] : (range[d] + tile[d - kUntiled] - 1) / tile[d - kUntiled];
    }
  }

  void run(pthreadpool* pool, uint32_t flags) {
    if (scope_ != nullptr && scope_->stops()) {
      return;  // handing over to workers may take milliseconds on a busy machine, for each of hundreds of loops
    }
    size_t count = 1;
    for (const size_t steps : steps_) {
      count *= steps;  // the position of every tile is a position in memory: no overflow
    }
    const bool flush = (flags & PTHREADPOOL_FLAG_DISABLE_DENORMALS) != 0;
    if (pool != nullptr) {
      reinterpret_cast<WorkerPool*>(pool)->run(count, &Grid::call, this, flush);
    } else {
      WorkerPool::run_here(count, &Grid::call, this, flush);
    }
  }

 private:
  static constexpr size_t kUntiled = kDims - kTiles;

  static void call(void* opaque, size_t thread, size_t index) {
    const Grid& grid = *static_cast<const Grid*>(opaque);
    if (grid.scope_ == nullptr || !grid.scope_->stops()) {
      grid.call_at(thread, index, std::make_index_sequence<kDims>(), std::make_index_sequence<kTiles>(),
                   std::index_sequence_for<First...>());
    }
  }

  template <size_t... D, size_t... T, size_t... F>
  void call_at(size_t thread, size_t index, std::index_sequence<D...>, std::index_sequence<T...>,
               std::index_sequence<F...>) const {
    Range at;
    for (size_t d = kDims; d-- > 1;) {
      at[d] = index % steps_[d];
      index /= steps_[d];
    }
    at[0] = index;
    Tile extent{};
    for (size_t t = 0; t < kTiles; ++t) {
      const size_t d = kUntiled + t;
      at[d] *= tile_[t];
      extent[t] = std::min(tile_[t], range_[d] - at[d]);
    }
    if constexpr (kWithThread) {
      task_(context_, std::get<F>(first_)..., thread, at[D]..., extent[T]...);
    } else {
      task_(context_, std::get<F>(first_)..., at[D]..., extent[T]...);
    }
  }

  Task task_;
  void* context_;
  Range range_;
  Tile tile_;
  Range steps_;
  std::tuple<First...> first_;
  const StopScope* scope_ = t_scope;
};

template <bool kWithThread = false, size_t kDims, size_t kTiles = 0, typename Task, typename... First>
void loop(pthreadpool_t pool, uint32_t flags, Task task, void* context, const size_t (&range)[kDims],
          const std::array<size_t, kTiles>& tile = {}, First... first) {
  std::array<size_t, kDims> sizes;
  std::copy(std::begin(range), std::end(range), sizes.begin());
  Grid<kWithThread, kDims, kTiles, Task, First...>(task, context, sizes, tile, first...).run(pool, flags);
}

using Tile1 = std::array<size_t, 1>;
using Tile2 = std::array<size_t, 2>;

}  // namespace

namespace et::threads {

StopScope::StopScope(Question question, const void* context)
    : question_(question), context_(context), outer_(std::exchange(t_scope, this)) {}

StopScope::~StopScope() { t_scope = outer_; }

const StopScope* StopScope::current() { return t_scope; }

}  // namespace et::threads

extern "C" {

size_t pthreadpool_get_threads_count(pthreadpool_t pool) {
  return pool == nullptr ? 1 : reinterpret_cast<WorkerPool*>(pool)->num_threads();
}

void pthreadpool_parallelize_1d(pthreadpool_t pool, pthreadpool_task_1d_t task, void* context, size_t range,
                                uint32_t flags) {
  loop(pool, flags, task, context, {range});
}

void pthreadpool_parallelize_1d_with_thread(pthreadpool_t pool, pthreadpool_task_1d_with_thread_t task, void* context,
                                            size_t range, uint32_t flags) {
  loop<true>(pool, flags, task, context, {range});
}

void pthreadpool_parallelize_1d_tile_1d(pthreadpool_t pool, pthreadpool_task_1d_tile_1d_t task, void* context,
                                        size_t range, size_t tile, uint32_t flags) {
  loop(pool, flags, task, context, {range}, Tile1{tile});
}

void pthreadpool_parallelize_2d(pthreadpool_t pool, pthreadpool_task_2d_t task, void* context, size_t range_i,
                                size_t range_j, uint32_t flags) {
  loop(pool, flags, task, context, {range_i, range_j});
}

void pthreadpool_parallelize_2d_with_thread(pthreadpool_t pool, pthreadpool_task_2d_with_thread_t task, void* context,
                                            size_t range_i, size_t range_j, uint32_t flags) {
  loop<true>(pool, flags, task, context, {range_i, range_j});
}

void pthreadpool_parallelize_2d_tile_1d(pthreadpool_t pool, pthreadpool_task_2d_tile_1d_t task, void* context,
                                        size_t range_i, size_t range_j, size_t tile_j, uint32_t flags) {
  loop(pool, flags, task, context, {range_i, range_j}, Tile1{tile_j});
}

void pthreadpool_parallelize_2d_tile_1d_with_uarch(pthreadpool_t pool, pthreadpool_task_2d_tile_1d_with_id_t task,
                                                   void* context, uint32_t uarch, uint32_t, size_t range_i,
                                                   size_t range_j, size_t tile_j, uint32_t flags) {
  loop(pool, flags, task, context, {range_i, range_j}, Tile1{tile_j}, uarch);
}

void pthreadpool_parallelize_2d_tile_1d_with_uarch_with_thread(pthreadpool_t pool,
                                                               pthreadpool_task_2d_tile_1d_with_id_with_thread_t task,
                                                               void* context, uint32_t uarch, uint32_t, size_t range_i,
                                                               size_t range_j, size_t tile_j, uint32_t flags) {
  loop<true>(pool, flags, task, context, {range_i, range_j}, Tile1{tile_j}, uarch);
}

void pthreadpool_parallelize_2d_tile_2d(pthreadpool_t pool, pthreadpool_task_2d_tile_2d_t task, void* context,
                                        size_t range_i, size_t range_j, size_t tile_i, size_t tile_j, uint32_t flags) {
  loop(pool, flags, task, context, {range_i, range_j}, Tile2{tile_i, tile_j});
}

void pthreadpool_parallelize_2d_tile_2d_with_uarch(pthreadpool_t pool, pthreadpool_task_2d_tile_2d_with_id_t task,
                                                   void* context, uint32_t uarch, uint32_t, size_t range_i,
                                                   size_t range_j, size_t tile_i, size_t tile_j, uint32_t flags) {
  loop(pool, flags, task, context, {range_i, range_j}, Tile2{tile_i, tile_j}, uarch);
}

void pthreadpool_parallelize_3d(pthreadpool_t pool, pthreadpool_task_3d_t task, void* context, size_t range_i,
                                size_t range_j, size_t range_k, uint32_t flags) {
  loop(pool, flags, task, context, {range_i, range_j, range_k});
}

void pthreadpool_parallelize_3d_tile_1d(pthreadpool_t pool, pthreadpool_task_3d_tile_1d_t task, void* context,
                                        size_t range_i, size_t range_j, size_t range_k, size_t tile_k, uint32_t flags) {
  loop(pool, flags, task, context, {range_i, range_j, range_k}, Tile1{tile_k});
}

void pthreadpool_parallelize_3d_tile_1d_with_thread(pthreadpool_t pool, pthreadpool_task_3d_tile_1d_with_thread_t task,
                                                    void* context, size_t range_i, size_t range_j, size_t range_k,
                                                    size_t tile_k, uint32_t flags) {
  loop<true>(pool, flags, task, context, {range_i, range_j, range_k}, Tile1{tile_k});
}

void pthreadpool_parallelize_3d_tile_1d_with_uarch(pthreadpool_t pool, pthreadpool_task_3d_tile_1d_with_id_t task,
                                                   void* context, uint32_t uarch, uint32_t, size_t range_i,
                                                   size_t range_j, size_t range_k, size_t tile_k, uint32_t flags) {
  loop(pool, flags, task, context, {range_i, range_j, range_k}, Tile1{tile_k}, uarch);
}

void pthreadpool_parallelize_3d_tile_1d_with_uarch_with_thread(pthreadpool_t pool,
                                                               pthreadpool_task_3d_tile_1d_with_id_with_thread_t task,
                                                               void* context, uint32_t uarch, uint32_t, size_t range_i,
                                                               size_t range_j, size_t range_k, size_t tile_k,
                                                               uint32_t flags) {
  loop<true>(pool, flags, task, context, {range_i, range_j, range_k}, Tile1{tile_k}, uarch);
}

void pthreadpool_parallelize_3d_tile_2d(pthreadpool_t pool, pthreadpool_task_3d_tile_2d_t task, void* context,
                                        size_t range_i, size_t range_j, size_t range_k, size_t tile_j, size_t tile_k,
                                        uint32_t flags) {
  loop(pool, flags, task, context, {range_i, range_j, range_k}, Tile2{tile_j, tile_k});
}

void pthreadpool_parallelize_3d_tile_2d_with_uarch(pthreadpool_t pool, pthreadpool_task_3d_tile_2d_with_id_t task,
                                                   void* context, uint32_t uarch, uint32_t, size_t range_i,
                                                   size_t range_j, size_t range_k, size_t tile_j, size_t tile_k,
                                                   uint32_t flags) {
  loop(pool, flags, task, context, {range_i, range_j, range_k}, Tile2{tile_j, tile_k}, uarch);
}

void pthreadpool_parallelize_4d(pthreadpool_t pool, pthreadpool_task_4d_t task, void* context, size_t range_i,
                                size_t range_j, size_t range_k, size_t range_l, uint32_t flags) {
  loop(pool, flags, task, context, {range_i, range_j, range_k, range_l});
}

void pthreadpool_parallelize_4d_tile_2d(pthreadpool_t pool, pthreadpool_task_4d_tile_2d_t task, void* context,
                                        size_t range_i, size_t range_j, size_t range_k, size_t range_l, size_t tile_k,
                                        size_t tile_l, uint32_t flags) {
  loop(pool, flags, task, context, {range_i, range_j, range_k, range_l}, Tile2{tile_k, tile_l});
}

void pthreadpool_parallelize_4d_tile_2d_with_uarch(pthreadpool_t pool, pthreadpool_task_4d_tile_2d_with_id_t task,
                                                   void* context, uint32_t uarch, uint32_t, size_t range_i,
                                                   size_t range_j, size_t range_k, size_t range_l, size_t tile_k,
                                                   size_t tile_l, uint32_t flags) {
  loop(pool, flags, task, context, {range_i, range_j, range_k, range_l}, Tile2{tile_k, tile_l}, uarch);
}

void pthreadpool_parallelize_5d(pthreadpool_t pool, pthreadpool_task_5d_t task, void* context, size_t range_i,
                                size_t range_j, size_t range_k, size_t range_l, size_t range_m, uint32_t flags) {
  loop(pool, flags, task, context, {range_i, range_j, range_k, range_l, range_m});
}

void pthreadpool_parallelize_5d_tile_2d(pthreadpool_t pool, pthreadpool_task_5d_tile_2d_t task, void* context,
                                        size_t range_i, size_t range_j, size_t range_k, size_t range_l, size_t range_m,
                                        size_t tile_l, size_t tile_m, uint32_t flags) {
  loop(pool, flags, task, context, {range_i, range_j, range_k, range_l, range_m}, Tile2{tile_l, tile_m});
}

void pthreadpool_parallelize_6d_tile_2d(pthreadpool_t pool, pthreadpool_task_6d_tile_2d_t task, void* context,
                                        size_t range_i, size_t range_j, size_t range_k, size_t range_l, size_t range_m,
                                        size_t range_n, size_t tile_m, size_t tile_n, uint32_t flags) {
  loop(pool, flags, task, context, {range_i, range_j, range_k, range_l, range_m, range_n}, Tile2{tile_m, tile_n});
}

}  // extern "C"
