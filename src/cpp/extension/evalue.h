/// EValue and MethodMeta as applications use them: the runtime's, with owners and the published names.
///
/// For: inputs and outputs of Module. Not for: kernels and backends, which are given the runtime's own
/// (runtime/evalue.h).
///
///     std::vector<EValue> inputs = {make_tensor_ptr({1, 2}, {3.0f, 4.0f}), 5, 0.5};
///     const Tensor logits = outputs[0].toTensor();
///
/// Ownership: made from a TensorPtr or text, an EValue keeps that alive. One that a Module gives keeps its method
/// alive. One made from a Tensor borrows, as the Tensor itself does.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "runtime/host/module.h"

namespace et::extension {

using runtime::IntArrayRef;
using runtime::Scalar;
using runtime::Tag;
using runtime::Tensor;
using TensorPtr = std::shared_ptr<Tensor>;

class EValue : public runtime::EValue {
 public:
  // All of these convert: a call is given tensors, numbers and text as they are.
  EValue() = default;
  EValue(const runtime::EValue& value) : runtime::EValue(value) {}                                         // NOLINT
  EValue(const Tensor& tensor) : EValue(of(tensor)) {}                                                     // NOLINT
  EValue(const TensorPtr& tensor) : EValue(tensor ? of(*tensor) : runtime::EValue()) { owner_ = tensor; }  // NOLINT
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  EValue(T value) : EValue(of(value)) {}                                               // NOLINT
  EValue(std::string text) : EValue(std::make_shared<const Text>(std::move(text))) {}  // NOLINT
  EValue(const char* text) : EValue(std::string(text)) {}                              // NOLINT
  /// A value whose content `owner` holds.
  static EValue owned_by(std::shared_ptr<const void> owner, const runtime::EValue& value) {
    EValue made(value);
    made.owner_ = std::move(owner);
    return made;
  }

  bool isNone() const { return is_none(); }
  bool isInt() const { return is_int(); }
  bool isDouble() const { return is_double(); }
  bool isBool() const { return is_bool(); }
  bool isScalar() const { return is_number(); }
  bool isString() const { return is_string(); }
  bool isTensor() const { return is_tensor(); }
  bool isIntList() const { return is_int_list(); }
  bool isDoubleList() const { return is_double_list(); }
  bool isBoolList() const { return is_bool_list(); }
  bool isTensorList() const { return is_tensor_list(); }
  bool isListOptionalTensor() const { return is_optional_tensor_list(); }

  /// The content, or InvalidType with a message when it is of another kind.
  Result<int64_t> tryToInt() const { return content(is_int(), "Int", &EValue::to_int); }
  Result<double> tryToDouble() const { return content(is_double(), "Double", &EValue::to_double); }
  Result<bool> tryToBool() const { return content(is_bool(), "Bool", &EValue::to_bool); }
  Result<std::string_view> tryToString() const { return content(is_string(), "String", &EValue::to_string_view); }
  Result<Tensor> tryToTensor() const { return content(is_tensor(), "Tensor", &EValue::to_tensor); }
  Result<Span<const int64_t>> tryToIntList() const { return content(is_int_list(), "IntList", &EValue::to_int_list); }
  Result<Span<const double>> tryToDoubleList() const {
    return content(is_double_list(), "DoubleList", &EValue::to_double_list);
  }
  Result<Span<const bool>> tryToBoolList() const { return content(is_bool_list(), "BoolList", &EValue::to_bool_list); }
  Result<Span<const Tensor>> tryToTensorList() const {
    return content(is_tensor_list(), "TensorList", &EValue::to_tensor_list);
  }
  Result<Scalar> tryToScalar() const;

  /// The content. Of another kind it is zero, or empty, and a message says so.
  int64_t toInt() const { return or_nothing(tryToInt()); }
  double toDouble() const { return or_nothing(tryToDouble()); }
  bool toBool() const { return or_nothing(tryToBool()); }
  std::string_view toString() const { return or_nothing(tryToString()); }
  Span<const int64_t> toIntList() const { return or_nothing(tryToIntList()); }
  Span<const double> toDoubleList() const { return or_nothing(tryToDoubleList()); }
  Span<const bool> toBoolList() const { return or_nothing(tryToBoolList()); }
  Span<const Tensor> toTensorList() const { return or_nothing(tryToTensorList()); }
  Scalar toScalar() const;
  /// A tensor of another value has no elements.
  Tensor toTensor() const;

  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  struct Text {
    explicit Text(std::string given) : text(std::move(given)), view(text) {}
    Text(const Text&) = delete;

    const std::string text;
    const std::string_view view;
  };
  explicit EValue(std::shared_ptr<const Text> text) : runtime::EValue(&text->view), owner_(std::move(text)) {}

  static runtime::EValue of(const Tensor& tensor) {
    return tensor.defined() ? runtime::EValue(tensor) : runtime::EValue();
  }
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  static runtime::EValue of(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      return runtime::EValue(value);
    } else if constexpr (std::is_integral_v<T>) {
      return runtime::EValue(static_cast<int64_t>(value));
    } else {
      return runtime::EValue(static_cast<double>(value));
    }
  }
  template <typename T>
  Result<T> content(bool is_that, const char* kind, T (runtime::EValue::*get)() const) const {
    if (!is_that) {
      return wrong_kind(kind);
    }
    return (this->*get)();
  }
  template <typename T>
  static T or_nothing(Result<T> result) {
    return result.ok() ? result.get() : T{};
  }

  /// InvalidType, with a message.
  Error wrong_kind(const char* kind) const;

  std::shared_ptr<const void> owner_;
};

/// A tensor that goes into or comes out of a method: the runtime's description under the published names.
class TensorInfo {
 public:
  TensorInfo(const runtime::TensorInfo& info, std::string_view name, std::shared_ptr<const void> program)
      : info_(info), name_(name), program_(std::move(program)) {}

  ScalarType scalar_type() const { return info_.dtype; }
  /// Upper bounds where a size is dynamic.
  Span<const int32_t> sizes() const { return info_.sizes; }
  Span<const uint8_t> dim_order() const { return info_.dim_order; }
  size_t nbytes() const { return info_.nbytes; }
  bool is_memory_planned() const { return info_.is_memory_planned; }
  std::string_view name() const { return name_; }

 private:
  runtime::TensorInfo info_;
  std::string_view name_;
  std::shared_ptr<const void> program_;
};

/// What a method takes and gives (runtime/method_meta.h), with checks. Keeps its program alive.
class MethodMeta : public runtime::MethodMeta {
 public:
  MethodMeta(const runtime::MethodMeta& meta, std::shared_ptr<const void> program)
      : runtime::MethodMeta(meta), program_(std::move(program)) {}

  /// Errors: InvalidArgument when there is no such input or output, or it is no tensor.
  Result<Tag> input_tag(size_t i) const;
  Result<Tag> output_tag(size_t i) const;
  Result<TensorInfo> input_tensor_meta(size_t i) const;
  Result<TensorInfo> output_tensor_meta(size_t i) const;
  /// Errors: InvalidArgument when there is no such buffer.
  Result<int64_t> memory_planned_buffer_size(size_t i) const;
  Result<std::string_view> get_backend_name(size_t i) const;

 private:
  std::shared_ptr<const void> program_;
};

}  // namespace et::extension
