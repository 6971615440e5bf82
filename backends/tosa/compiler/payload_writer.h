/// Writes a TOSA graph: one region with one block, as the published schema has it.
///
/// For: lowering.h. Tensors and shapes are numbers here and get their names when they are made. What goes in twice
/// (zero points, shapes) stands in the file once.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/tosa/schema/tosa_generated.h"
#include "ir/graph.h"

namespace et::backends::tosa::compiler {

using Shape = std::vector<int32_t>;
using TensorId = uint32_t;
inline constexpr TensorId kNoTensor = UINT32_MAX;

class PayloadWriter {
 public:
  flatbuffers::FlatBufferBuilder builder;

  /// Operators that follow come from this node: its place in the model is in their location.
  void set_source(const ir::Node& node);

  TensorId add_tensor(payload::DType type, Shape shape);
  /// With a CONST operator.
  TensorId add_constant(payload::DType type, Shape shape, std::string bytes);
  template <typename T>
  TensorId add_numbers(payload::DType type, Shape shape, const std::vector<T>& numbers) {
    return add_constant(type, std::move(shape),
                        std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)));
  }
  /// A shape with a CONST_SHAPE operator.
  TensorId add_shape(const std::vector<int64_t>& values);

  /// The attribute of operators that have no content in theirs.
  flatbuffers::Offset<void> no_content() { return payload::CreateAddAttribute(builder).Union(); }
  /// An operator with one result. The number of its attribute in the schema's union is its own.
  void add(payload::Op op, flatbuffers::Offset<void> attribute, const std::vector<TensorId>& inputs, TensorId output);

  payload::DType type_of(TensorId tensor) const { return tensors_[tensor].type; }
  const Shape& shape_of(TensorId tensor) const { return tensors_[tensor].shape; }

  std::string finish(const std::vector<TensorId>& inputs, const std::vector<TensorId>& outputs);

 private:
  struct Named {
    payload::DType type;
    Shape shape;
    std::string name;
  };

  TensorId name_it(payload::DType type, Shape shape);
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>> names(
      const std::vector<TensorId>& ids);
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> data(const std::string& bytes);

  std::vector<Named> tensors_;
  std::unordered_map<std::string, TensorId> constants_;  ///< by type, shape and bytes
  std::string location_;
  flatbuffers::Offset<payload::OpLocation> place_;  ///< `location_` in the file, once an operator needs it
  std::vector<flatbuffers::Offset<payload::TosaTensor>> written_tensors_;
  std::vector<flatbuffers::Offset<payload::TosaShape>> written_shapes_;
  std::vector<flatbuffers::Offset<payload::TosaOperator>> operators_;
};

}  // namespace et::backends::tosa::compiler
