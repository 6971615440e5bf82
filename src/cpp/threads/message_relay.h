/// MessageRelay: error messages of a parallel loop, brought to the thread that runs the loop.
///
/// For: the thread pool. The log hook is called on the thread that logs, and whoever turns an Error into an exception
/// looks at the messages of its own thread; so a message of a worker would be lost. Messages of all tasks are held back
/// until the loop is done. Then the last error of the failed task with the lowest index is logged, with its context:
/// the same one whatever the number of threads. Not for: warnings and notices, which go to the hook at once.
///
///     MessageRelay relay;                                  // on the calling thread
///     … on any thread: { const MessageRelay::Task scope(relay, i); body(i); }
///     relay.finish();                                      // on the calling thread, when all tasks are done
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/log.h"

namespace et::threads {

/// Lives on the stack of the thread that runs the loop. Cost: two thread-local writes a task; a lock where a task
/// fails.
class MessageRelay {
 public:
  MessageRelay();
  MessageRelay(const MessageRelay&) = delete;
  MessageRelay& operator=(const MessageRelay&) = delete;

  /// While it lives, messages of this thread belong to task `index` of the relay's loop.
  class Task {
   public:
    Task(MessageRelay& relay, size_t index);
    ~Task();
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;

   private:
    MessageRelay* outer_;
    size_t outer_index_;
  };

  /// Logs what was held back.
  void finish();

 private:
  static bool keep(LogLevel level, const char* file, int line, const char* message, size_t length);

  static constexpr size_t kMaxLines = 3;  // what is wrong, and where, from the inside outwards
  struct Line {
    LogLevel level;
    const char* file;
    int line;
    char text[512];
  };

  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  size_t index_ = SIZE_MAX;  // of the task whose lines these are
  size_t count_ = 0;
  Line lines_[kMaxLines];
};

}  // namespace et::threads
