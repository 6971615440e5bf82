/// ChromeTrace: an EventTracer that writes what Chrome's about:tracing and Perfetto show.
///
/// Source: the "Trace Event Format" document of the Chromium project (complete events, phase X).
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/event_tracer.h"

namespace et::tools {

class ChromeTrace final : public runtime::EventTracer {
 public:
  void record(const runtime::TraceEvent& event) override;

  /// Errors: AccessFailed.
  Error write(const std::string& path) const;
  /// Time by name, the most expensive first, on stdout.
  void print_summary() const;

 private:
  struct Entry {
    runtime::EventKind kind;
    std::string name;
    int32_t instruction;
    uint64_t start_ns;
    uint64_t end_ns;
  };
  std::vector<Entry> entries_;
};

}  // namespace et::tools
