#include <atomic>
#include <cstdio>
#include <ctime>

#include "base/default_log.h"
#include "runtime/pal_functions.h"
#include "runtime/platform.h"

// The program's own functions of these names take the place of clock and stderr at link time; nullptr: it has none.
// Hidden, so that no other library of the process is ever meant.
#pragma weak et_pal_current_ticks
#pragma weak et_pal_ticks_to_ns_multiplier
#pragma weak et_pal_emit_log_message

namespace et::runtime {
namespace {

uint64_t system_now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

#ifndef ET_NO_EVENT_TRACER
uint64_t linked_now_ns() {
  if (et_pal_current_ticks == nullptr) {
    return system_now_ns();
  }
  const bool has_ratio = et_pal_ticks_to_ns_multiplier != nullptr;
  return nanoseconds(et_pal_current_ticks(), has_ratio ? et_pal_ticks_to_ns_multiplier() : et_tick_ratio_t{1, 1});
}

std::atomic<uint64_t (*)()> g_clock{&linked_now_ns};
#endif

void write_to_stderr(LogLevel level, const char* file, int line, const char* message, size_t length) {
  if (et_pal_emit_log_message != nullptr) {
    et_pal_emit_log_message(platform_now_ns(), pal_level(level), file, "", static_cast<size_t>(line), message, length);
  } else if (level >= LogLevel::kWarning) {
    std::fprintf(stderr, "%s %s:%d] %s\n", level >= LogLevel::kError ? "E" : "W", file, line, message);
  }
}

}  // namespace

#ifdef ET_NO_EVENT_TRACER  // nothing but a program's own code reads the time
uint64_t platform_now_ns() { return system_now_ns(); }

void platform_set_clock(uint64_t (*)()) {}
#else
uint64_t platform_now_ns() { return g_clock.load(std::memory_order_relaxed)(); }

void platform_set_clock(uint64_t (*now_ns)()) {
  g_clock.store(now_ns == nullptr ? &linked_now_ns : now_ns, std::memory_order_relaxed);
}
#endif

void platform_install_log() { set_log_hook(&write_to_stderr); }

void platform_install_default_log() { set_default_log_hook(&write_to_stderr); }

}  // namespace et::runtime
