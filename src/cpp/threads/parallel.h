/// Parallel loops over index ranges, for kernels.
///
/// For: loops whose iterations are independent. Work that is too small to share runs inline, without touching the pool.
/// Not for: reductions across the range; reduce within an iteration, or write one partial result a chunk.
///
///     parallel_for(context.pool(), rows, grain_for(columns), [&](size_t begin, size_t end) {
///       for (size_t r = begin; r < end; ++r) { … }
///     });
///
/// Results never depend on the number of threads as long as the body treats each index by itself.
#pragma once

#include <algorithm>
#include <type_traits>

#include "threads/thread_pool.h"

namespace et::threads {

/// Elements of simple work (one or two vector instructions each) that are worth a hand-over to another thread.
/// Source: a hand-over costs about 2 µs between two hot threads; 16 Ki floats take about as long at 10 GB/s.
inline constexpr size_t kGrainElements = 16384;

/// How many iterations make a chunk worth handing over when each one treats `elements` elements.
inline size_t grain_for(size_t elements) {
  return elements >= kGrainElements ? 1 : kGrainElements / (elements == 0 ? 1 : elements);
}

/// Calls body(i) for each i in [0, count); the pool's threads take the next index when they are done with one.
/// `pool` may be nullptr: then all run here.
template <typename Body>
void parallel_tasks(ThreadPool* pool, size_t count, Body&& body) {
  if (pool == nullptr || count <= 1 || pool->num_threads() == 1) {
    for (size_t i = 0; i < count; ++i) {
      body(i);
    }
    return;
  }
  using Function = std::remove_reference_t<Body>;
  auto task = [](void* argument, size_t index) { (*static_cast<Function*>(argument))(index); };
  pool->run(count, task, const_cast<void*>(static_cast<const void*>(&body)));
}

/// Into how many ranges [0, count) is split: at most `per_thread` a thread, each of at least `grain` indices.
inline size_t chunks_for(ThreadPool* pool, size_t count, size_t grain, size_t per_thread = 1) {
  const size_t threads = pool == nullptr ? 1 : pool->num_threads();
  const size_t most = threads == 1 ? 1 : per_thread * threads;
  return std::max<size_t>(std::min(most, count / std::max<size_t>(grain, 1)), 1);
}

/// Calls body(chunk, begin, end) for `chunks` ranges that together make [0, count). For bodies that need memory of
/// their own, such as packing weights: the caller makes `chunks` buffers first.
template <typename Body>
void parallel_chunks(ThreadPool* pool, size_t count, size_t chunks, Body&& body) {
  if (chunks <= 1) {
    body(size_t{0}, size_t{0}, count);
    return;
  }
  const size_t base = count / chunks;
  const size_t extra = count % chunks;  // the first `extra` chunks have one index more
  parallel_tasks(pool, chunks, [&](size_t chunk) {
    const size_t begin = chunk * base + std::min(chunk, extra);
    body(chunk, begin, begin + base + (chunk < extra ? 1 : 0));
  });
}

/// Two chunks a thread even out threads that are not equally fast; more would only cost hand-overs.
inline constexpr size_t kChunksPerThread = 2;

/// Calls body(begin, end) for ranges that together make [0, count), each of at least `grain` indices where count
/// allows. With one thread, or when count <= grain, that is one call on the calling thread.
template <typename Body>
void parallel_for(ThreadPool* pool, size_t count, size_t grain, Body&& body) {
  if (count != 0) {
    parallel_chunks(pool, count, chunks_for(pool, count, grain, kChunksPerThread),
                    [&](size_t, size_t begin, size_t end) { body(begin, end); });
  }
}

/// Chunks of so many grains take some hundred microseconds to some milliseconds.
inline constexpr size_t kMostGrains = 64;

/// The same for a loop of a running kernel. `context` has the pool and says whether the caller asked to stop. Chunks
/// are of kMostGrains at most, with one thread too. Those that begin after the caller asked are left out, and the
/// method's execution ends with Cancelled. Where what they write is used as a position or a size in the same kernel,
/// that kernel looks again in between.
template <typename Context, typename Body>
auto parallel_for(const Context& context, size_t count, size_t grain, Body&& body)
    -> decltype(context.cancelled(), void()) {
  if (count == 0) {
    return;
  }
  ThreadPool* const pool = context.pool();
  const size_t grains = count / std::max<size_t>(grain, 1);
  const size_t chunks = std::max(chunks_for(pool, count, grain, kChunksPerThread), grains / kMostGrains);
  parallel_chunks(pool, count, chunks, [&](size_t, size_t begin, size_t end) {
    if (chunks == 1 || !context.cancelled()) {
      body(begin, end);
    }
  });
}

/// Calls body(begin, end) for [0, count) on this thread, at most `piece` at a time, until the caller of the running
/// kernel asks to stop. False then.
template <typename Context, typename Body>
bool in_pieces(const Context& context, size_t count, size_t piece, Body&& body) {
  for (size_t begin = 0; begin < count; begin += piece) {
    if (context.cancelled()) {
      return false;
    }
    body(begin, count - begin < piece ? count : begin + piece);
  }
  return true;
}

}  // namespace et::threads
