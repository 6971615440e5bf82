/// The published macros for messages and checks, over ours.
///
/// For: code that was written for the published library; its headers runtime/platform/log.h and assert.h lead here. Not
/// for: our own code, which never aborts.
///
///     ET_LOG(Info, "%zu outputs", outputs.size());      // to the log hook; ET_LOG(kInfo, …) stays as it is
///     ET_CHECK_MSG(result.ok(), "forward failed");       // a message, then pal_abort()
#pragma once

#include <utility>

#include "base/result.h"
#include "extension/platform/pal.h"

namespace et::extension::levels {
inline constexpr LogLevel kDebug = LogLevel::kDebug, Debug = LogLevel::kDebug;
inline constexpr LogLevel kInfo = LogLevel::kInfo, Info = LogLevel::kInfo;
inline constexpr LogLevel kWarning = LogLevel::kWarning;
inline constexpr LogLevel kError = LogLevel::kError, Error = LogLevel::kError, Fatal = LogLevel::kError;
inline constexpr LogLevel kContext = LogLevel::kContext;
}  // namespace et::extension::levels

#undef ET_LOG
#define ET_LOG(level, ...) ::et::log_message(::et::extension::levels::level, ET_FILE_NAME, __LINE__, __VA_ARGS__)

#define ET_CHECK_MSG(condition, ...)                                    \
  do {                                                                  \
    if (!(condition)) {                                                 \
      ::et::log_message(::et::LogLevel::kError, ET_FILE_NAME, __LINE__, \
                        "check failed (" #condition "): " __VA_ARGS__); \
      ::et::extension::pal_abort();                                     \
    }                                                                   \
  } while (false)
#define ET_CHECK(condition) ET_CHECK_MSG(condition, "")
#define ET_ASSERT_UNREACHABLE() ET_CHECK_MSG(false, "this place is never reached")
#define ET_CHECK_OK(expression) ET_CHECK_MSG((expression) == ::et::Error::Ok, "")
#define ET_CHECK_OR_RETURN_ERROR(condition, code, ...) ET_CHECK_OR_RETURN(condition, code, __VA_ARGS__)
/// Returns the error of `expression` unless it is Ok, after a message, if one is given.
#define ET_CHECK_OK_OR_RETURN_ERROR(expression, ...)                                                           \
  do {                                                                                                         \
    const ::et::Error et_error_ = (expression);                                                                \
    if (et_error_ != ::et::Error::Ok) {                                                                        \
      ::et::log_message(::et::LogLevel::kContext, ET_FILE_NAME, __LINE__, "in " #expression ": " __VA_ARGS__); \
      return et_error_;                                                                                        \
    }                                                                                                          \
  } while (false)
#define ET_CHECK_OR_RETURN_FALSE(condition, ...)                        \
  do {                                                                  \
    if (!(condition)) {                                                 \
      ::et::log_message(::et::LogLevel::kError, ET_FILE_NAME, __LINE__, \
                        "check failed (" #condition "): " __VA_ARGS__); \
      return false;                                                     \
    }                                                                   \
  } while (false)
/// The value of a Result, or the return of its error.
#define ET_UNWRAP(expression)       \
  ({                                \
    auto et_result_ = (expression); \
    if (!et_result_.ok()) {         \
      return et_result_.error();    \
    }                               \
    std::move(et_result_.get());    \
  })
