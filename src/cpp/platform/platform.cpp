#include "platform/platform.h"

#include "runtime/pal_functions.h"
#include "runtime/platform.h"

// The program's own, where it defines them.
#pragma weak et_pal_abort
#pragma weak et_pal_current_ticks
#pragma weak et_pal_ticks_to_ns_multiplier
#pragma weak et_pal_emit_log_message
#pragma weak et_pal_allocate
#pragma weak et_pal_free

namespace et::platform {
namespace {

using runtime::put_in_force;

Platform g_current = {};

uint64_t linked_now_ns() {
  const bool has_ratio = et_pal_ticks_to_ns_multiplier != nullptr;
  return runtime::nanoseconds(et_pal_current_ticks(),
                              has_ratio ? et_pal_ticks_to_ns_multiplier() : et_tick_ratio_t{1, 1});
}

void linked_write(LogLevel level, const char* text, size_t length) {
  const uint64_t now = g_current.now_ns == nullptr ? 0 : g_current.now_ns();
  et_pal_emit_log_message(now, runtime::pal_level(level), "", "", 0, text, length);
}

// The published functions know no alignment; they give what malloc does.
void* linked_allocate(size_t nbytes, size_t alignment) {
  return alignment > alignof(max_align_t) ? nullptr : et_pal_allocate(nbytes);
}

void linked_free(void* block) { et_pal_free(block); }

Platform linked_over(Platform functions) {
  if (et_pal_current_ticks != nullptr) {
    functions.now_ns = &linked_now_ns;
  }
  if (et_pal_emit_log_message != nullptr) {
    functions.write = &linked_write;
  }
  if (et_pal_abort != nullptr) {
    functions.abort = &et_pal_abort;
  }
  if (et_pal_allocate != nullptr && et_pal_free != nullptr) {
    functions.allocate = &linked_allocate;
    functions.free = &linked_free;
  }
  return functions;
}

void write_message(LogLevel level, const char*, int, const char* message, size_t length) {
  g_current.write(level, message, length);
}

}  // namespace

const Platform& current() { return g_current; }

Error install(const Platform& given) {
  const bool has_threads = given.start_thread != nullptr;
  const bool is_whole = (given.allocate == nullptr) == (given.free == nullptr) &&
                        (given.enter_critical == nullptr) == (given.leave_critical == nullptr) &&
                        (given.make_signal != nullptr) == has_threads && (given.give != nullptr) == has_threads &&
                        (given.wait != nullptr) == has_threads;
  ET_CHECK_OR_RETURN(is_whole, InvalidArgument,
                     "a platform gives both of allocate and free, and of a critical section, and all or none of the "
                     "functions of threads");
  put_in_force(g_current.now_ns, given.now_ns);
  put_in_force(g_current.write, given.write);
  put_in_force(g_current.abort, given.abort);
  put_in_force(g_current.allocate, given.allocate);
  put_in_force(g_current.free, given.free);
  put_in_force(g_current.enter_critical, given.enter_critical);
  put_in_force(g_current.leave_critical, given.leave_critical);
  put_in_force(g_current.start_thread, given.start_thread);
  put_in_force(g_current.make_signal, given.make_signal);
  put_in_force(g_current.give, given.give);
  put_in_force(g_current.wait, given.wait);
  if (given.now_ns != nullptr) {
    runtime::platform_set_clock(given.now_ns);
  }
  if (given.write != nullptr) {
    set_log_hook(&write_message);
  }
  return Error::Ok;
}

Error start_on(const Platform& system) { return install(linked_over(system)); }

void abort() {
  if (g_current.abort != nullptr) {
    g_current.abort();
  }
  for (;;) {  // nobody has an end for the system: a watchdog does
  }
}

}  // namespace et::platform
