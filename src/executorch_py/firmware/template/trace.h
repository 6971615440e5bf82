// What happened in the runs, as an ETDump in hexadecimal lines; nothing where the project was written without it.
#pragma once

#include "memory.h"
#include "runtime/event_tracer.h"
#ifdef FIRMWARE_TRACES
#include "devtools/etdump.h"
#endif

namespace firmware {

#ifndef FIRMWARE_TRACES
class Trace {
 public:
  et::runtime::EventTracer* tracer() { return nullptr; }
  void begin_case(size_t) {}
  et::Error write() const { return et::Error::Ok; }
};
#else
/// Keeps events in a static buffer of kEventBytes (memory.h). One at a time.
class Trace {
 public:
  Trace();
  /// For MethodOptions.
  et::runtime::EventTracer* tracer() { return &dump_; }
  /// The next executions run this test case.
  void begin_case(size_t test_case) { dump_.set_bundled_input_index(static_cast<int32_t>(test_case)); }
  /// Writes lines "etdump: " with two digits a byte. `etpy firmware` makes a file of them, and so does
  ///     sed -n 's/^etdump: //p' log.txt | xxd -r -p > run.etdp
  et::Error write() const;

 private:
  et::devtools::EtDump dump_;
};
#endif

}  // namespace firmware
