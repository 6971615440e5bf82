/// Makers of tensors: over memory of the caller's, and filled with values.
///
///     TensorPtr x = from_blob(pixels, {1, 3, 224, 224});                                   // borrowed, float32
///     TensorPtr y = for_blob(bytes, {1, 8}, ScalarType::Byte).deleter(&std::free).make_tensor_ptr();
///     TensorPtr mask = ones({1, 128}, ScalarType::Bool);
#pragma once

#include "extension/tensor/tensor_ptr.h"

namespace et::extension {

/// A tensor over memory of the caller's, described step by step.
class TensorPtrMaker {
 public:
  TensorPtrMaker(void* data, Sizes sizes, ScalarType dtype)
      : data_(data), layout_{std::move(sizes), {}, {}, dtype, TensorShapeDynamism::kDynamicBound} {}

  TensorPtrMaker&& type(ScalarType dtype) && { return layout_.dtype = dtype, std::move(*this); }
  TensorPtrMaker&& dim_order(std::vector<DimOrderType> order) && {
    return layout_.dim_order = std::move(order), std::move(*this);
  }
  TensorPtrMaker&& strides(std::vector<StridesType> strides) && {
    return layout_.strides = std::move(strides), std::move(*this);
  }
  TensorPtrMaker&& dynamism(TensorShapeDynamism dynamism) && { return layout_.dynamism = dynamism, std::move(*this); }
  /// Called with the address when the last pointer goes, and when there is none because of an error.
  TensorPtrMaker&& deleter(std::function<void(void*)> deleter) && {
    return deleter_ = std::move(deleter), std::move(*this);
  }
  TensorPtr make_tensor_ptr() &&;
  operator TensorPtr() && { return std::move(*this).make_tensor_ptr(); }  // NOLINT(google-explicit-constructor)

 private:
  void* data_;
  Layout layout_;
  std::function<void(void*)> deleter_;
};

namespace detail {
/// float32 for memory without a type.
template <typename T>
constexpr ScalarType dtype_at() {
  if constexpr (IsElement<T>::value) {
    return dtype_of<T>;
  } else {
    return ScalarType::Float;
  }
}
}  // namespace detail

/// Memory of the caller's, whose dtype is that of the pointer unless one is given (void*: float32).
template <typename T>
TensorPtrMaker for_blob(T* data, Sizes sizes, ScalarType dtype = detail::dtype_at<T>()) {
  return TensorPtrMaker(data, std::move(sizes), dtype);
}
template <typename T>
TensorPtr from_blob(T* data, Sizes sizes, ScalarType dtype = detail::dtype_at<T>(),
                    TensorShapeDynamism dynamism = TensorShapeDynamism::kDynamicBound,
                    std::function<void(void*)> deleter = nullptr) {
  return for_blob(data, std::move(sizes), dtype).dynamism(dynamism).deleter(std::move(deleter));
}
template <typename T>
TensorPtr from_blob(T* data, Sizes sizes, std::vector<StridesType> strides, ScalarType dtype = detail::dtype_at<T>(),
                    TensorShapeDynamism dynamism = TensorShapeDynamism::kDynamicBound,
                    std::function<void(void*)> deleter = nullptr) {
  return for_blob(data, std::move(sizes), dtype)
      .strides(std::move(strides))
      .dynamism(dynamism)
      .deleter(std::move(deleter));
}

/// Tensors that own memory, with values; `like` gives the sizes and, where no dtype is given, the dtype.
/// The elements of empty() are zeros. Errors (null): a value that the dtype cannot hold; no memory.
TensorPtr empty(Sizes sizes, ScalarType dtype = ScalarType::Float,
                TensorShapeDynamism dynamism = TensorShapeDynamism::kDynamicBound);
TensorPtr empty_strided(Sizes sizes, std::vector<StridesType> strides, ScalarType dtype = ScalarType::Float,
                        TensorShapeDynamism dynamism = TensorShapeDynamism::kDynamicBound);
TensorPtr full(Sizes sizes, double value, ScalarType dtype = ScalarType::Float,
               TensorShapeDynamism dynamism = TensorShapeDynamism::kDynamicBound);
TensorPtr zeros(Sizes sizes, ScalarType dtype = ScalarType::Float,
                TensorShapeDynamism dynamism = TensorShapeDynamism::kDynamicBound);
TensorPtr ones(Sizes sizes, ScalarType dtype = ScalarType::Float,
               TensorShapeDynamism dynamism = TensorShapeDynamism::kDynamicBound);
TensorPtr scalar_tensor(double value, ScalarType dtype = ScalarType::Float);
TensorPtr empty_like(const TensorPtr& like, std::optional<ScalarType> dtype = std::nullopt);
TensorPtr full_like(const TensorPtr& like, double value, std::optional<ScalarType> dtype = std::nullopt);
TensorPtr zeros_like(const TensorPtr& like, std::optional<ScalarType> dtype = std::nullopt);
TensorPtr ones_like(const TensorPtr& like, std::optional<ScalarType> dtype = std::nullopt);

/// Random values: in [0, 1), of the normal distribution, integers in [low, high). Two programs get different ones.
TensorPtr rand(Sizes sizes, ScalarType dtype = ScalarType::Float);
TensorPtr randn(Sizes sizes, ScalarType dtype = ScalarType::Float);
TensorPtr randint(int64_t low, int64_t high, Sizes sizes, ScalarType dtype = ScalarType::Long);
TensorPtr rand_like(const TensorPtr& like);
TensorPtr randn_like(const TensorPtr& like);
TensorPtr randint_like(const TensorPtr& like, int64_t low, int64_t high);

}  // namespace et::extension
