/// MethodMeta: what a method takes, gives and needs, without loading it.
///
/// For: sizing the MemoryManager, and showing a program to people. A light view; valid as long as its Program.
///
///     ET_TRY(MethodMeta meta, program.method_meta("forward"));
///     for (size_t i = 0; i < meta.num_memory_planned_buffers(); ++i) reserve(meta.memory_planned_buffer_size(i));
#pragma once

#include <string_view>

#include "base/result.h"
#include "runtime/evalue.h"

namespace et::schema {
struct ExecutionPlan;
namespace shapes {
struct MethodShapes;
}
}  // namespace et::schema

namespace et::runtime {

class Program;

/// A tensor that goes into or comes out of a method.
struct TensorInfo {
  ScalarType dtype = ScalarType::Byte;
  Span<const int32_t> sizes;      ///< elements; upper bounds when dynamism is not kStatic
  Span<const uint8_t> dim_order;  ///< outermost dimension first
  TensorShapeDynamism dynamism = TensorShapeDynamism::kStatic;
  bool is_memory_planned = false;  ///< its bytes lie in a planned buffer; otherwise the caller gives memory
  size_t nbytes = 0;               ///< at its upper bounds
};

/// Range of one size. `symbol` is the name given at export ("batch"), empty when there is none.
struct SizeBounds {
  int64_t lower = 0;
  int64_t upper = 0;
  std::string_view symbol;
};

class MethodMeta {
 public:
  std::string_view name() const;

  size_t num_inputs() const;
  size_t num_outputs() const;
  /// What kind of value input or output `i` is.
  Tag input_tag(size_t i) const;
  Tag output_tag(size_t i) const;
  /// Description of a tensor. Errors: InvalidArgument when there is no such input or it is no tensor.
  Result<TensorInfo> input_tensor_info(size_t i) const;
  Result<TensorInfo> output_tensor_info(size_t i) const;
  /// The name it had in the model; empty when the file does not say.
  std::string_view input_name(size_t i) const;
  std::string_view output_name(size_t i) const;
  /// Smallest and largest size of dimension `dim` of tensor input `i`. Both are the size itself when it is static.
  SizeBounds input_bounds(size_t i, size_t dim) const;

  /// Attributes: mutable buffers that have a name in the file ("cache.keys"), in the order of the method's values.
  size_t num_attributes() const;
  /// Empty when there is no such attribute.
  std::string_view attribute_name(size_t i) const;
  /// Errors: InvalidArgument when there is no such attribute.
  Result<TensorInfo> attribute_tensor_info(size_t i) const;

  /// Planned buffers: buffer `i` is memory id i + 1. Sizes in bytes.
  size_t num_memory_planned_buffers() const;
  uint64_t memory_planned_buffer_size(size_t i) const;
  /// True when the buffer belongs to the session (mutable state) and its span in the MemoryManager may be empty.
  bool memory_planned_buffer_is_state(size_t i) const;
  /// True when the method reads or writes state of the session.
  bool uses_state() const;

  size_t num_instructions() const;
  size_t num_operators() const;
  /// Operator `i` as kernels are registered: written to `buffer` ("aten::add.out"), cut off when it does not fit.
  std::string_view operator_name(size_t i, Span<char> buffer) const;
  size_t num_backends() const;
  /// Name of the backend of delegate `i`.
  std::string_view backend_name(size_t i) const;
  bool uses_backend(std::string_view name) const;

  /// JSON of the pytree of inputs and outputs (docs/reference/format.md); empty when the file has none.
  std::string_view input_structure() const;
  std::string_view output_structure() const;

 private:
  friend class Program;
  friend class MethodLoader;

  MethodMeta(const Program* program, const schema::ExecutionPlan* plan, const schema::shapes::MethodShapes* shapes)
      : program_(program), plan_(plan), shapes_(shapes) {}

  const Program* program_;
  const schema::ExecutionPlan* plan_;
  const schema::shapes::MethodShapes* shapes_;  // nullptr: the file has none
};

}  // namespace et::runtime
