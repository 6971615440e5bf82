/// The published names of profiling: executorch::etdump, and the functions with which a delegate reports its steps.
///
/// For: code that was written for the published library. Not for: our own code, which calls EventTracer::record_step.
///
///     EventTracerEntry entry = event_tracer_start_profiling_delegate(tracer, nullptr, 12);   // or a name and -1
///     …
///     event_tracer_end_profiling_delegate(tracer, entry, metadata, metadata_nbytes);
#pragma once

#include "devtools/host/etdump_gen.h"
#include "runtime/platform.h"

namespace executorch {

namespace etdump {
using ::et::devtools::ETDumpGen;
using ::et::devtools::ETDumpResult;
}  // namespace etdump

namespace runtime {

using ::et::runtime::EventTracerDebugLogLevel;
using ::et::runtime::EventTracerProfilingLevel;
using DebugHandle = int32_t;
inline constexpr DebugHandle kUnsetDelegateDebugIntId = -1;

/// A step that has begun. `name` must live until it ends.
struct EventTracerEntry {
  ::et::runtime::DelegateDebugId id;
  uint64_t start_ns = 0;
};

/// The id of a step: its number, or its name where that is -1.
inline ::et::runtime::DelegateDebugId delegate_debug_id(const char* name, DebugHandle number) {
  return number != kUnsetDelegateDebugIntId || name == nullptr ? ::et::runtime::DelegateDebugId{number}
                                                               : ::et::runtime::DelegateDebugId{-1, name};
}

inline void event_tracer_log_profiling_delegate(::et::runtime::EventTracer* tracer, const char* name,
                                                DebugHandle delegate_debug_id_int, uint64_t start_ns, uint64_t end_ns,
                                                const void* metadata = nullptr, size_t metadata_nbytes = 0) {
  if (tracer != nullptr) {
    tracer->record_step("", delegate_debug_id(name, delegate_debug_id_int), start_ns, end_ns,
                        {static_cast<const uint8_t*>(metadata), metadata_nbytes});
  }
}

inline EventTracerEntry event_tracer_start_profiling_delegate(::et::runtime::EventTracer* tracer, const char* name,
                                                              DebugHandle delegate_debug_id_int) {
  return {delegate_debug_id(name, delegate_debug_id_int), tracer == nullptr ? 0 : ::et::runtime::platform_now_ns()};
}

inline void event_tracer_end_profiling_delegate(::et::runtime::EventTracer* tracer, EventTracerEntry entry,
                                                const void* metadata = nullptr, size_t metadata_nbytes = 0) {
  if (tracer != nullptr) {
    tracer->record_step("", entry.id, entry.start_ns, ::et::runtime::platform_now_ns(),
                        {static_cast<const uint8_t*>(metadata), metadata_nbytes});
  }
}

/// What a step computed: a Tensor or a number.
template <typename T>
void event_tracer_log_output_delegate(::et::runtime::EventTracer* tracer, const char* name,
                                      DebugHandle delegate_debug_id_int, const T& output) {
  if (tracer != nullptr) {
    tracer->record_step_value(delegate_debug_id(name, delegate_debug_id_int), ::et::runtime::EValue(output));
  }
}

}  // namespace runtime
}  // namespace executorch
