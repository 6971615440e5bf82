// A platform without an operating system: no clock, no log. A board support file defines the functions again to have
// them.
#include "runtime/platform.h"

namespace et::runtime {

__attribute__((weak)) uint64_t platform_now_ns() { return 0; }

__attribute__((weak)) void platform_install_log() {}

__attribute__((weak)) void platform_install_default_log() {}

}  // namespace et::runtime
