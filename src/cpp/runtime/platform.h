/// The platform: the two things the runtime needs of the system it runs on, a clock and a place for messages.
///
/// For: one source file a platform, chosen by the build: platform_posix.cpp, platform_bare.cpp (which a board support
/// file overrides, its functions being weak). Not for: memory and files; those come through MemoryAllocator,
/// DataLoader.
#pragma once

#include <cstdint>

namespace et::runtime {

/// Nanoseconds of a clock that never goes back; its zero has no meaning. 0 always when the platform has no clock.
uint64_t platform_now_ns();

/// Another clock for the process; nullptr: the system's again. Without effect where the build records no
/// events, as nothing reads the time there. Threads: safe.
void platform_set_clock(uint64_t (*now_ns)());

/// Installs a log hook that writes warnings and errors where this platform's users look: stderr, or nowhere.
void platform_install_log();

/// The same, unless the process has chosen a hook (or none) by set_log_hook. Hosts call it before they load anything.
void platform_install_default_log();

}  // namespace et::runtime
