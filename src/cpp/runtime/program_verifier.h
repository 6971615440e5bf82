/// The semantic verifier: what a well-formed flatbuffer must also satisfy to be a program that may be trusted.
///
/// For: Program::load, after the header and the tables (schema/table_verifier.h). Internal to runtime.
///
/// Guarantees, for each method:
///   - every index (values, operators, delegates, segments, constants, jump destinations) is in range;
///   - every union is set and known, lists hold the kinds of value they must, none contains itself;
///   - rank <= 16, sizes and their bytes fit 63 bits, dim_order is a permutation, dtypes are known;
///   - planned tensors lie inside their buffers, constants and initial values inside their segments, segments inside
///   the
///     file, all of them aligned to their element;
///   - a MoveCall joins values of the same kind (tensors: dtype, rank, dim_order, bounds that fit);
///   - strings are UTF-8, booleans are 0 or 1, and names are unique.
/// Does not guarantee that the program computes anything sensible, that operators exist, or that a payload is valid;
/// those are checked by load_method and by backends. Aliased memory is legal.
/// Cost: linear in the file: the items looked at are bounded by its size, whatever it refers to repeatedly.
#pragma once

#include <algorithm>

#include "base/error.h"
#include "runtime/features.h"
#include "runtime/flatbuffer_views.h"
#include "schema/debug_info_generated.h"
#include "schema/program_generated.h"
#include "schema/pte_header.h"
#include "schema/shapes_generated.h"

namespace et::runtime {

/// How much of a file may still be looked at. Tables may refer to the same list or string again and again, so that a
/// small file means endless work; a verifier that spends from a budget stays linear in the size of the file.
class WorkBudget {
 public:
  /// For a flatbuffer of `nbytes` bytes.
  explicit WorkBudget(uint64_t nbytes) : left_((uint64_t{1} << 16) + 4 * nbytes) {}
  /// Errors: InvalidProgram when the budget is used up.
  Error spend(uint64_t items);
  /// True when a string is UTF-8 (an absent one is) and the budget suffices to look at it.
  bool is_text(const flatbuffers::String* text);
  /// The same for a string that must be there, not be empty, and hold no NUL, at which C would see its end.
  bool is_name(const flatbuffers::String* text) {
    const std::string_view name = view(text);  // find() links memchr
    return !name.empty() && is_text(text) && std::all_of(name.begin(), name.end(), [](char c) { return c != '\0'; });
  }

 private:
  uint64_t left_;
};

/// Verifies `program`, the tables of a file with this layout. Errors: InvalidProgram, saying where.
Error verify_program(const schema::Program& program, const schema::FileLayout& layout);

/// Verifies named data entries of ours (of `nbytes` bytes) against the program they came with. Errors: InvalidProgram.
Error verify_debug_info(const schema::debug::DebugInfo& debug, size_t nbytes, const schema::Program& program);
Error verify_shapes(const schema::shapes::Shapes& shapes, size_t nbytes, const schema::Program& program);

/// The plan of that name and its number; nullptr when the program has none.
const schema::ExecutionPlan* find_plan(const schema::Program& program, std::string_view name, size_t* index);

/// Which memory ids hold nothing but mutable buffers (bit i: memory id i). The program has been verified.
/// Rule: docs/reference/format.md, "Mutable state".
uint64_t find_state_memory(const schema::Program& program);

/// Bytes at the upper bound of a verified tensor.
uint64_t tensor_nbytes(const schema::Tensor& tensor);
/// Offset of a verified tensor in its planned buffer.
inline uint64_t allocation_offset(const schema::AllocationDetails& allocation) {
  return static_cast<uint64_t>(allocation.memory_offset_high()) << 32 | allocation.memory_offset_low();
}
inline bool is_external(const schema::Tensor& tensor) {
  return has(Feature::kExternalTensors) && tensor.extra_tensor_info() != nullptr &&
         tensor.extra_tensor_info()->location() == schema::TensorDataLocation_EXTERNAL;
}

/// True when `text` is well-formed UTF-8 (no overlong forms, surrogates or values beyond U+10FFFF).
bool is_utf8(std::string_view text);

}  // namespace et::runtime
