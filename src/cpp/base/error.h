/// Error codes and the macros that return them.
///
/// For: every function that can fail for a reason outside this code base. It returns an `Error`, or a `Result<T>`
/// (result.h), and sends one line that says what, where and what to do to the log hook (log.h).
/// Not for: bugs of ours, which `ET_DCHECK` asserts in debug builds.
///
///     Error set_size(int64_t n) {
///       ET_CHECK_OR_RETURN(n >= 0, InvalidArgument, "size is %" PRId64 ", must not be negative", n);
///       return Error::Ok;
///     }
///
/// Place: the lowest layer; everything includes it, it includes only log.h.
#pragma once

#include <cinttypes>
#include <cstdint>

#include "base/log.h"

namespace et {

/// What a call came to. The list with the meanings is error_codes.def.
enum class [[nodiscard]] Error : uint8_t {
#define ET_ERROR(name, value, python_class, meaning) name = value,
#include "base/error_codes.def"
#undef ET_ERROR
};

/// The name of `error` as written in error_codes.def; "Unknown" for a value that is not in the list.
constexpr const char* to_string(Error error) {
  switch (error) {
#define ET_ERROR(name, value, python_class, meaning) \
  case Error::name: return #name;
#include "base/error_codes.def"
#undef ET_ERROR
  }
  return "Unknown";
}

namespace detail {
/// Logs an error message; its code stands in the low byte beside the line, and is returned for callers that pass it on.
/// Out of line and cold, so that a check costs its caller one call.
Error log_error(const char* file, uint32_t line_and_code, const char* format, ...)
    __attribute__((cold, noinline, format(printf, 3, 4)));
}  // namespace detail

}  // namespace et

/// Returns `Error::code` from the enclosing function after logging the message, unless `condition` holds.
/// The message is a printf format; ET_STRIP_MESSAGES removes it from the binary.
#define ET_CHECK_OR_RETURN(condition, code, ...)       \
  do {                                                 \
    if (__builtin_expect(!(condition), 0)) {           \
      return ET_ERROR_WITH_MESSAGE(code, __VA_ARGS__); \
    }                                                  \
  } while (false)

/// The value Error::code; its message is logged.
#if defined(ET_STRIP_MESSAGES)
#define ET_ERROR_WITH_MESSAGE(code, ...) \
  (static_cast<void>(sizeof(::et::detail::swallow(__VA_ARGS__))), ::et::Error::code)
#else
#define ET_ERROR_WITH_MESSAGE(code, ...) ::et::detail::log_error(ET_FILE_NAME, ET_LINE_AND_CODE(code), __VA_ARGS__)
#endif

#define ET_LINE_AND_CODE(code) (static_cast<uint32_t>(__LINE__) << 8 | static_cast<uint32_t>(::et::Error::code))

/// Returns the error of `expression` (an Error) from the enclosing function unless it is Ok.
#define ET_RETURN_IF_ERROR(expression)                       \
  do {                                                       \
    const ::et::Error et_error_ = (expression);              \
    if (__builtin_expect(et_error_ != ::et::Error::Ok, 0)) { \
      return et_error_;                                      \
    }                                                        \
  } while (false)

/// Asserts an invariant of ours in debug builds; costs nothing in release builds.
#ifdef NDEBUG
#define ET_DCHECK(condition) static_cast<void>(0)
#else
#define ET_DCHECK(condition) (__builtin_expect(!(condition), 0) ? __builtin_trap() : static_cast<void>(0))
#endif
