/// A fixture that keeps what is logged.
#pragma once

#include <gtest/gtest.h>

#include <mutex>
#include <string>

#include "base/log.h"

namespace et::test {

class MessagesTest : public ::testing::Test {
 protected:
  MessagesTest() {
    text().clear();
    set_log_hook([](LogLevel, const char*, int, const char* message, size_t length) {
      const std::lock_guard<std::mutex> lock(mutex());
      text().append(message, length).append("\n");
    });
  }
  ~MessagesTest() override { set_log_hook(nullptr); }

  static std::string& text() {
    static std::string instance;
    return instance;
  }
  /// True when all fragments were logged since the last call.
  static bool said(std::initializer_list<const char*> fragments) {
    bool found = true;
    for (const char* fragment : fragments) {
      if (text().find(fragment) == std::string::npos) {
        ADD_FAILURE() << "not said: " << fragment << "\nmessages: " << text();
        found = false;
      }
    }
    text().clear();
    return found;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex instance;
    return instance;
  }
};

}  // namespace et::test
