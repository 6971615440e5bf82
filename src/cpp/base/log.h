/// The log hook: where messages of the runtime go.
///
/// For: one line a failed check, and rare notices. A process installs one hook (the platform layer installs stderr or
/// a serial port, the Python bindings one that keeps the last error message of each thread and feeds `logging`).
/// Not for: tracing (runtime/event_tracer.h), and never for output of a tool.
///
/// The hook is called on the thread that logs, before the logging call returns, so a hook may keep per-thread state.
/// Errors inside a parallel loop are the exception: they come on the thread that runs the loop, when it is done.
/// `ET_STRIP_MESSAGES` removes every message from the binary; error codes stay.
#pragma once

#include <cstddef>
#include <cstdint>

namespace et {

/// How bad a message is. Values grow with severity.
enum class LogLevel : uint8_t {
  kDebug = 0,    ///< Of use to those who work on the runtime.
  kInfo = 1,     ///< A notice, nothing is wrong.
  kWarning = 2,  ///< Something is slower or less exact than the user may expect.
  kError = 3,    ///< Goes with an Error that is being returned: what is wrong.
  kContext = 4,  ///< Goes with the kError line before it, as the Error is passed on: where that was.
};

/// Receives one message. `file` is the base name of the source file; `message` ends with '\0' at message[length] and is
/// only valid during the call. Must not log, throw or block for long.
using LogHook = void (*)(LogLevel level, const char* file, int line, const char* message, size_t length);

/// Installs `hook` for the whole process and returns the one before. nullptr discards messages (the initial state).
/// Threads: safe at any time.
LogHook set_log_hook(LogHook hook);

/// Sees each message before the hook, on the thread that logs; true means that it keeps it. For the thread pool, which
/// brings messages of its workers to the thread that waits for them (threads/message_relay.cpp).
using LogRelay = bool (*)(LogLevel level, const char* file, int line, const char* message, size_t length);
/// Installs the one relay of the process. Threads: safe at any time.
void set_log_relay(LogRelay relay);

/// Formats a message (printf rules, cut at 511 bytes) and passes it to the hook. Allocates nothing.
void log_message(LogLevel level, const char* file, int line, const char* format, ...)
    __attribute__((format(printf, 4, 5)));

}  // namespace et

#ifdef ET_STRIP_MESSAGES
#define ET_LOG(level, ...) static_cast<void>(sizeof(::et::detail::swallow(__VA_ARGS__)))
#else
#define ET_LOG(level, ...) ::et::log_message(::et::LogLevel::level, ET_FILE_NAME, __LINE__, __VA_ARGS__)
#endif
#define ET_LOG_ERROR(...) ET_LOG(kError, __VA_ARGS__)
#define ET_LOG_CONTEXT(...) ET_LOG(kContext, __VA_ARGS__)

#if defined(__FILE_NAME__)
#define ET_FILE_NAME __FILE_NAME__
#else
#define ET_FILE_NAME (__builtin_strrchr(__FILE__, '/') ? __builtin_strrchr(__FILE__, '/') + 1 : __FILE__)
#endif

namespace et::detail {
/// Checks the format of a stripped message without keeping it. Never called.
int swallow(const char* format, ...) __attribute__((format(printf, 1, 2)));
}  // namespace et::detail
