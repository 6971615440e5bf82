#include "tools/chrome_trace.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>

namespace et::tools {
namespace {

/// A JSON string without its quotes. Names come from programs, so they may hold anything.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char buffer[8];
      std::snprintf(buffer, sizeof(buffer), "\\u%04x", c);
      out += buffer;
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

void ChromeTrace::record(const runtime::TraceEvent& event) {
  entries_.push_back({event.kind, std::string(event.name), event.position.instruction, event.start_ns, event.end_ns});
}

Error ChromeTrace::write(const std::string& path) const {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"), &std::fclose);
  ET_CHECK_OR_RETURN(file != nullptr, AccessFailed, "cannot write '%s': %s", path.c_str(), std::strerror(errno));
  std::fputs("[", file.get());
  const char* separator = "\n";
  for (const Entry& entry : entries_) {
    std::fprintf(file.get(),
                 "%s{\"name\": \"%s\", \"ph\": \"X\", \"ts\": %.3f, \"dur\": %.3f, \"pid\": 1, \"tid\": 1, \"args\": "
                 "{\"instruction\": %" PRId32 "}}",
                 separator, escaped(entry.name).c_str(), static_cast<double>(entry.start_ns) / 1e3,
                 static_cast<double>(entry.end_ns - entry.start_ns) / 1e3, entry.instruction);
    separator = ",\n";
  }
  std::fputs("\n]\n", file.get());
  ET_CHECK_OR_RETURN(std::fflush(file.get()) == 0, AccessFailed, "cannot write '%s': %s", path.c_str(),
                     std::strerror(errno));
  return Error::Ok;
}

void ChromeTrace::print_summary() const {
  struct Sum {
    uint64_t ns = 0;
    size_t calls = 0;
  };
  std::map<std::string, Sum> sums;
  uint64_t total = 0;
  for (const Entry& entry : entries_) {
    if (runtime::is_instruction(entry.kind)) {
      Sum& sum = sums[entry.name];
      sum.ns += entry.end_ns - entry.start_ns;
      ++sum.calls;
      total += entry.end_ns - entry.start_ns;
    }
  }
  std::vector<std::pair<std::string, Sum>> sorted(sums.begin(), sums.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  std::printf("%-48s %8s %12s %6s\n", "operator", "calls", "total ms", "share");
  for (const auto& [name, sum] : sorted) {
    std::printf("%-48s %8zu %12.3f %5.1f%%\n", name.c_str(), sum.calls, static_cast<double>(sum.ns) / 1e6,
                total == 0 ? 0.0 : 100.0 * static_cast<double>(sum.ns) / static_cast<double>(total));
  }
}

}  // namespace et::tools
