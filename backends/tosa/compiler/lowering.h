/// ir::Graph of a part, its integer operators made (part_form.h) -> a TOSA graph.
///
/// For: register.cpp. Values exist in up to two *forms*: row-major, as in the IR, and as an image with channels
/// innermost, which TOSA's convolutions and poolings want. A form is made when an operator needs it and kept;
/// elementwise operators work in the form that is there. So a network of convolutions is transposed at its entrance
/// and at its exit.
///
///     shape in the IR      row-major       image
///     [N, C, H, W]         [N, C, H, W]    [N, H, W, C]
///     [N, C, L]            [N, C, L]       [N, 1, L, C]
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "backends/tosa/compiler/payload_writer.h"
#include "backends/tosa/compiler/rescale.h"
#include "passes/backend_compiler.h"

namespace et::backends::tosa::compiler {

enum class Form : uint8_t { kRowMajor, kImage };

/// Where the result of an operator on integers goes: its zero point, and the range that is left of it.
struct Output {
  int64_t zero_point = 0;
  int64_t min = -128;
  int64_t max = 127;
};

/// How far activations of a type can be from their zero point.
int64_t reach_of(payload::DType type, int64_t zero_point);

class Lowering {
 public:
  Lowering(const passes::BackendPart& part, const ir::Graph& graph, const ir::Program& program,
           ir::Diagnostics& diagnostics)
      : part_(part), graph_(graph), program_(program), diagnostics_(diagnostics) {}

  /// Errors: NotSupported, with a diagnostic that names the node.
  Error run(passes::BackendPayload& out);

  // ---- for emitters (emit_*.cpp)

  PayloadWriter writer;

  const ir::Program& program() const { return program_; }
  const std::vector<ir::Delegate::CompileSpec>& compile_specs() const { return part_.compile_specs; }
  Error refuse(const ir::Node& node, std::string why);

  /// A value in a form; made by a transpose or a reshape when it is there in the other form only.
  TensorId get(const ir::Value* value, Form form);
  /// The form in which a value is there; row-major when both.
  Form form_of(const ir::Value* value) const;
  bool has(const ir::Value* value, Form form) const;
  /// Says what `value` is in a form. The caller wrote the operator.
  void set(const ir::Value* value, Form form, TensorId tensor);

  static Shape shape_of(const ir::TensorType& type, Form form);
  static payload::DType type_of(ScalarType dtype);
  /// Where dim d of a value stands in a form.
  static int32_t axis_in(Form form, size_t rank, size_t d);

  // ---- operators

  TensorId reshape(TensorId from, const Shape& shape);
  TensorId transpose(TensorId from, const std::vector<int32_t>& perms);
  TensorId slice(TensorId from, const std::vector<int64_t>& start, const Shape& size);
  /// `pairs[2 * axis]` elements of `filling` before each axis, and the next number behind it.
  TensorId pad(TensorId from, const std::vector<int64_t>& pairs, TensorId filling);
  /// Repeats a tensor along its axes.
  TensorId tile(TensorId from, const std::vector<int64_t>& times);
  /// Every step-th of the elements along an axis.
  TensorId every(TensorId from, size_t axis, int64_t step);
  /// An image without these rows and columns at its end.
  TensorId crop(TensorId image, int64_t rows, int64_t columns);
  TensorId concat(const std::vector<TensorId>& parts, int32_t axis);
  TensorId scalar(payload::DType type, int64_t value);
  /// Numbers of a type with floats; one, for tensors of this rank.
  TensorId reals(payload::DType type, Shape shape, const std::vector<double>& values);
  TensorId real(payload::DType type, size_t rank, double value) { return reals(type, Shape(rank, 1), {value}); }
  /// One multiplier for all, or one for each element of the last dim.
  TensorId rescale(TensorId from, payload::DType type, const std::vector<Rescale>& factors, int64_t in_zero,
                   int64_t out_zero);
  /// 8 bits to 32 without their zero point: the same numbers.
  TensorId widen(TensorId from, int64_t zero_point);
  /// Clamps where the range is narrower than the type's.
  TensorId clamp(TensorId from, const Output& output);
  /// The same for floats, whose bounds may be infinite.
  TensorId clamp(TensorId from, double low, double high);
  /// Sums to the integers of the node's result: rescale with these factors, then clamp. `largest`: bounds of the sums'
  /// magnitudes, one or one for each factor. `surplus`: bits that sums for 16 bits lose first.
  Error to_integers(const ir::Node& node, TensorId sums, const std::vector<float>& factors,
                    const std::vector<int64_t>& largest, const Output& output, TensorId* out, int surplus = 0);
  /// The type of products of such activations, and of their bias: floats stay what they are.
  payload::DType sum_type(TensorId activations) const;
  /// That in which they are added up.
  payload::DType accumulator(TensorId activations) const;
  TensorId bias(TensorId activations, const std::vector<int32_t>& values);
  /// Comparisons give BOOL. `shift`: of MUL, whose products have 64 bits.
  TensorId binary(payload::Op op, TensorId a, TensorId b, const Shape& shape, int shift = 0);

 private:
  struct Forms {
    TensorId ids[2] = {kNoTensor, kNoTensor};  // by Form
  };

  TensorId convert(const ir::Value* value, Form form);
  TensorId clamp_to(TensorId from, const std::string& low, const std::string& high);
  Error to_16_bits(const ir::Node& node, TensorId sums, const std::vector<float>& factors, int64_t largest, int surplus,
                   const Output& output, TensorId* out);

  const passes::BackendPart& part_;
  const ir::Graph& graph_;
  const ir::Program& program_;
  ir::Diagnostics& diagnostics_;
  std::map<const ir::Value*, Forms> forms_;  // looked up only, never walked through
};

}  // namespace et::backends::tosa::compiler
