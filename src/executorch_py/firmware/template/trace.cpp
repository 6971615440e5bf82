#include "trace.h"

#include "board/board.h"
#include "report.h"

namespace firmware {

using namespace et;  // NOLINT(google-build-using-namespace): a program, not a header

namespace {

alignas(8) uint8_t g_events[kEventBytes];

/// Writes bytes in lines of at most 36.
class Lines {
 public:
  void put(uint8_t byte) {
    if (filled_ == 0) {
      board::write("etdump: ");
    }
    text_[filled_++] = kDigits[byte >> 4];
    text_[filled_++] = kDigits[byte & 15];
    if (filled_ == sizeof(text_) - 2) {
      end();
    }
  }
  void end() {
    text_[filled_] = '\n';
    text_[filled_ + 1] = '\0';
    board::write(filled_ == 0 ? "" : text_);
    filled_ = 0;
  }

 private:
  static constexpr char kDigits[] = "0123456789abcdef";
  char text_[72 + 2];
  size_t filled_ = 0;
};

Error put_bytes(void* lines, const void* data, size_t nbytes) {
  for (size_t i = 0; i < nbytes; ++i) {
    static_cast<Lines*>(lines)->put(static_cast<const uint8_t*>(data)[i]);
  }
  return Error::Ok;
}

}  // namespace

Trace::Trace() : dump_({g_events, sizeof(g_events)}) {}

Error Trace::write() const {
  Lines lines;
  const Error error = dump_.write(&put_bytes, &lines);
  lines.end();
  if (error != Error::Ok) {
    write_number("event buffer lacks ", dump_.events_wanted() - kEventBytes);
    board::write(" bytes\n");
    return fail("etdump", error);
  }
  write_number("events: ", dump_.events_wanted());
  board::write(" bytes\n");
  return Error::Ok;
}

}  // namespace firmware
