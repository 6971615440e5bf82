/// content_hash: a number that says whether bytes are still what they were.
///
/// For: weights, which the compiler borrows: it computes with them, and the file is written from them later. Whoever
/// wrote to them in between, in whatever way, is found out. Not for: telling weights apart (emit/data_pool.h compares
/// contents), nor for bytes of an attacker.
///
///     const uint64_t before = content_hash(data, nbytes);
///     … if (content_hash(data, nbytes) != before) …
#pragma once

#include <cstddef>
#include <cstdint>

namespace et::driver {

/// Every byte counts, and its place. Cost: about the time to read them.
/// Source: FNV-1a with 64-bit words in four lanes, http://www.isthe.com/chongo/tech/comp/fnv/
uint64_t content_hash(const void* data, size_t nbytes);

}  // namespace et::driver
