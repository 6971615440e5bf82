/// Emission: a planned program becomes a file.
///
/// In:  ir::Program whose methods are at Stage::kPlanned. Out: the bytes of a `.pte`, and of a `.ptd` when constants
/// are external, laid out but not yet written (sink.h). Not for: deciding anything. Operators, aliases and places were
/// decided before; what the format cannot say is an error.
///
///     Emitted emitted;
///     ET_RETURN_IF_ERROR(emit(program, options, emitted, diagnostics));
///     ET_RETURN_IF_ERROR(save(emitted.program, "model.pte"));
///
/// The same program gives the same bytes. The format, its tables and its call conventions: docs/reference/format.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emit/sink.h"
#include "ir/diagnostic.h"
#include "ir/graph.h"

namespace et::emit {

struct EmitOptions {
  uint64_t segment_alignment = 128;  ///< bytes, of segments of 4 KB and more; a power of two. 4096 suits mapped files
  uint64_t constant_alignment = 16;  ///< bytes inside the constant segment; a power of two, at least 16
  /// Only what the published runtime knows: an operator that it has no kernel for is an error.
  bool compatible = false;
  /// Payloads of delegates stand in the tables instead of segments of their own (extract_delegate_segments=False).
  bool inline_payloads = false;
  /// Named data that all its users read in sparse form too, and int8 weights of products (sparse_constants.h), are
  /// stored so when at least this part of their elements is zero; above 1: never. A file for the published runtime has
  /// none.
  double sparse_weights = 2;
  /// Writes the entries "executorch_py.debug" and the names of "executorch_py.shapes".
  bool debug_info = true;
  /// Debug handle of a node -> those that the user knows its operators by (of the fx graph), for "executorch_py.debug".
  /// Empty: the nodes' own.
  std::map<uint32_t, std::vector<uint32_t>> debug_handles;
  /// Kernels that the operator table does not have -> the letters of their parameters (runtime/unboxing.h): they say
  /// what an empty list is a list of.
  std::map<std::string, std::string, std::less<>> signatures;
};

/// Debug handles of each instruction of a method: ExecutorchProgramManager.debug_handle_map, delegate_map.
struct MethodHandles {
  /// An instruction that calls a delegate.
  struct Call {
    size_t instruction;
    size_t delegate;  ///< in ir::Program::delegates
    size_t num_outputs;
  };
  std::string method;
  std::vector<std::vector<uint32_t>> instructions;
  std::vector<Call> calls;
};

struct Emitted {
  File program;                           ///< `.pte`
  std::map<std::string, File> externals;  ///< `.ptd` files by name (Constant::external_file); none when all is inside
  std::vector<MethodHandles> handles;     ///< in order of method names
};

/// Lays out the file. `program` stays alive as long as `emitted`, which borrows its constants and payloads.
///
/// Errors: InvalidState       a method is not planned.
///         NotSupported       compatible, and operators are not published (one diagnostic each).
///         InvalidArgument    a value or argument that the format cannot say; names that are used twice.
///         OutOfResources     the tables take 2 GiB or more (the weights may).
Error emit(const std::shared_ptr<const ir::Program>& program, const EmitOptions& options, Emitted& emitted,
           ir::Diagnostics& diagnostics);

}  // namespace et::emit
