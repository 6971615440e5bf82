/// The published names of developer tools: executorch::etdump, executorch::bundled_program, and the functions with
/// which a delegate reports its steps.
///
/// For: code that was written for the published library. Not for: our own code, which calls EventTracer::record_step.
///
///     EventTracerEntry entry = event_tracer_start_profiling_delegate(tracer, nullptr, 12);   // or a name and -1
///     …
///     event_tracer_end_profiling_delegate(tracer, entry, metadata, metadata_nbytes);
#pragma once

#include "devtools/bundled_program.h"
#include "devtools/host/etdump_gen.h"
#include "runtime/platform.h"

namespace executorch {

/// Test cases beside a program. The functions that take no size want bytes for which get_program_data has succeeded.
namespace bundled_program {

using SerializedBundledProgram = const void;

inline bool is_bundled_program(const void* bytes, size_t nbytes) {
  return ::et::devtools::BundledProgram::has_identifier({static_cast<const uint8_t*>(bytes), nbytes});
}

/// The program in a bundle, or all of the bytes when they are a program by themselves. Errors: as BundledProgram::load.
inline ::et::Error get_program_data(const void* bytes, size_t nbytes, const void** program, size_t* program_nbytes) {
  ::et::Span<const uint8_t> found{static_cast<const uint8_t*>(bytes), nbytes};
  if (is_bundled_program(bytes, nbytes)) {
    ET_TRY(const ::et::devtools::BundledProgram bundle, ::et::devtools::BundledProgram::load(found));
    found = bundle.program();
  }
  *program = found.data();
  *program_nbytes = found.size();
  return ::et::Error::Ok;
}

inline ::et::Error load_bundled_input(::et::runtime::Method& method, SerializedBundledProgram* bundle, size_t index) {
  return ::et::devtools::BundledProgram::of_verified(bundle).load_input(method, index);
}

inline ::et::Error verify_method_outputs(::et::runtime::Method& method, SerializedBundledProgram* bundle, size_t index,
                                         double rtol = 1e-5, double atol = 1e-8) {
  return ::et::devtools::BundledProgram::of_verified(bundle).verify_outputs(method, index, {rtol, atol});
}

}  // namespace bundled_program

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
