#include <cstdio>
#include <ctime>

#include "base/default_log.h"
#include "runtime/platform.h"

namespace et::runtime {
namespace {

void write_to_stderr(LogLevel level, const char* file, int line, const char* message, size_t) {
  if (level >= LogLevel::kWarning) {
    std::fprintf(stderr, "%s %s:%d] %s\n", level >= LogLevel::kError ? "E" : "W", file, line, message);
  }
}

}  // namespace

uint64_t platform_now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

void platform_install_log() { set_log_hook(&write_to_stderr); }

void platform_install_default_log() { set_default_log_hook(&write_to_stderr); }

}  // namespace et::runtime
