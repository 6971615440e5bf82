#include "base/log.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace et {
namespace {

std::atomic<LogHook> g_hook{nullptr};

}  // namespace

LogHook set_log_hook(LogHook hook) { return g_hook.exchange(hook, std::memory_order_acq_rel); }

void log_message(LogLevel level, const char* file, int line, const char* format, ...) {
  const LogHook hook = g_hook.load(std::memory_order_acquire);
  if (hook == nullptr) {
    return;
  }
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  const int written = vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  if (written < 0) {
    return;
  }
  const size_t length = static_cast<size_t>(written) < sizeof(text) ? static_cast<size_t>(written) : sizeof(text) - 1;
  hook(level, file, line, text, length);
}

}  // namespace et
