// A platform without an operating system: no clock and no log until a program gives them, at run time or by defining
// the functions again.
#include "runtime/platform.h"

namespace et::runtime {

#ifdef ET_NO_EVENT_TRACER  // nothing reads the time
__attribute__((weak)) uint64_t platform_now_ns() { return 0; }

void platform_set_clock(uint64_t (*)()) {}
#else
namespace {

uint64_t (*g_clock)() = nullptr;

}  // namespace

__attribute__((weak)) uint64_t platform_now_ns() { return g_clock == nullptr ? 0 : g_clock(); }

void platform_set_clock(uint64_t (*now_ns)()) { g_clock = now_ns; }
#endif

__attribute__((weak)) void platform_install_log() {}

__attribute__((weak)) void platform_install_default_log() {}

}  // namespace et::runtime
