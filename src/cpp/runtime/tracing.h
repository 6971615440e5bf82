/// What a Method and its host do where there is a tracer: spans of time, and allocators that report. Internal.
#pragma once

#include "runtime/event_tracer.h"
#include "runtime/memory_allocator.h"
#include "runtime/method.h"
#include "runtime/platform.h"

namespace et::runtime {

/// Whether the build has a tracer (CMake's ET_EVENT_TRACER). Without it no delegate's step is looked up, either.
#ifdef ET_NO_EVENT_TRACER
constexpr bool kTraces = false;
#else
constexpr bool kTraces = true;
#endif

/// The tracer of a method; nullptr in a build without. What runs only where there is one takes `options.tracer`.
inline EventTracer* tracer_of(const MethodOptions& options) { return kTraces ? options.tracer : nullptr; }

#ifdef ET_NO_EVENT_TRACER
struct TraceSpan {
  TraceSpan(EventTracer*, EventKind, std::string_view) {}
};
#else
/// Records the time of a scope. Does nothing without a tracer.
class TraceSpan {
 public:
  TraceSpan(EventTracer* tracer, EventKind kind, std::string_view name)
      : tracer_(tracer), kind_(kind), name_(name), start_ns_(tracer == nullptr ? 0 : platform_now_ns()) {}
  ~TraceSpan() {
    if (tracer_ != nullptr) {
      tracer_->record({kind_, name_, {}, {}, {}, start_ns_, platform_now_ns()});
    }
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  EventTracer* tracer_;
  EventKind kind_;
  std::string_view name_;
  uint64_t start_ns_;
};
#endif

/// Hands out what another allocator has, and reports it.
class TracedAllocator final : public MemoryAllocator {
 public:
  TracedAllocator(MemoryAllocator& inner, EventTracer& tracer, std::string_view name)
      : inner_(inner), tracer_(tracer), id_(tracer.add_allocator(name)) {}

  void* allocate(size_t nbytes, size_t alignment = kDefaultAlignment) override {
    void* const memory = inner_.allocate(nbytes, alignment);
    if (memory != nullptr) {
      tracer_.record_allocation(id_, nbytes);
    }
    return memory;
  }
  void reset() override { inner_.reset(); }
  size_t used() const override { return inner_.used(); }

 private:
  MemoryAllocator& inner_;
  EventTracer& tracer_;
  uint32_t id_;
};

}  // namespace et::runtime
