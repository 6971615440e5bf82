/// EventTracer: what programs, methods and delegates report about their work: times, values, memory and counters.
///
/// For: profilers and debuggers (devtools/etdump.h, executor_runner --trace). Passed in MethodOptions. Delegates report
/// their own operators through record_step, under ids of their own.
/// Not for: messages (base/log.h). Without a tracer a method spends one well-predicted branch an instruction.
#pragma once

#include <atomic>
#include <string_view>

#include "base/span.h"
#include "runtime/evalue.h"

namespace et::runtime {

/// What an event is about.
enum class EventKind : uint8_t {
  kProgramLoad,   ///< Program::load
  kMethodLoad,    ///< Program::load_method
  kMethodInit,    ///< of kMethodLoad, what follows the look-up of the method: kernels and delegates
  kDelegateInit,  ///< BackendInterface::init
  kExecute,       ///< one Method::execute
  kKernel,        ///< one instruction that calls an operator
  kDelegate,      ///< one instruction that calls a delegate
  kDelegateStep,  ///< something inside a delegate, reported by its backend
  kMove,          ///< other instructions
  kJump,
  kFree,
};

/// True for the events of instructions: together they are the time of an execution.
constexpr bool is_instruction(EventKind kind) {
  return kind == EventKind::kKernel || kind == EventKind::kDelegate || kind >= EventKind::kMove;
}

/// How much of the values is recorded. Each level includes those before it.
enum class EventTracerDebugLogLevel : uint8_t { kNoLogging, kProgramOutputs, kIntermediateOutputs };

/// What is timed: calls of methods, or instructions and delegates too.
enum class EventTracerProfilingLevel : uint8_t { kProfileMethodOnly, kProfileAllEvents };

/// Which instruction an event belongs to. -1: none.
struct TracePosition {
  int32_t chain = -1;
  int32_t instruction = -1;
};

/// A backend's own name for one of its operators: a number, or a text where it has none.
struct DelegateDebugId {
  int32_t number = -1;  ///< -1: `text` says it
  std::string_view text = {};
};

/// A span of time. Times are platform_now_ns(). Texts and bytes are valid during the call.
struct TraceEvent {
  EventKind kind = EventKind::kKernel;
  std::string_view name;  ///< operator, backend, method, or a step of a delegate
  TracePosition position = {};
  DelegateDebugId delegate_id = {};   ///< kDelegateStep
  Span<const uint8_t> metadata = {};  ///< kDelegateStep: whatever the backend's parser understands
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
};

/// A value that was computed. What it points at is valid during the call.
struct TraceValue {
  const EValue* value = nullptr;
  TracePosition position = {};
  DelegateDebugId delegate_id = {};  ///< of a value inside a delegate
  std::string_view name = {};        ///< empty: none
  bool is_output = false;            ///< an output of the method
};

/// Receives events on the thread that runs the method. Must not throw or call the method.
/// Threads: one execution at a time; another one is refused with InvalidState. Loads may report meanwhile.
class EventTracer {
 public:
  virtual ~EventTracer() = default;

  virtual void record(const TraceEvent& event) = 0;
  /// A method begins to run. What is recorded from now on belongs to this run.
  virtual void begin_execution(std::string_view method) { static_cast<void>(method); }
  /// A value that `debug_level()` wants.
  virtual void record_value(const TraceValue& value) { static_cast<void>(value); }
  /// Names a place that memory is taken from; record_allocation says when and how much.
  virtual uint32_t add_allocator(std::string_view name) { return static_cast<void>(name), 0; }
  virtual void record_allocation(uint32_t allocator, size_t nbytes) {
    static_cast<void>(allocator), static_cast<void>(nbytes);
  }
  /// A number that the caller counted, at the current instruction.
  virtual void record_counter(std::string_view name, int64_t value) {
    static_cast<void>(name), static_cast<void>(value);
  }

  EventTracerDebugLogLevel debug_level() const { return debug_level_; }
  EventTracerProfilingLevel profiling_level() const { return profiling_level_; }
  void set_event_tracer_debug_level(EventTracerDebugLogLevel level) { debug_level_ = level; }
  void set_event_tracer_profiling_level(EventTracerProfilingLevel level) { profiling_level_ = level; }
  bool wants_outputs() const { return debug_level_ >= EventTracerDebugLogLevel::kProgramOutputs; }
  bool wants_values() const { return debug_level_ >= EventTracerDebugLogLevel::kIntermediateOutputs; }
  bool wants_instructions() const { return profiling_level_ == EventTracerProfilingLevel::kProfileAllEvents; }

  /// Where the method is now. Set by the Method before each instruction.
  TracePosition position() const { return position_; }
  void set_position(TracePosition position) { position_ = position; }

  /// For a backend: an operator of the delegate that runs now. `name` is what it calls it, `id` its number for it.
  void record_step(std::string_view name, DelegateDebugId id, uint64_t start_ns, uint64_t end_ns,
                   Span<const uint8_t> metadata = {}) {
    if (wants_instructions()) {
      record({EventKind::kDelegateStep, name, position_, id, metadata, start_ns, end_ns});
    }
  }
  /// For a backend: what one of its operators computed.
  void record_step_value(DelegateDebugId id, const EValue& value) {
    if (wants_values()) {
      record_value({&value, position_, id});
    }
  }

  /// Called by the Method around each execution.
  bool try_acquire() { return !is_busy_.exchange(true, std::memory_order_acquire); }
  void release() { is_busy_.store(false, std::memory_order_release); }

 private:
  TracePosition position_;
  EventTracerDebugLogLevel debug_level_ = EventTracerDebugLogLevel::kNoLogging;
  EventTracerProfilingLevel profiling_level_ = EventTracerProfilingLevel::kProfileAllEvents;
  std::atomic<bool> is_busy_{false};
};

}  // namespace et::runtime
