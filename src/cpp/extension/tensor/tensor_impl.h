/// TensorImpl in the published form: a description of the caller's memory, on the caller's stack.
///
/// For: code that was written for the published library. Not for: new code, which says from_blob or make_tensor_ptr.
///
///     TensorImpl::SizesType sizes[] = {1, 3};
///     TensorImpl impl(ScalarType::Float, 2, sizes, data);
///     method.set_input(Tensor(&impl), 0);
///
/// `sizes` and `data` must live as long. Without a dim_order the tensor is row-major; strides follow from it, so those
/// that are given are not read. More than 16 dimensions are none, and a message says so.
#pragma once

#include "extension/tensor/tensor_ptr.h"

namespace et::extension {

class TensorImpl : public runtime::TensorImpl {
 public:
  using SizesType = extension::SizesType;
  using DimOrderType = extension::DimOrderType;
  using StridesType = extension::StridesType;

  TensorImpl(ScalarType dtype, int64_t dim, SizesType* sizes, void* data = nullptr, DimOrderType* dim_order = nullptr,
             StridesType* strides = nullptr, TensorShapeDynamism dynamism = TensorShapeDynamism::kStatic);
  TensorImpl(const TensorImpl&) = delete;
  TensorImpl& operator=(const TensorImpl&) = delete;

 private:
  StridesType strides_[runtime::kMaxRank];
  DimOrderType dim_order_[runtime::kMaxRank];
};

}  // namespace et::extension
