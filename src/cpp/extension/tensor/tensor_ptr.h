/// TensorPtr: tensors of applications, which own their elements or borrow them.
///
/// For: inputs of Module, and memory for its outputs. Not for: kernels, whose tensors the runtime makes.
///
///     TensorPtr a = make_tensor_ptr({2, 3}, {1, 2, 3, 4, 5, 6});                          // int32 [2, 3]
///     TensorPtr b = make_tensor_ptr({1.0f, 2.0f}, ScalarType::Half);                      // float16 [2], converted
///     TensorPtr c = make_tensor_ptr({1, 3, 224, 224}, std::move(pixels), {0, 2, 3, 1});   // channels last
///     TensorPtr d = make_tensor_ptr(3.5);                                                 // float64 []
///     TensorPtr e = from_blob(buffer, {1, 16000});                                        // borrows
///     (tensor_ptr_maker.h)
///
/// A tensor is dense: the order of its dimensions in memory, or strides that follow from one.
/// Errors: what cannot be made is a null pointer, and a message says why. Module refuses a null tensor as None.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "extension/evalue.h"

namespace et::extension {

/// The runtime's own, with the published names beside ours.
class TensorShapeDynamism {
 public:
  constexpr TensorShapeDynamism(runtime::TensorShapeDynamism value) : value_(value) {}  // NOLINT: either is the other
  constexpr operator runtime::TensorShapeDynamism() const { return value_; }            // NOLINT

  static constexpr auto kStatic = runtime::TensorShapeDynamism::kStatic, STATIC = kStatic;
  static constexpr auto kDynamicBound = runtime::TensorShapeDynamism::kDynamicBound, DYNAMIC_BOUND = kDynamicBound;
  static constexpr auto kDynamicUnbound = runtime::TensorShapeDynamism::kDynamicUnbound;
  static constexpr auto DYNAMIC_UNBOUND = kDynamicUnbound;

 private:
  runtime::TensorShapeDynamism value_;
};

using SizesType = int64_t;
using StridesType = int64_t;
using DimOrderType = uint8_t;

/// Sizes of a call, from integers of any width.
class Sizes : public std::vector<int64_t> {
 public:
  Sizes(std::initializer_list<int64_t> sizes) : vector(sizes) {}  // NOLINT(google-explicit-constructor)
  template <typename List, typename T = std::decay_t<decltype(*std::declval<const List&>().begin())>,
            typename = std::enable_if_t<std::is_integral_v<T>>>
  Sizes(const List& sizes) : vector(sizes.begin(), sizes.end()) {}  // NOLINT(google-explicit-constructor)
};

/// Everything that says what a tensor is, but for its elements. Empty dim_order and strides: row-major.
struct Layout {
  Sizes sizes;
  std::vector<DimOrderType> dim_order = {};
  std::vector<StridesType> strides = {};
  ScalarType dtype = ScalarType::Float;
  TensorShapeDynamism dynamism = TensorShapeDynamism::kDynamicBound;
};

/// A tensor over `nbytes` bytes at `data`, which `owner` keeps. nbytes = nullopt: as many as the layout takes.
/// Errors (null): negative or too many sizes, a dim_order or strides that do not fit, other than `nbytes` bytes, an
/// address that is null or not aligned for the dtype.
TensorPtr make_tensor(Layout layout, std::shared_ptr<void> owner, void* data, std::optional<size_t> nbytes);

/// A tensor of zeros. Errors (null): those of make_tensor; no memory.
TensorPtr make_zeros(Layout layout);

/// A tensor with a copy of `count` elements of `from`, converted to the layout's dtype. Errors (null): those of
/// make_tensor; another number of elements; one that an integer type cannot hold; no conversion (complex numbers).
TensorPtr make_tensor_of(Layout layout, ScalarType from, const void* data, size_t count);

/// Elements of any real dtype as another. Errors: InvalidArgument, naming the element; NotSupported for complex
/// numbers.
Error convert_elements(ScalarType from, const void* source, ScalarType to, void* destination, size_t count);

namespace detail {

template <typename T, typename = void>
struct IsElement : std::false_type {};
template <typename T>
struct IsElement<T, std::void_t<decltype(DTypeOf<T>::value_of)>> : std::true_type {};
template <typename T>
using if_element = std::enable_if_t<IsElement<T>::value>;

/// The elements of a list that may be one of bool, which has no array.
template <typename T, typename List>
TensorPtr from_list(Layout layout, const List& list) {
  if constexpr (std::is_same_v<List, std::vector<bool>>) {
    const std::unique_ptr<bool[]> copy(new bool[list.size() + 1]);
    std::copy(list.begin(), list.end(), copy.get());
    return make_tensor_of(std::move(layout), ScalarType::Bool, copy.get(), list.size());
  } else {
    return make_tensor_of(std::move(layout), dtype_of<T>, list.size() == 0 ? nullptr : &*list.begin(), list.size());
  }
}

}  // namespace detail

/// A tensor that owns `data`. `dtype`: the elements are converted; bytes (uint8_t) are taken as elements of it instead.
template <typename T, typename = detail::if_element<T>>
TensorPtr make_tensor_ptr(Sizes sizes, std::vector<T> data, std::vector<DimOrderType> dim_order = {},
                          std::vector<StridesType> strides = {}, ScalarType dtype = dtype_of<T>,
                          TensorShapeDynamism dynamism = TensorShapeDynamism::kDynamicBound) {
  Layout layout{std::move(sizes), std::move(dim_order), std::move(strides), dtype, dynamism};
  if constexpr (!std::is_same_v<T, bool>) {
    if (dtype == dtype_of<T> || std::is_same_v<T, uint8_t>) {  // taken as they are, without a copy
      auto kept = std::make_shared<std::vector<T>>(std::move(data));
      const size_t nbytes = kept->size() * sizeof(T);
      return make_tensor(std::move(layout), kept, kept->data(), nbytes);
    }
  }
  return detail::from_list<T>(std::move(layout), data);
}
template <typename T, typename = detail::if_element<T>>
TensorPtr make_tensor_ptr(Sizes sizes, std::initializer_list<T> data, std::vector<DimOrderType> dim_order = {},
                          std::vector<StridesType> strides = {}, ScalarType dtype = dtype_of<T>,
                          TensorShapeDynamism dynamism = TensorShapeDynamism::kDynamicBound) {
  return detail::from_list<T>({std::move(sizes), std::move(dim_order), std::move(strides), dtype, dynamism}, data);
}
template <typename T, typename = detail::if_element<T>>
TensorPtr make_tensor_ptr(Sizes sizes, std::vector<T> data, ScalarType dtype,
                          TensorShapeDynamism dynamism = TensorShapeDynamism::kDynamicBound) {
  return make_tensor_ptr(std::move(sizes), std::move(data), {}, {}, dtype, dynamism);
}
template <typename T, typename = detail::if_element<T>>
TensorPtr make_tensor_ptr(Sizes sizes, std::initializer_list<T> data, ScalarType dtype,
                          TensorShapeDynamism dynamism = TensorShapeDynamism::kDynamicBound) {
  return make_tensor_ptr(std::move(sizes), data, {}, {}, dtype, dynamism);
}

/// Of rank 1.
template <typename T, typename = detail::if_element<T>>
TensorPtr make_tensor_ptr(std::vector<T> data, ScalarType dtype = dtype_of<T>,
                          TensorShapeDynamism dynamism = TensorShapeDynamism::kDynamicBound) {
  const auto size = static_cast<int64_t>(data.size());
  return detail::from_list<T>({{size}, {}, {}, dtype, dynamism}, data);
}
template <typename T, typename = detail::if_element<T>>
TensorPtr make_tensor_ptr(std::initializer_list<T> data, ScalarType dtype = dtype_of<T>,
                          TensorShapeDynamism dynamism = TensorShapeDynamism::kDynamicBound) {
  return detail::from_list<T>({{static_cast<int64_t>(data.size())}, {}, {}, dtype, dynamism}, data);
}

/// Of rank 0.
template <typename T, typename = detail::if_element<T>>
TensorPtr make_tensor_ptr(T value, ScalarType dtype = dtype_of<T>) {
  return make_tensor_of({{}, {}, {}, dtype, TensorShapeDynamism::kDynamicBound}, dtype_of<T>, &value, 1);
}

/// Borrows `data` until the last pointer goes; then `deleter` is called with it.
TensorPtr make_tensor_ptr(Sizes sizes, void* data, std::vector<DimOrderType> dim_order,
                          std::vector<StridesType> strides, ScalarType dtype = ScalarType::Float,
                          TensorShapeDynamism dynamism = TensorShapeDynamism::kDynamicBound,
                          std::function<void(void*)> deleter = nullptr);
TensorPtr make_tensor_ptr(Sizes sizes, void* data, ScalarType dtype = ScalarType::Float,
                          TensorShapeDynamism dynamism = TensorShapeDynamism::kDynamicBound,
                          std::function<void(void*)> deleter = nullptr);

/// Another view of the elements of `tensor`, with sizes of its own unless they are empty: no more bytes than there are.
/// The first kind borrows, the second keeps `tensor`.
TensorPtr make_tensor_ptr(const Tensor& tensor, Sizes sizes = {}, std::vector<DimOrderType> dim_order = {},
                          std::vector<StridesType> strides = {});
TensorPtr make_tensor_ptr(const TensorPtr& tensor, Sizes sizes = {}, std::vector<DimOrderType> dim_order = {},
                          std::vector<StridesType> strides = {});

/// A tensor of the same sizes with elements of its own, converted when a dtype is given.
TensorPtr clone_tensor_ptr(const Tensor& tensor, std::optional<ScalarType> dtype = std::nullopt);
TensorPtr clone_tensor_ptr(const TensorPtr& tensor, std::optional<ScalarType> dtype = std::nullopt);

/// Changes the sizes within the memory that the tensor has. Errors: InvalidArgument (null); those of
/// TensorImpl::resize.
Error resize_tensor_ptr(const TensorPtr& tensor, const Sizes& sizes);

/// A tensor for messages: "torch.float32 (2, 8)".
std::string describe(const Tensor& tensor);

}  // namespace et::extension
