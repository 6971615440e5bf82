/// content_hash: a number that says whether bytes are still what they were.
///
/// For: weights that the compiler borrows, computes with, and writes to the file later; whoever wrote to them in
/// between is found out. Files of packed weights (runtime/host/pack_cache.h). Not for: telling weights apart
/// (emit/data_pool.h compares contents), nor for bytes of an attacker.
///
///     const uint64_t before = content_hash(data, nbytes);
///     … if (content_hash(data, nbytes) != before) …
#pragma once

#include <cstddef>
#include <cstdint>

namespace et {

/// Every byte counts, and its place. Cost: about the time to read them.
/// Source: FNV-1a with 64-bit words in four lanes, http://www.isthe.com/chongo/tech/comp/fnv/
uint64_t content_hash(const void* data, size_t nbytes);

}  // namespace et
