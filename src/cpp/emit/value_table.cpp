#include "emit/value_table.h"

#include <cstring>

namespace et::emit {

template <typename Make>
int32_t ValueTable::shared(schema::KernelTypes type, const void* data, size_t nbytes, const Make& make) {
  std::string key(1 + nbytes, static_cast<char>(type));
  if (nbytes != 0) {
    std::memcpy(&key[1], data, nbytes);
  }
  const auto [entry, is_new] = shared_.emplace(std::move(key), 0);
  if (is_new) {
    entry->second = add(type, make().Union());
  }
  return entry->second;
}

int32_t ValueTable::null() {
  return shared(schema::KernelTypes_Null, nullptr, 0, [&] { return schema::CreateNull(builder_); });
}

int32_t ValueTable::integer(int64_t value) {
  return shared(schema::KernelTypes_Int, &value, sizeof(value), [&] { return schema::CreateInt(builder_, value); });
}

int32_t ValueTable::floating(double value) {
  return shared(schema::KernelTypes_Double, &value, sizeof(value),
                [&] { return schema::CreateDouble(builder_, value); });
}

int32_t ValueTable::boolean(bool value) {
  return shared(schema::KernelTypes_Bool, &value, sizeof(value), [&] { return schema::CreateBool(builder_, value); });
}

int32_t ValueTable::string(std::string_view value) {
  return shared(schema::KernelTypes_String, value.data(), value.size(),
                [&] { return schema::CreateString(builder_, builder_.CreateString(value.data(), value.size())); });
}

int32_t ValueTable::int_list(const std::vector<int64_t>& items) {
  return shared(schema::KernelTypes_IntList, items.data(), items.size() * sizeof(int64_t),
                [&] { return schema::CreateIntList(builder_, builder_.CreateVector(items)); });
}

int32_t ValueTable::double_list(const std::vector<double>& items) {
  return shared(schema::KernelTypes_DoubleList, items.data(), items.size() * sizeof(double),
                [&] { return schema::CreateDoubleList(builder_, builder_.CreateVector(items)); });
}

int32_t ValueTable::bool_list(const std::vector<bool>& items) {
  const std::string bytes(items.begin(), items.end());
  return shared(schema::KernelTypes_BoolList, bytes.data(), bytes.size(),
                [&] { return schema::CreateBoolList(builder_, builder_.CreateVector(items)); });
}

int32_t ValueTable::tensor_list(const std::vector<int32_t>& items) {
  return shared(schema::KernelTypes_TensorList, items.data(), items.size() * sizeof(int32_t),
                [&] { return schema::CreateTensorList(builder_, builder_.CreateVector(items)); });
}

int32_t ValueTable::optional_tensor_list(const std::vector<int32_t>& items) {
  return shared(schema::KernelTypes_OptionalTensorList, items.data(), items.size() * sizeof(int32_t),
                [&] { return schema::CreateOptionalTensorList(builder_, builder_.CreateVector(items)); });
}

int32_t ValueTable::add(schema::KernelTypes type, flatbuffers::Offset<void> value) {
  values_.push_back(schema::CreateEValue(builder_, type, value));
  return static_cast<int32_t>(values_.size() - 1);
}

}  // namespace et::emit
