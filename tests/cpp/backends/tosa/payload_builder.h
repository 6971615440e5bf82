/// Payloads for the tests: small TOSA graphs with inputs and the outputs that follow from the definition by hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/tosa/schema/tosa_generated.h"

namespace et::test {

using Bytes = std::vector<uint8_t>;

/// Builds one block, operator by operator.
class PayloadBuilder {
 public:
  using Shape = std::vector<int32_t>;

  void input(const std::string& name, const Shape& shape, backends::tosa::payload::DType dtype);
  /// A CONST; `elements` as T, or packed bytes.
  template <typename T>
  void constant(const std::string& name, const Shape& shape, backends::tosa::payload::DType dtype,
                const std::vector<T>& elements) {
    const auto* first = reinterpret_cast<const uint8_t*>(elements.data());
    add_constant(name, shape, dtype, Bytes(first, first + elements.size() * sizeof(T)));
  }
  void shape(const std::string& name, const std::vector<int64_t>& values);
  /// An operator with one output. `attribute` is a table of the builder, of the type that belongs to `op`.
  void add(backends::tosa::payload::Op op, const std::vector<std::string>& inputs, const std::string& output,
           const Shape& shape, backends::tosa::payload::DType dtype, flatbuffers::Offset<void> attribute);
  flatbuffers::FlatBufferBuilder& tables() { return tables_; }
  /// The payload; the builder is done.
  Bytes finish(const std::vector<std::string>& outputs, int32_t minor = 0, bool draft = false);

 private:
  void add_constant(const std::string& name, const Shape& shape, backends::tosa::payload::DType dtype,
                    const Bytes& data);

  flatbuffers::FlatBufferBuilder tables_;
  std::vector<flatbuffers::Offset<backends::tosa::payload::TosaTensor>> tensors_;
  std::vector<flatbuffers::Offset<backends::tosa::payload::TosaShape>> shapes_;
  std::vector<flatbuffers::Offset<backends::tosa::payload::TosaOperator>> operators_;
  std::vector<std::string> inputs_;
};

/// A payload of one input and one output, both int8.
struct Example {
  const char* name;
  Bytes payload;
  std::vector<int64_t> input_sizes, output_sizes;
  std::vector<int8_t> input, output;
};

const std::vector<Example>& examples();

}  // namespace et::test
