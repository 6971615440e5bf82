/// The platform layer: what a program needs of its system, as one table of functions, and the ports that fill it.
///
/// For: firmware and applications that give the runtime a clock, a place for messages, and threads. Not for: the
/// runtime itself, which needs none of it: memory comes through MemoryAllocator, and without a pool one thread works.
///
///     ET_RETURN_IF_ERROR(platform::start());                  // the port's functions, from now on
///     options.pool = &pool;                                   // platform/task_pool.h, where there are threads
///
/// Which function is taken, the first that is there:
///
/// 1. at run time, what install() was given;
/// 2. at link time, what the program defines of et_pal_… (runtime/pal_functions.h);
/// 3. the port's. A program links one file of platform/ports.
///
/// Place: above threads and runtime. docs/how-to/porting.md says how to write a port.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/log.h"

namespace et::platform {

/// The functions of a system. nullptr in a port: it has none. nullptr given to install(): stays as it is.
/// Threads: all of them may be called from any thread; from an interrupt only now_ns and the critical section's, where
/// a port does not say otherwise.
struct Platform {
  /// Nanoseconds of a clock that never goes back, also where the system's counter wraps.
  uint64_t (*now_ns)();
  /// Takes one message, without a line's end. Must write it whole, not mixed with another thread's.
  void (*write)(LogLevel level, const char* text, size_t length);
  /// Ends the program or the system. Does not come back.
  void (*abort)();
  /// Memory of at least `nbytes` > 0 bytes at a multiple of `alignment`, a power of two; nullptr when there is none.
  void* (*allocate)(size_t nbytes, size_t alignment);
  /// Gives memory of allocate() back; nullptr does nothing.
  void (*free)(void* block);
  /// Nobody else runs, or none of them passes enter_critical(), until leave_critical() is given what this returned.
  /// They nest. Must be short.
  uintptr_t (*enter_critical)();
  void (*leave_critical)(uintptr_t state);
  /// Starts a thread that calls entry(argument), which never returns. False when there is no memory or no room.
  bool (*start_thread)(void (*entry)(void*), void* argument);
  /// A signal that threads wait for: each wait() uses up one give(), also an earlier one. nullptr: no memory.
  void* (*make_signal)();
  void (*give)(void* signal);
  void (*wait)(void* signal);
};

/// The functions of the port that is linked: platform/ports has one definition a system.
const Platform& port();

/// What is in force: every function is set but those that nobody has.
const Platform& current();

/// Takes the functions that are set in `given`, and the runtime's clock and messages with them.
/// Errors: InvalidArgument when only a part is given of what belongs together: allocate and free, the two of the
/// critical section, or the four of threads. Threads: at the start, one at a time.
Error install(const Platform& given);

/// install() of a port's functions, after those that the program has linked.
Error start_on(const Platform& system);
/// The same with the port that is linked.
inline Error start() { return start_on(port()); }

/// current().abort(); stands still where there is none, or where it comes back.
[[noreturn]] void abort();

}  // namespace et::platform
