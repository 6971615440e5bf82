/// EtDump: an EventTracer that keeps what happens in a buffer and writes it as an ETDump file.
///
/// For: profiles of programs, on microcontrollers too: it takes no memory of its own and writes to wherever bytes go.
/// Hosts use etdump_gen.h, whose buffers grow. Not for: reading ETDumps (executorch_py.devtools.Inspector does).
///
///     alignas(8) static uint8_t events[8 * 1024];
///     static EtDump dump(events);
///     options.tracer = &dump;
///     …                                                 // load and execute
///     ET_RETURN_IF_ERROR(dump.write(&send_to_uart, nullptr));
///
/// The file is the published one (schema/etdump.fbs, size-prefixed), with the published names of events: a call of an
/// operator is "native_call_add.out" and "OPERATOR_CALL" with the same times, for between them lies next to nothing.
/// Intermediate values lie in the debug buffer, as bytes; the file says where.
#pragma once

#include "base/result.h"
#include "devtools/forward_flatbuffer.h"
#include "runtime/event_tracer.h"

namespace et::devtools {

class EtDump : public runtime::EventTracer {
 public:
  /// Keeps events in `events` and values in `debug`; both must outlive this. What finds no room is not kept, and
  /// write() then refuses.
  explicit EtDump(Span<uint8_t> events, Span<uint8_t> debug = {});
  EtDump(const EtDump&) = delete;
  EtDump& operator=(const EtDump&) = delete;

  void record(const runtime::TraceEvent& event) override;
  void begin_execution(std::string_view method) override;
  void record_value(const runtime::TraceValue& value) override;
  uint32_t add_allocator(std::string_view name) override;
  void record_allocation(uint32_t allocator, size_t nbytes) override;
  void record_counter(std::string_view name, int64_t value) override;

  /// Which test case of a bundled program the next executions run; -1: none.
  void set_bundled_input_index(int32_t index) { bundled_input_index_ = index; }
  /// Where values go from now on.
  void set_debug_buffer(Span<uint8_t> debug) { debug_ = debug, debug_used_ = 0, debug_wanted_ = 0; }
  /// The part of the debug buffer that holds values.
  Span<const uint8_t> debug_bytes() const { return {debug_.data(), debug_used_}; }
  /// Runs so far: loads before an execution are one, each execution is one.
  size_t num_blocks() const { return num_runs_; }
  /// Bytes that all events take, with those that found no room.
  size_t events_wanted() const { return wanted_; }
  /// Forgets what was recorded.
  void reset();

  /// Errors: OutOfResources when a buffer was too small, saying how large it must be.
  Error check() const;
  /// Bytes of the file. Errors: as check().
  Result<size_t> nbytes() const;
  /// Writes the file. Errors: as check(); those of `write`.
  Error write(WriteBytes write, void* context) const;

 protected:
  /// Called when `needed` bytes of events do not fit; a derived class may give a larger buffer with the same bytes.
  virtual Span<uint8_t> grow_events(size_t needed) { return static_cast<void>(needed), events_; }
  /// What is left of the buffer.
  Span<uint8_t> free_events() const { return events_.subspan(used_, events_.size() - used_); }

 private:
  friend class EventReader;
  enum class Phase : uint8_t { kNothing, kLoading, kExecuting, kExecuted };

  struct Record;

  uint8_t* append(Record record, std::string_view name = {}, std::string_view text = {}, size_t extra_size = 0);
  void begin_run(std::string_view name, Phase phase);
  void begin_loading();
  bool keep_bytes(const runtime::EValue& value);
  /// What `use` gives for the root of the file.
  template <typename Use>
  auto with_root(Use use) const;

  Span<uint8_t> events_;
  size_t used_ = 0;
  size_t wanted_ = 0;  // with what found no room
  Span<uint8_t> debug_;
  size_t debug_used_ = 0;
  size_t debug_wanted_ = 0;
  size_t num_runs_ = 0;
  uint32_t num_allocators_ = 0;
  std::atomic<int32_t> bundled_input_index_{-1};
  Phase phase_ = Phase::kNothing;
};

}  // namespace et::devtools
