/// TensorAccessor: the elements of a tensor by their indices, `a[i][j]`, whatever its dim order.
///
/// For: reading and writing single elements. Not for: loops over all of them, which want the data pointer.
///
///     auto a = make_tensor_accessor<float, 2>(tensor);      // Result<TensorAccessor<float, 2>>
///     if (a.ok()) a.get()[1][2] = 0.5f;
///
/// Ownership: it borrows the tensor's memory, sizes and strides. Indices are not checked.
#pragma once

#include <type_traits>

#include "base/result.h"
#include "runtime/tensor.h"

namespace et::extension {

template <typename T, ssize_t N>
class TensorAccessor {
  static_assert(N > 0, "an accessor has one dimension or more");

 public:
  TensorAccessor(T* data, const int64_t* sizes, const int64_t* strides, ssize_t dim)
      : data_(data), sizes_(sizes), strides_(strides), dim_(dim) {}

  int64_t size(ssize_t i) const { return sizes_[i]; }
  int64_t stride(ssize_t i) const { return strides_[i]; }
  ssize_t dim() const { return dim_; }

  /// The element, or an accessor of the other dimensions.
  decltype(auto) operator[](int64_t i) const {
    T* const at = data_ + i * strides_[0];
    if constexpr (N == 1) {
      return *at;
    } else {
      return TensorAccessor<T, N - 1>(at, sizes_ + 1, strides_ + 1, dim_ - 1);
    }
  }

 private:
  T* data_;
  const int64_t* sizes_;
  const int64_t* strides_;
  ssize_t dim_;
};

/// An accessor of a whole tensor; T may be const. Errors: InvalidArgument, it is undefined or has not N dimensions;
/// InvalidType, its elements are no T.
template <typename T, ssize_t N>
Result<TensorAccessor<T, N>> make_tensor_accessor(const runtime::Tensor& tensor) {
  ET_CHECK_OR_RETURN(tensor.defined() && tensor.dim() == N, InvalidArgument,
                     "an accessor has %d dimensions, the tensor %d", static_cast<int>(N),
                     tensor.defined() ? static_cast<int>(tensor.dim()) : -1);
  ET_CHECK_OR_RETURN(tensor.scalar_type() == dtype_of<std::remove_const_t<T>>, InvalidType,
                     "an accessor is for %s, the tensor has %s", to_string(dtype_of<std::remove_const_t<T>>),
                     to_string(tensor.scalar_type()));
  return TensorAccessor<T, N>(static_cast<T*>(tensor.mutable_data_ptr()), tensor.sizes().data(),
                              tensor.strides().data(), N);
}

}  // namespace et::extension
