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

/// Numbers of an instruction, in their order in MethodInfo.origins; that many handles follow them. InstructionInfo of
/// version 0 has them in the same order, with the first handle's index in the place of the node's number.
enum OriginField : uint8_t { kOp, kNode, kModulePath, kFile, kLine, kNodeNumber, kNumHandles, kNumOriginFields };

/// Reads a method's instructions in order. The tables are well-formed; what they say is verified with `read`.
class OriginReader {
 public:
  OriginReader(const schema::debug::DebugInfo& debug, const schema::debug::MethodInfo& method);
  /// Reads the steps of a delegate.
  OriginReader(const schema::debug::DebugInfo& debug, const schema::debug::DelegateInfo& delegate);

  /// The fields of the next instruction. False when there is none, or it names a string or handles that are not there.
  bool read(uint32_t (&fields)[kNumOriginFields]);
  /// The first debug handle of what was read last; 0: it has none.
  uint32_t debug_handle() const { return debug_handle_; }
  /// True when all instructions have been read.
  bool is_at_end() const;
  /// The next instruction of verified debug information. To be called at most as often as the method has instructions.
  InstructionOrigin next();

 private:
  const schema::debug::DebugInfo& debug_;
  const schema::debug::MethodInfo* method_ = nullptr;  // of version 0
  Span<const uint8_t> bytes_;                          // of version 1
  size_t at_ = 0;                                      // in MethodInfo.instructions (version 0) or bytes_
  uint32_t last_handle_ = 0;
  uint32_t debug_handle_ = 0;
};

}  // namespace et::runtime
