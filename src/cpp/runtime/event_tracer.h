/// EventTracer: what a Method reports about its work while it runs: times, and values on request.
///
/// For: profilers and debuggers (executor_runner --trace, executorch_py.devtools). Passed in MethodOptions.
/// Not for: messages (base/log.h). Without a tracer a method spends one well-predicted branch an instruction.
#pragma once

#include <string_view>

#include "base/span.h"
#include "runtime/evalue.h"

namespace et::runtime {

/// What an event is about.
enum class EventKind : uint8_t {
  kLoad,          ///< Program::load_method
  kExecute,       ///< one Method::execute
  kKernel,        ///< one call of an operator
  kDelegate,      ///< one call of a delegate
  kDelegateStep,  ///< something inside a delegate, reported by its backend
  kControl,       ///< a move, jump or free
};

/// A span of time. Times are platform_now_ns().
struct TraceEvent {
  EventKind kind = EventKind::kKernel;
  std::string_view name;  ///< operator, backend or method; valid during the call
  int32_t chain = 0;
  int32_t instruction = -1;        ///< -1: not about one instruction
  int32_t delegate_debug_id = -1;  ///< kDelegateStep: the backend's number for the step
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
};

/// Receives events on the thread that runs the method. Must not throw or call the method.
class EventTracer {
 public:
  virtual ~EventTracer() = default;
  virtual void record(const TraceEvent& event) = 0;
  /// True when record_value is to be called for the arguments of each instruction after it ran.
  virtual bool wants_values() const { return false; }
  /// Argument `arg` of an instruction, after it ran. Valid during the call.
  virtual void record_value(int32_t chain, int32_t instruction, size_t arg, const EValue& value) {
    static_cast<void>(chain);
    static_cast<void>(instruction);
    static_cast<void>(arg);
    static_cast<void>(value);
  }
};

}  // namespace et::runtime
