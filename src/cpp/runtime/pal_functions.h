/// The published functions of a platform, which a program may define to have them instead of clock and stderr.
///
/// For: programs that were written for the published library, and the platform layer, which calls them. Not for: our
///      own code, which calls platform_now_ns and set_log_hook.
///
///     extern "C" void et_pal_emit_log_message(et_timestamp_t, et_pal_log_level_t level, const char* file,
///                                             const char*, size_t line, const char* message, size_t) {
///       uart_printf("%c %s:%zu] %s\n", level, file, line, message);
///     }
///
/// Place: nothing here defines them. runtime/platform_posix.cpp looks whether the program does; register_pal
/// (extension/platform/pal.h) sets others at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/log.h"

extern "C" {

using et_timestamp_t = uint64_t;

/// Nanoseconds are ticks * numerator / denominator.
struct et_tick_ratio_t {
  uint64_t numerator;
  uint64_t denominator;
};

/// Values are the letters that a message begins with.
enum et_pal_log_level_t {
  kDebug = 'D',
  kInfo = 'I',
  kError = 'E',
  kFatal = 'F',
  kUnknown = '?',
  kNumLevels = 4,
};

#pragma GCC visibility push(hidden)
void et_pal_init();
[[noreturn]] void et_pal_abort();
et_timestamp_t et_pal_current_ticks();
et_tick_ratio_t et_pal_ticks_to_ns_multiplier();
/// `message` ends with '\0' at message[length]. Errors come with kError, warnings and notices with kInfo.
void et_pal_emit_log_message(et_timestamp_t timestamp, et_pal_log_level_t level, const char* filename,
                             const char* function, size_t line, const char* message, size_t length);
void* et_pal_allocate(size_t nbytes);
void et_pal_free(void* block);
#pragma GCC visibility pop
}  // extern "C"

namespace et::runtime {

inline et_pal_log_level_t pal_level(LogLevel level) {
  return level == LogLevel::kDebug ? kDebug : level >= LogLevel::kError ? kError : kInfo;
}

/// 0 for a ratio that divides by nothing.
inline uint64_t nanoseconds(et_timestamp_t ticks, et_tick_ratio_t ratio) {
  return ratio.denominator == 0 ? 0 : ticks * ratio.numerator / ratio.denominator;
}

/// Puts a function in force, unless none was given.
template <typename Function>
void put_in_force(Function& place, Function given) {
  place = given == nullptr ? place : given;
}

}  // namespace et::runtime
