/// ir::Graph of a part -> the delegate's payload.
///
/// For: register.cpp. Values exist in up to two *forms*: row-major, as in the IR, and as an image with channels
/// innermost, which convolutions, poolings and resizes want. A form is made when a node needs it and kept,
/// elementwise operators work in the form that is there, and permutations between the two are renamings. So a network
/// of convolutions is transposed at its entrance and at its exit.
///
///     shape in the IR      row-major       image
///     [N, C, H, W]         [N, C, H, W]    [N, H, W, C]
///     [N, C, L]            [N, C, L]       [N, 1, L, C]
///
/// Integers: a dequantize is a second name for the integers in front of it. An operator all of whose inputs have such
/// names and whose only user is a quantize works on integers; any other that reads a dequantized value gets a Convert.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "backends/xnnpack/compiler/payload_writer.h"
#include "passes/clamps.h"
#include "passes/rewrite.h"

namespace et::backends::xnnpack {

/// How a value lies in memory.
enum class Form : uint8_t { kRowMajor, kImage };

/// Scale and zero point of integers.
struct AffineParameters {
  float scale = 1;
  int32_t zero_point = 0;
};

/// A clamp as the format has it.
inline Clamp in_floats(const passes::Clamp& clamp) {
  return {static_cast<float>(clamp.min), static_cast<float>(clamp.max)};
}

class Lowering {
 public:
  Lowering(const passes::BackendPart& part, ir::Diagnostics& diagnostics) : part_(part), diagnostics_(diagnostics) {}

  /// Errors: NotSupported, with a diagnostic that names the node.
  Error run(passes::BackendPayload& out);

  // ---- for emitters (emit_*.cpp)

  PayloadWriter writer;

  const ir::Program& program() const { return part_.program; }
  Error refuse(const ir::Node& node, std::string why);

  /// The id of a value in a form; made by a transpose or a reshape when it is there in the other form only.
  uint32_t id_of(const ir::Value* value, Form form);
  /// True when a value exists in a form already (constants of rank 3 and 4 exist in both, others row-major).
  bool has(const ir::Value* value, Form form) const;
  /// The form in which `value` costs nothing; image when both.
  Form form_of(const ir::Value* value) const;
  /// Defines what a node makes. The caller writes the node.
  uint32_t define(const ir::Value* value, Form form);
  /// Says that `value` in `form` is the value `id` that exists already.
  void rename(const ir::Value* value, Form form, uint32_t id);
  /// A value between two nodes that stands for nothing in the IR.
  uint32_t define_hidden(payload::Datatype datatype, std::vector<uint32_t> dims);
  uint32_t define_hidden(const ValueSpec& spec) { return writer.add_value(spec); }
  /// A constant with one element.
  uint32_t scalar(const ir::TensorType& like, double value);
  /// A constant operand of elementwise operators: its dims padded to `rank` and laid out for `form`.
  uint32_t operand_constant(const ir::Value* value, Form form, size_t rank);

  ValueSpec spec_of(const ir::Value* value, Form form) const;
  static std::vector<uint32_t> dims_of(const ir::TensorType& type, Form form);
  static payload::Datatype datatype_of(ScalarType dtype);
  /// Sizes for a StaticReshape: 0 for the dynamic one.
  static std::vector<uint32_t> shape_of(const ir::TensorType& type, Form form);
  void reshape(uint32_t from, uint32_t to, const std::vector<uint32_t>& shape, uint32_t debug_handle);
  void transpose(uint32_t from, uint32_t to, const std::vector<uint32_t>& perm, uint32_t debug_handle);

  /// What a node ends as: itself, or the last of the clamps behind it that only it feeds, which become part of it.
  struct Tail {
    const ir::Value* result = nullptr;
    std::optional<Clamp> clamp;
    const Clamp* range() const { return clamp ? &*clamp : nullptr; }
  };
  Tail take_clamps(const ir::Node& node);

  /// The parameters of the integers that `value` is the dequantized name of.
  const AffineParameters* dequantized(const ir::Value* value) const;
  /// The integers behind such a name.
  const ir::Value* integers(const ir::Value* value) const;
  /// With clamps taken: the result of the quantize that alone reads `result`; nothing when there is none.
  const ir::Node* quantize_behind(const ir::Value* result) const;
  void set_parameters(const ir::Value* integers, AffineParameters parameters) { parameters_[integers] = parameters; }
  const AffineParameters* parameters(const ir::Value* integers) const;
  /// Says that the node that is emitted now does the work of `node`, too.
  void skip(const ir::Node* node) { done_.emplace(node, current_); }

  /// True for what the delegate hands out.
  bool is_output(const ir::Value* value) const { return external_.count(value) != 0; }
  /// Says that `value`, which products alone read, exists with its last two dims swapped only, as `id`.
  void set_swapped(const ir::Value* value, uint32_t id) { swapped_[value] = id; }
  /// The id of such a value; kInvalidId for others.
  uint32_t swapped(const ir::Value* value) const;

 private:
  struct Forms {
    uint32_t ids[2] = {kInvalidId, kInvalidId};  // by Form
  };

  void add_inputs(passes::BackendPayload& out);
  void say_handles(passes::BackendPayload& out) const;
  Error add_outputs();
  uint32_t convert(const ir::Value* value, Form form);
  uint32_t add_constant(const ir::Value* value, const ir::Constant& constant, Form form);

  const passes::BackendPart& part_;
  ir::Diagnostics& diagnostics_;
  // Looked up only, never walked through: bytes do not depend on pointers.
  std::map<const ir::Value*, Forms> forms_;
  std::map<const ir::Value*, AffineParameters> parameters_;
  std::map<const ir::Value*, uint32_t> swapped_;
  std::map<const ir::Value*, uint32_t> external_;    // outputs -> external id
  std::set<const ir::Value*> is_written_;            // outputs whose external value is defined
  std::map<const ir::Node*, const ir::Node*> done_;  // nodes that others do -> those
  const ir::Node* current_ = nullptr;
  std::vector<uint32_t> input_ids_;
  std::vector<uint32_t> output_ids_;
};

}  // namespace et::backends::xnnpack
