/// Memory that fails when it is told to: malloc and its kin, mmap and new threads, for the whole process.
///
/// For: memory_faults.cpp, and Python with libet_failing_memory.so in LD_PRELOAD. The functions of failing_memory.cpp
/// take the place of the C library's, for all that is linked into the program and its libraries, operator new included.
///
///     failing_memory::arm(17, false);          // the 17th request from now on fails, the next ones do not
///     … run …
///     failing_memory::disarm();                // how many requests there were
///     failing_memory::live_blocks();
#pragma once

#include <cstddef>
#include <cstdint>

namespace et::failing_memory {

/// Request number `n` from now on fails, counted from 1 over all threads, and all later ones with `for_good`. Requests
/// of fewer than `least_nbytes` are not counted.
void arm(uint64_t n, bool for_good, size_t least_nbytes = 0);
/// No request fails any more. Gives the number of requests since arm().
uint64_t disarm();
/// True when a request failed since arm().
bool has_failed();
/// Bytes of the request that failed first since arm().
size_t failed_nbytes();
/// Writes the calls that led to it to stderr, from the next arm() on.
void set_trace(bool on);
/// Blocks of malloc and its kin that were not given back.
int64_t live_blocks();
/// Bytes that are mapped by mmap, in whole pages.
int64_t mapped_nbytes();

}  // namespace et::failing_memory
