// Any text is safe for the IR's parser; what it accepts can be verified and printed, and the print means the same.

#include <cstdlib>
#include <string_view>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  et::ir::ParseOptions options;
  options.max_data_nbytes = 1 << 16;
  et::ir::ParseError error;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto program = et::ir::parse(text, &error, options);
  if (!program.ok()) {
    return 0;
  }
  et::ir::Diagnostics diagnostics;
  static_cast<void>(et::ir::verify(**program, &diagnostics));
  const std::string printed = et::ir::to_text(**program);
  auto again = et::ir::parse(printed, &error);
  if (!again.ok() || et::ir::to_text(**again) != printed) {
    std::abort();  // the text form must round-trip
  }
  return 0;
}
