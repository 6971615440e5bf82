#include "extension/platform/pal.h"

#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "runtime/platform.h"

// The program's own, where it defines them.
#pragma weak et_pal_init
#pragma weak et_pal_abort
#pragma weak et_pal_current_ticks
#pragma weak et_pal_ticks_to_ns_multiplier
#pragma weak et_pal_emit_log_message
#pragma weak et_pal_allocate
#pragma weak et_pal_free

namespace et::extension {
namespace {

using runtime::put_in_force;

/// `linked` where the program defines it, else ours.
template <typename Function>
Function linked_or(Function linked, Function ours) {
  return linked == nullptr ? ours : linked;
}

PalImpl& in_force() {
  static PalImpl impl = {
      linked_or<PalImpl::Init>(et_pal_init, [] {}),
      linked_or<PalImpl::Abort>(et_pal_abort, &std::abort),
      linked_or<PalImpl::CurrentTicks>(et_pal_current_ticks, &runtime::platform_now_ns),
      linked_or<PalImpl::TicksToNs>(et_pal_ticks_to_ns_multiplier, [] { return et_tick_ratio_t{1, 1}; }),
      linked_or<PalImpl::EmitLogMessage>(
          et_pal_emit_log_message,
          [](et_timestamp_t, et_pal_log_level_t level, const char* file, const char*, size_t line, const char* message,
             size_t) { std::fprintf(stderr, "%c %s:%zu] %s\n", level, file, line, message); }),
      linked_or<PalImpl::Allocate>(et_pal_allocate, &std::malloc),
      linked_or<PalImpl::Free>(et_pal_free, &std::free),
  };
  return impl;
}

void log_to_pal(LogLevel level, const char* file, int line, const char* message, size_t length) {
  pal_emit_log_message(pal_current_ticks(), runtime::pal_level(level), file, "", static_cast<size_t>(line), message,
                       length);
}

uint64_t now_by_pal() { return runtime::nanoseconds(pal_current_ticks(), pal_ticks_to_ns_multiplier()); }

}  // namespace

bool register_pal(const PalImpl& impl) {
  const bool paired = (impl.allocate == nullptr) == (impl.free == nullptr) &&
                      (impl.ticks_to_ns_multiplier == nullptr || impl.current_ticks != nullptr);
  if (!paired) {
    ET_LOG_ERROR("the platform of %s gives one of allocate and free, or a ratio without ticks; give both",
                 impl.source_filename == nullptr ? "?" : impl.source_filename);
    return false;
  }
  PalImpl& now = in_force();
  put_in_force(now.init, impl.init);
  put_in_force(now.abort, impl.abort);
  put_in_force(now.emit_log_message, impl.emit_log_message);
  put_in_force(now.allocate, impl.allocate);
  put_in_force(now.free, impl.free);
  put_in_force(now.source_filename, impl.source_filename);
  if (impl.current_ticks != nullptr) {
    now.current_ticks = impl.current_ticks;
    now.ticks_to_ns_multiplier =
        linked_or<PalImpl::TicksToNs>(impl.ticks_to_ns_multiplier, [] { return et_tick_ratio_t{1, 1}; });
    runtime::platform_set_clock(&now_by_pal);
  }
  if (impl.emit_log_message != nullptr) {
    set_log_hook(&log_to_pal);
  }
  return true;
}

const PalImpl* get_pal_impl() { return &in_force(); }

void pal_abort() {
  in_force().abort();
  std::abort();  // an implementation that comes back
}

}  // namespace et::extension
