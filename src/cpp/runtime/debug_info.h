/// Where instructions came from: what the named data entry "executorch_py.debug" says, in both of its versions.
///
/// For: error messages and tools. Not for: running; a method does without.
///
///     OriginReader origins(debug, method_info);
///     for (uint32_t i = 0; i < num_instructions; ++i) print(origins.next().op);
///
/// Place: verified once, when the program is loaded (program_verifier.h); read when something failed.
#pragma once

#include <string_view>

#include "base/span.h"
#include "schema/debug_info_generated.h"

namespace et::runtime {

/// One instruction. Empty texts and line 0 are not known. Points into the file.
struct InstructionOrigin {
  std::string_view op;           ///< as the user knows it, "aten.embedding.default"
  std::string_view node;         ///< name of the fx node, without its number
  uint32_t node_number = 0;      ///< one more than the number in "embedding_3"; 0 = none
  std::string_view module_path;  ///< "encoder.layer.0.attention"
  std::string_view file;
  uint32_t line = 0;
};

/// Reads a method's instructions in order. The tables have been verified.
class OriginReader {
 public:
  OriginReader(const schema::debug::DebugInfo& debug, const schema::debug::MethodInfo& method)
      : debug_(debug), method_(method) {}

  /// The next instruction. To be called at most as often as the method has instructions.
  InstructionOrigin next();

 private:
  const schema::debug::DebugInfo& debug_;
  const schema::debug::MethodInfo& method_;
  uint32_t instruction_ = 0;  // version 0
  size_t at_ = 0;             // version 1: in MethodInfo.origins
};

/// Reads a number of 7-bit groups, the lowest first, all but the last with the highest bit set, from `bytes` at `*at` on, which
/// moves behind it. False when the bytes end before, or the number has more than 32 bits.
bool read_packed_number(Span<const uint8_t> bytes, size_t* at, uint32_t* number);

/// Numbers of an instruction in MethodInfo.origins, in their order; then that many handles.
struct PackedOrigin {
  uint32_t op = 0;
  uint32_t node = 0;
  uint32_t node_number = 0;
  uint32_t module_path = 0;
  uint32_t file = 0;
  uint32_t line = 0;
  uint32_t num_handles = 0;
};

/// Reads an instruction and skips its handles. False when the bytes end before.
bool read_packed_origin(Span<const uint8_t> bytes, size_t* at, PackedOrigin* origin);

}  // namespace et::runtime
