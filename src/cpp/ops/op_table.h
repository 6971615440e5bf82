/// The operator table: what the compiler knows about each operator, made from ops.yaml.
///
/// For: the compiler (importer, passes, emitter) and tools: schemas, defaults, out variants, views, which inputs may
/// share memory with the output. Not for: finding a kernel to run (runtime::KernelRegistry).
///
///     const ops::OpInfo* op = ops::find_op("aten::add.Tensor");
///     op->out_name;                         // "aten::add.out"
///     op->out_arguments[2].default_text;    // "1"
///
/// Place: filled at build time by tools/gen_tables.py; all text is constant data, nothing is parsed at run time.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"
#include "base/span.h"
#include "ops/work.h"

namespace et::ops {

/// What an operator is, beyond its schema. Bits of OpInfo::tags.
enum Tag : uint32_t {
  kCore = 1 << 0,            ///< Member of Core ATen.
  kPointwise = 1 << 1,       ///< An output element depends only on the input elements at its (broadcast) position.
  kReduction = 1 << 2,       ///< An output element depends on many input elements.
  kView = 1 << 3,            ///< The functional form returns an alias of its first argument; the out variant copies.
  kMutates = 1 << 4,         ///< Writes one of its arguments (Argument::is_mutated says which).
  kRandom = 1 << 5,          ///< Draws from the generator: two equal calls differ, so never folded or merged.
  kDataDependent = 1 << 6,   ///< Output sizes depend on the values of the inputs.
  kSymbolic = 1 << 7,        ///< Computes numbers, not tensors; run by kernels/prim.
  kFused = 1 << 8,           ///< Our own operator, made by a pass or kept whole by the importer.
  kIrreducible = 1 << 9,     ///< Edge keeps it although torch would decompose it further.
  kCheap = 1 << 10,          ///< Makes its result in the time it takes to write it.
  kClamps = 1 << 11,         ///< Limits elements to a range of numbers (passes/clamps.h).
  kSameType = 1 << 12,       ///< Returns its first argument where the result has that argument's type.
  kCommutative = 1 << 13,    ///< Its first two arguments may change places.
  kUninitialised = 1 << 14,  ///< Allocates without saying what is in it.
  kRunTimeScale = 1 << 15,   ///< Quantizes by a scale that is computed at run time, or computes one.
  kQuantizes = 1 << 16,      ///< Makes integers of floats.
  kDequantizes = 1 << 17,    ///< Makes floats of integers.
};

/// How an operator's results come from the elements of its first argument (MOVES in codegen/ops_yaml.py).
enum class Moves : uint8_t {
  kNot,      ///< They are computed.
  kReshape,  ///< All of them in their order.
  kPermute,  ///< Each once, in another order.
  kPart,     ///< Some of them.
  kRepeat,   ///< Each any number of times.
  kGather,   ///< Those that an index tensor names.
  kPad,      ///< All of them, those at the borders repeated.
  kPool,     ///< The largest of each window.
  kLargest,  ///< The largest or smallest along dims.
  kMask,     ///< Each at its place, or zero.
};

/// The order in memory in which an operator on images works.
enum class Layout : uint8_t {
  kNotSaid,
  kAny,           ///< The one that its images have.
  kChannelsLast,  ///< Its kernels are faster with channels innermost.
};

/// One parameter of a schema.
struct Argument {
  std::string_view name;
  /// Signature letter: T Tensor, t optional Tensor, i int, … (the list is in runtime/unboxing.h).
  char letter;
  /// Schema type without alias annotation: "SymInt[2]", "Tensor?", "MemoryFormat".
  std::string_view type;
  /// Default as written in the schema ("1", "None", "[0]", "\"none\""); empty when the argument is required.
  std::string_view default_text;
  bool is_kwarg_only;
  /// Written by the operator (annotation with "!").
  bool is_mutated;
  /// An output of an out variant.
  bool is_out;

  bool has_default() const { return !default_text.empty(); }
};

/// One operator.
struct OpInfo {
  /// Functional name: "aten::add.Tensor".
  std::string_view name;
  /// Name of the kernel that a program calls: "aten::add.out"; equals `name` when the operator has no out variant.
  std::string_view out_name;
  /// Full texts, as PyTorch prints them.
  std::string_view schema;
  std::string_view out_schema;
  /// Parameters of `schema`, and of `out_schema` (which may lack dtype, layout, device …, and may have more with
  /// defaults).
  Span<const Argument> arguments;
  Span<const Argument> out_arguments;
  /// Number of values that the functional form returns; 1 for a list of tensors.
  uint8_t num_returns;
  /// Bits of Tag.
  uint32_t tags;
  /// Element types of the main tensor for which kernels exist: bit = ScalarType's value. 0 = no statement.
  uint32_t dtypes;
  /// Bit i: an output may share the memory of out_arguments[i] when dtype, sizes and strides are equal and the value is
  ///        not needed afterwards.
  uint32_t in_place;
  /// The official runtime has a kernel of this out_name, so ExecutorchBackendConfig(compatible=True) may emit it.
  bool is_published;
  /// A portable kernel is part of this build's table.
  bool has_portable_kernel;
  Moves moves;
  Layout layout;
  /// Bit i: the result's elements are elements of arguments[i], or the largest of them. An argument may be a list.
  uint32_t joins;
  /// The operator that computes the same on integers; empty: none. Its arguments are those of `arguments` with the same
  /// name, and how these and the result are held: x_scale, x_zero_point, w_scales, output_min …
  std::string_view integers;
  /// What decides about the cost of a call; nullopt: nothing, or the sizes of a product.
  std::optional<WorkKind> work;

  bool has_tag(Tag tag) const { return (tags & tag) != 0; }
  bool supports(ScalarType dtype) const { return (dtypes >> static_cast<uint32_t>(dtype) & 1u) != 0; }
  bool has_out_variant() const { return name != out_name; }
};

/// The operator with this functional name ("aten::add.Tensor", no ".default"); nullptr when the table has none.
const OpInfo* find_op(std::string_view functional_name);

/// An operator whose kernel is called `out_name` ("aten::add.out"); nullptr when the table has none. When several share
/// the kernel (view and view_copy), the first in the table's order.
const OpInfo* find_out(std::string_view out_name);

/// How an operator moves elements; kNot for a name that the table does not have.
Moves moves_of(std::string_view functional_name);

/// Whether the table has the operator, with this tag.
bool has_tag(std::string_view functional_name, Tag tag);

/// Whether an operator is one of the runtime's own, which kernels/prim lists and this table does not: arithmetic on
/// sizes, views of dynamic sizes, checks.
bool is_primitive(std::string_view name);

/// All operators, ordered by name.
Span<const OpInfo> all_ops();

}  // namespace et::ops
