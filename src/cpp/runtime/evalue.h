/// EValue: one value of a running method: nothing, a number, a string, a tensor or a list.
///
/// For: the value table of a Method; arguments of kernels and delegates; inputs and outputs of the C++ API.
/// Not for: owning memory. Lists and strings point at memory of the Method (or of the caller, for inputs).
///
///     EValue v(int64_t{3});
///     if (v.is_int()) use(v.to_int());
///
/// Lists are *boxed*: a list of integers holds pointers to the EValues of its items, because a symbolic size computed
/// by one instruction is seen by the lists that name it. `to_int_list()` reads the items into a cache and returns that.
#pragma once

#include <optional>
#include <string_view>

#include "numerics/float_bits.h"
#include "runtime/tensor.h"

namespace et::runtime {

/// What an EValue holds. Numbers are those of the file's KernelTypes union, None being its Null.
enum class Tag : uint8_t {
  kNone = 1,
  kInt = 2,
  kBool = 3,
  kDouble = 4,
  kTensor = 5,
  kString = 6,
  kIntList = 7,
  kDoubleList = 8,
  kBoolList = 9,
  kTensorList = 10,
  kOptionalTensorList = 11,
};

/// "Int", "TensorList", …; "?" for a value outside the list.
const char* to_string(Tag tag);

inline namespace lean {

class EValue;

/// Items of a boxed list and the cache its values are read into. `is_constant` says that the items never change, so
/// that the cache was filled once, when the method was made.
template <typename T>
struct BoxedList {
  EValue** items = nullptr;  // [size]; nullptr entry = None (OptionalTensorList only)
  T* cache = nullptr;        // [size]
  uint32_t size = 0;
  bool is_constant = false;
};

class EValue {
 public:
  EValue() : tag_(Tag::kNone) { payload_.int_value = 0; }
  explicit EValue(int64_t value) : tag_(Tag::kInt) { payload_.int_value = value; }
  explicit EValue(double value) : tag_(Tag::kDouble) { payload_.double_value = value; }
  explicit EValue(bool value) : tag_(Tag::kBool) { payload_.bool_value = value; }
  explicit EValue(Tensor value) : tag_(Tag::kTensor) { payload_.tensor = value.unsafe_impl(); }
  explicit EValue(const std::string_view* value) : tag_(Tag::kString) { payload_.string = value; }
  explicit EValue(BoxedList<int64_t>* value) : tag_(Tag::kIntList) { payload_.int_list = value; }
  explicit EValue(const Span<const double>* value) : tag_(Tag::kDoubleList) { payload_.double_list = value; }
  explicit EValue(const Span<const bool>* value) : tag_(Tag::kBoolList) { payload_.bool_list = value; }
  explicit EValue(BoxedList<Tensor>* value) : tag_(Tag::kTensorList) { payload_.tensor_list = value; }
  explicit EValue(BoxedList<std::optional<Tensor>>* value) : tag_(Tag::kOptionalTensorList) {
    payload_.optional_tensor_list = value;
  }

  Tag tag() const { return tag_; }
  bool is_none() const { return tag_ == Tag::kNone; }
  bool is_int() const { return tag_ == Tag::kInt; }
  bool is_double() const { return tag_ == Tag::kDouble; }
  bool is_bool() const { return tag_ == Tag::kBool; }
  bool is_tensor() const { return tag_ == Tag::kTensor; }
  bool is_string() const { return tag_ == Tag::kString; }
  bool is_int_list() const { return tag_ == Tag::kIntList; }
  bool is_double_list() const { return tag_ == Tag::kDoubleList; }
  bool is_bool_list() const { return tag_ == Tag::kBoolList; }
  bool is_tensor_list() const { return tag_ == Tag::kTensorList; }
  bool is_optional_tensor_list() const { return tag_ == Tag::kOptionalTensorList; }

  /// The content. Each requires the matching tag (checked in debug builds; arguments of a program were verified at
  /// load).
  int64_t to_int() const { return ET_DCHECK(is_int()), payload_.int_value; }
  double to_double() const { return ET_DCHECK(is_double()), payload_.double_value; }
  bool to_bool() const { return ET_DCHECK(is_bool()), payload_.bool_value; }
  Tensor to_tensor() const { return ET_DCHECK(is_tensor()), Tensor(payload_.tensor); }
  std::string_view to_string_view() const { return ET_DCHECK(is_string()), *payload_.string; }
  Span<const double> to_double_list() const { return ET_DCHECK(is_double_list()), *payload_.double_list; }
  Span<const bool> to_bool_list() const { return ET_DCHECK(is_bool_list()), *payload_.bool_list; }
  /// A number of any kind (Int, Bool or Double) as the kind that is wanted. Doubles outside the range of int64 give
  /// its nearest end, NaN gives 0: the kinds of computed numbers are only known when they have been computed.
  bool is_number() const { return is_int() || is_bool() || is_double(); }
  int64_t number_as_int() const;
  double number_as_double() const {
    return is_double() ? payload_.double_value
                       : as_double(is_bool() ? int64_t{payload_.bool_value} : payload_.int_value);
  }
  bool number_as_bool() const {
    return is_bool() ? payload_.bool_value : is_double() ? !is_zero(payload_.double_value) : payload_.int_value != 0;
  }
  /// Reads the items into the list's cache and returns it. An item is a number.
  Span<const int64_t> to_int_list() const;
  Span<const Tensor> to_tensor_list() const;
  Span<const std::optional<Tensor>> to_optional_tensor_list() const;
  const BoxedList<int64_t>& int_list_items() const { return *payload_.int_list; }
  const BoxedList<Tensor>& tensor_list_items() const { return *payload_.tensor_list; }
  const BoxedList<std::optional<Tensor>>& optional_tensor_list_items() const { return *payload_.optional_tensor_list; }

 private:
  union Payload {
    int64_t int_value;
    double double_value;
    bool bool_value;
    TensorImpl* tensor;
    const std::string_view* string;
    BoxedList<int64_t>* int_list;
    const Span<const double>* double_list;
    const Span<const bool>* bool_list;
    BoxedList<Tensor>* tensor_list;
    BoxedList<std::optional<Tensor>>* optional_tensor_list;
  };
  Payload payload_;
  Tag tag_;
};

}  // namespace lean
}  // namespace et::runtime
