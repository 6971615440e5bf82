#include "base/log.h"

#include <atomic>
#include <cstdarg>

#include "base/default_log.h"
#include "base/error.h"
#include "base/format.h"
#include "base/name_log.h"

namespace et {
namespace {

/// Stands for the hook as long as nobody has chosen one.
void not_chosen(LogLevel, const char*, int, const char*, size_t) {}

std::atomic<LogHook> g_hook{&not_chosen};
std::atomic<LogRelay> g_relay{nullptr};

void log_arguments(LogLevel level, const char* file, int line, const char* format, va_list arguments) {
  const LogHook hook = g_hook.load(std::memory_order_acquire);
  if (hook == nullptr || hook == &not_chosen) {
    return;
  }
  char text[512];
  const size_t length = format_arguments(text, sizeof(text), format, arguments);
  const LogRelay relay = g_relay.load(std::memory_order_acquire);
  if (relay == nullptr || !relay(level, file, line, text, length)) {
    hook(level, file, line, text, length);
  }
}

}  // namespace

LogHook set_log_hook(LogHook hook) {
  const LogHook before = g_hook.exchange(hook, std::memory_order_acq_rel);
  return before == &not_chosen ? nullptr : before;
}

void set_default_log_hook(LogHook hook) {
  LogHook expected = &not_chosen;
  g_hook.compare_exchange_strong(expected, hook, std::memory_order_acq_rel);
}

void set_log_relay(LogRelay relay) { g_relay.store(relay, std::memory_order_release); }

void log_message(LogLevel level, const char* file, int line, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  log_arguments(level, file, line, format, arguments);
  va_end(arguments);
}

void log_name(const char* name) {
  if (const LogHook hook = g_hook.load(std::memory_order_acquire)) {
    hook(LogLevel::kContext, "", 0, name, __builtin_strlen(name));
  }
}

Error detail::log_error(const char* file, uint32_t line_and_code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  log_arguments(LogLevel::kError, file, static_cast<int>(line_and_code >> 8), format, arguments);
  va_end(arguments);
  return static_cast<Error>(line_and_code & 0xff);
}

}  // namespace et
