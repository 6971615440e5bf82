/// register_pal: clock, messages and aborting of the process, set at run time under the published names.
///
/// For: programs that were written for the published library. Not for: our own code (base/log.h, runtime/platform.h).
///
///     static const bool registered = register_pal(PalImpl::create(&to_my_log, __FILE__));
///
/// What an implementation leaves out stays as the program's et_pal_… functions have it (runtime/pal_functions.h), or as
/// the system does.
#pragma once

#include "runtime/pal_functions.h"

namespace et::extension {

struct PalImpl {
  using Init = void (*)();
  using Abort = void (*)();
  using CurrentTicks = et_timestamp_t (*)();
  using TicksToNs = et_tick_ratio_t (*)();
  using EmitLogMessage = void (*)(et_timestamp_t timestamp, et_pal_log_level_t level, const char* filename,
                                  const char* function, size_t line, const char* message, size_t length);
  using Allocate = void* (*)(size_t nbytes);
  using Free = void (*)(void* block);

  Init init = nullptr;
  Abort abort = nullptr;
  CurrentTicks current_ticks = nullptr;
  TicksToNs ticks_to_ns_multiplier = nullptr;
  EmitLogMessage emit_log_message = nullptr;
  Allocate allocate = nullptr;
  Free free = nullptr;
  const char* source_filename = nullptr;  ///< who registers; for messages

  static PalImpl create(EmitLogMessage emit_log_message, const char* source_filename) {
    return create(nullptr, nullptr, nullptr, nullptr, emit_log_message, nullptr, nullptr, source_filename);
  }
  static PalImpl create(Init init, Abort abort, CurrentTicks current_ticks, TicksToNs ticks_to_ns_multiplier,
                        EmitLogMessage emit_log_message, Allocate allocate, Free free, const char* source_filename) {
    return {init, abort, current_ticks, ticks_to_ns_multiplier, emit_log_message, allocate, free, source_filename};
  }
};

/// Takes these functions from now on, those of an earlier call elsewhere. False, with a message, when only one of a
/// pair is given: allocate and free, or ticks without their ratio. Threads: one at a time.
bool register_pal(const PalImpl& impl);
/// What is in force; every function is set.
const PalImpl* get_pal_impl();

inline void pal_init() { get_pal_impl()->init(); }
[[noreturn]] void pal_abort();
inline et_timestamp_t pal_current_ticks() { return get_pal_impl()->current_ticks(); }
inline et_tick_ratio_t pal_ticks_to_ns_multiplier() { return get_pal_impl()->ticks_to_ns_multiplier(); }
inline void pal_emit_log_message(et_timestamp_t timestamp, et_pal_log_level_t level, const char* filename,
                                 const char* function, size_t line, const char* message, size_t length) {
  get_pal_impl()->emit_log_message(timestamp, level, filename, function, line, message, length);
}
inline void* pal_allocate(size_t nbytes) { return get_pal_impl()->allocate(nbytes); }
inline void pal_free(void* block) { get_pal_impl()->free(block); }

}  // namespace et::extension
