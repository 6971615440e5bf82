/// A row-major tensor with memory of its own, for as long as an operator is made from it.
///
/// For: weights that are stored in a form that the library does not take; it may read a few bytes past a weight's end,
/// which are here, too. Not for: running on; the library packs a copy.
#pragma once

#include "backends/xnnpack/kernels/library.h"

namespace et::backends::xnnpack {

class WeightCopy {
 public:
  WeightCopy() = default;
  ~WeightCopy() { delete[] data_; }
  WeightCopy(const WeightCopy&) = delete;
  WeightCopy& operator=(const WeightCopy&) = delete;

  /// Once. Requires at most kMaxRank sizes. Errors: MemoryAllocationFailed, naming `op`.
  Error allocate(const char* op, ScalarType dtype, IntArrayRef sizes) {
    size_t nbytes = element_size(dtype);
    for (size_t d = 0; d < sizes.size(); ++d) {
      sizes_[d] = sizes[d];
      dim_order_[d] = static_cast<uint8_t>(d);
      nbytes *= static_cast<size_t>(sizes[d]);
    }
    data_ = new (std::nothrow) char[nbytes + XNN_EXTRA_BYTES];
    ET_CHECK_OR_RETURN(data_ != nullptr, MemoryAllocationFailed, "%s: no memory to unpack a weight of %zu bytes", op,
                       nbytes);
    impl_ = runtime::TensorImpl(dtype, sizes.size(), sizes_, strides_, dim_order_, data_, nbytes);
    return Error::Ok;
  }

  template <typename T>
  T* data() const {
    return reinterpret_cast<T*>(data_);
  }
  /// Lives as long as this object.
  Tensor tensor() { return Tensor(&impl_); }

 private:
  char* data_ = nullptr;
  int64_t sizes_[runtime::kMaxRank];
  int64_t strides_[runtime::kMaxRank];
  uint8_t dim_order_[runtime::kMaxRank];
  runtime::TensorImpl impl_;
};

}  // namespace et::backends::xnnpack
