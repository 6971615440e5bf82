/// ValueTable: the values of one plan, numbered as instructions name them.
///
/// For: the plan emitter. Literals are shared: two calls that take `1` name the same value. Values that an instruction
/// writes, tensors and computed numbers, are added by themselves and never shared, nor are lists that hold them. A list
/// of a computed size is keyed by the index of that size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "schema/program_generated.h"

namespace et::emit {

class ValueTable {
 public:
  explicit ValueTable(flatbuffers::FlatBufferBuilder& builder) : builder_(builder) {}

  int32_t null();
  int32_t integer(int64_t value);
  int32_t floating(double value);
  int32_t boolean(bool value);
  int32_t string(std::string_view value);
  /// `items` are indices of Int values.
  int32_t int_list(const std::vector<int64_t>& items);
  int32_t double_list(const std::vector<double>& items);
  int32_t bool_list(const std::vector<bool>& items);
  /// `items` are indices of Tensor values.
  int32_t tensor_list(const std::vector<int32_t>& items);
  /// The same, -1 = None.
  int32_t optional_tensor_list(const std::vector<int32_t>& items);

  /// A value of its own.
  int32_t add(schema::KernelTypes type, flatbuffers::Offset<void> value);
  int32_t add_integer(int64_t value) {
    return add(schema::KernelTypes_Int, schema::CreateInt(builder_, value).Union());
  }
  int32_t add_floating(double value) {
    return add(schema::KernelTypes_Double, schema::CreateDouble(builder_, value).Union());
  }
  int32_t add_boolean(bool value) { return add(schema::KernelTypes_Bool, schema::CreateBool(builder_, value).Union()); }

  const std::vector<flatbuffers::Offset<schema::EValue>>& values() const { return values_; }

 private:
  /// The value with this type and these bytes, made by `make` when it is new.
  template <typename Make>
  int32_t shared(schema::KernelTypes type, const void* data, size_t nbytes, const Make& make);

  flatbuffers::FlatBufferBuilder& builder_;
  std::vector<flatbuffers::Offset<schema::EValue>> values_;
  std::unordered_map<std::string, int32_t> shared_;
};

}  // namespace et::emit
