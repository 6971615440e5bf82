/// Parallel loops whose ranges need memory of their own.
///
/// For: packing weights, where each thread has a buffer. Not for: other loops (threads/parallel.h).
///
///     const size_t chunks = chunks_for(pool, rows, grain_for(columns));
///     buffer = …;                                            // chunks * columns
///     parallel_chunks(pool, rows, chunks, [&](size_t chunk, size_t begin, size_t end) { … });
#pragma once

#include "threads/parallel.h"

namespace et::threads {

/// How many ranges parallel_chunks() is worth cutting [0, count) into: one a thread at most, each of at least `grain`
/// indices.
inline size_t chunks_for(ThreadPool* pool, size_t count, size_t grain) {
  const size_t threads = pool == nullptr ? 1 : pool->num_threads();
  return std::max<size_t>(std::min(threads, count / std::max<size_t>(grain, 1)), 1);
}

/// Calls body(chunk, begin, end) for `chunks` ranges that together make [0, count): for bodies that need memory of
/// their own.
template <typename Body>
void parallel_chunks(ThreadPool* pool, size_t count, size_t chunks, Body&& body) {
  parallel_tasks(pool, chunks,
                 [&](size_t chunk) { body(chunk, chunk * count / chunks, (chunk + 1) * count / chunks); });
}

}  // namespace et::threads
