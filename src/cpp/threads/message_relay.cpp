#include "threads/message_relay.h"

#include <cstring>

namespace et::threads {
namespace {

thread_local MessageRelay* t_relay = nullptr;
thread_local size_t t_index = 0;

}  // namespace

MessageRelay::MessageRelay() {
  static std::atomic<bool> is_installed{false};
  if (!is_installed.load(std::memory_order_acquire)) {
    set_log_relay(&MessageRelay::keep);
    is_installed.store(true, std::memory_order_release);
  }
}

MessageRelay::Task::Task(MessageRelay& relay, size_t index) : outer_(t_relay), outer_index_(t_index) {
  t_relay = &relay;
  t_index = index;
}

MessageRelay::Task::~Task() {
  t_relay = outer_;
  t_index = outer_index_;
}

bool MessageRelay::keep(LogLevel level, const char* file, int line, const char* message, size_t length) {
  MessageRelay* const relay = t_relay;
  if (relay == nullptr || level < LogLevel::kError) {
    return false;
  }
  while (relay->busy_.test_and_set(std::memory_order_acquire)) {
  }
  if (t_index < relay->index_ || (t_index == relay->index_ && level == LogLevel::kError)) {
    relay->index_ = t_index;
    relay->count_ = 0;
  }
  if (t_index == relay->index_ && relay->count_ < kMaxLines) {
    Line& kept = relay->lines_[relay->count_++];
    kept.level = level;
    kept.file = file;
    kept.line = line;
    const size_t n = length < sizeof(kept.text) ? length : sizeof(kept.text) - 1;
    std::memcpy(kept.text, message, n);
    kept.text[n] = '\0';
  }
  relay->busy_.clear(std::memory_order_release);
  return true;
}

void MessageRelay::finish() {
  for (size_t i = 0; i < count_; ++i) {
    log_message(lines_[i].level, lines_[i].file, lines_[i].line, "%s", lines_[i].text);
  }
}

}  // namespace et::threads
