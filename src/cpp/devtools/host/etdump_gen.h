/// ETDumpGen: EtDump for hosts, under the published name: its buffer grows, and threads may load while another runs.
///
/// For: Module's tracer, executor_runner, the Python bindings. Not for: microcontrollers (etdump.h).
///
///     Module module("model.pte", Module::LoadMode::Mmap, std::make_unique<ETDumpGen>());
///     module.forward(inputs);
///     auto* const dump = static_cast<ETDumpGen*>(module.event_tracer());
///     const ETDumpResult result = dump->get_etdump_data();
///     std::fwrite(result.buf, 1, result.size, file);
///     std::free(result.buf);
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "devtools/etdump.h"

namespace et::devtools {

/// The bytes of a file. nullptr: there are none; a message says why.
struct ETDumpResult {
  void* buf;
  size_t size;
};

class ETDumpGen final : public EtDump {
 public:
  /// Keeps events on the heap, or in `buffer` when one is given.
  explicit ETDumpGen(Span<uint8_t> buffer = {}) : EtDump(buffer), is_static_(!buffer.empty()) {}

  /// The file as it is now. It lies in memory that the caller gives to free(), or behind the events in the buffer that
  /// was given to the constructor.
  ETDumpResult get_etdump_data();
  /// The file as it is now. Errors: as EtDump::write; MemoryAllocationFailed, here or when events were recorded, which
  /// clear() forgets.
  Result<std::vector<uint8_t>> to_bytes() const;
  /// Writes the file, and the debug buffer beside it where `debug_path` names one. Errors: as EtDump::write;
  /// AccessFailed, naming the path.
  Error save(const std::string& path, const std::string& debug_path = "") const;

  /// A debug buffer of its own, and all intermediate values are recorded into it.
  /// Errors: MemoryAllocationFailed.
  Error record_values(size_t debug_nbytes);

  /// EtDump::reset, while methods may run.
  void clear();

  bool is_static_etdump() const { return is_static_; }
  size_t get_num_blocks() const { return num_blocks(); }

  void record(const runtime::TraceEvent& event) override;
  void begin_execution(std::string_view method) override;
  void record_value(const runtime::TraceValue& value) override;
  uint32_t add_allocator(std::string_view name) override;
  void record_allocation(uint32_t allocator, size_t nbytes) override;
  void record_counter(std::string_view name, int64_t value) override;

 protected:
  Span<uint8_t> grow_events(size_t needed) override;

 private:
  struct Free {
    void operator()(uint8_t* memory) const;
  };
  using Memory = std::unique_ptr<uint8_t[], Free>;

  mutable std::recursive_mutex mutex_;  // a counter is a value
  bool is_static_;
  Memory events_;
  size_t events_nbytes_ = 0;
  Memory debug_;
};

}  // namespace et::devtools
