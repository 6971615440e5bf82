#include "runtime/evalue.h"

#include <cstring>

namespace et::runtime {

const char* to_string(Tag tag) {
  static constexpr const char* kNames[] = {"?",          "None",     "Int",        "Bool",
                                           "Double",     "Tensor",   "String",     "IntList",
                                           "DoubleList", "BoolList", "TensorList", "OptionalTensorList"};
  const size_t i = static_cast<size_t>(tag);
  return kNames[i < sizeof(kNames) / sizeof(kNames[0]) ? i : 0];
}

inline namespace lean {

/// Towards zero, as a cast does. Outside the range of int64 a cast has no meaning: NaN gives 0, the rest the nearest
/// end. By bits: on cores without doubles a cast brings a multiplication and an addition of them.
static int64_t integer_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const bool is_negative = bits >> 63 != 0;
  const auto shift = static_cast<int>((bits >> 52) & 0x7FF) - 1075;  // value = mantissa * 2^shift
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1), mantissa = fraction | (uint64_t{1} << 52);
  if (shift > 10) {
    return shift == 0x7FF - 1075 && fraction != 0 ? 0 : is_negative ? INT64_MIN : INT64_MAX;
  }
  const uint64_t magnitude = shift >= 0 ? mantissa << shift : shift > -53 ? mantissa >> -shift : 0;
  return is_negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
}

int64_t EValue::number_as_int() const {
  if (tag_ == Tag::kDouble) {
    return integer_of(payload_.double_value);
  }
  return tag_ == Tag::kBool ? static_cast<int64_t>(payload_.bool_value) : payload_.int_value;
}

Span<const int64_t> EValue::to_int_list() const {
  ET_DCHECK(is_int_list());
  BoxedList<int64_t>& list = *payload_.int_list;
  if (!list.is_constant) {
    for (uint32_t i = 0; i < list.size; ++i) {
      list.cache[i] = list.items[i]->number_as_int();
    }
  }
  return {list.cache, list.size};
}

Span<const Tensor> EValue::to_tensor_list() const {
  ET_DCHECK(is_tensor_list());
  BoxedList<Tensor>& list = *payload_.tensor_list;
  if (!list.is_constant) {
    for (uint32_t i = 0; i < list.size; ++i) {
      list.cache[i] = list.items[i]->to_tensor();
    }
  }
  return {list.cache, list.size};
}

Span<const std::optional<Tensor>> EValue::to_optional_tensor_list() const {
  ET_DCHECK(is_optional_tensor_list());
  BoxedList<std::optional<Tensor>>& list = *payload_.optional_tensor_list;
  if (!list.is_constant) {
    for (uint32_t i = 0; i < list.size; ++i) {
      const EValue* item = list.items[i];
      list.cache[i] = item == nullptr || item->is_none() ? std::nullopt : std::optional<Tensor>(item->to_tensor());
    }
  }
  return {list.cache, list.size};
}

}  // namespace lean
}  // namespace et::runtime
