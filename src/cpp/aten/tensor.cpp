#include "aten/tensor.h"

#include <c10/core/TensorImpl.h>

namespace et::aten {
namespace {

c10::IntArrayRef to_c10(runtime::IntArrayRef list) { return {list.data(), list.size()}; }

c10::Storage storage_of(const runtime::TensorImpl& source) {
  return c10::Storage(c10::Storage::use_byte_size_t(), source.capacity(),
                      c10::DataPtr(source.data(), c10::Device(c10::DeviceType::CPU)), /*allocator=*/nullptr,
                      /*resizable=*/false);
}

/// ATen's description of a runtime tensor, which it remembers so that a resize reaches it.
class BorrowedTensor final : public c10::TensorImpl {
 public:
  explicit BorrowedTensor(runtime::TensorImpl* source)
      : c10::TensorImpl(storage_of(*source), c10::DispatchKeySet(c10::DispatchKey::CPU),
                        c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(source->dtype()))),
        source_(source) {
    set_sizes_and_strides(to_c10(source->sizes()), to_c10(source->strides()));
  }

  Error resize(runtime::KernelContext& context, runtime::IntArrayRef sizes) {
    ET_RETURN_IF_ERROR(runtime::resize_tensor(context, runtime::Tensor(source_), sizes));
    set_storage_keep_dtype(storage_of(*source_));  // a data-dependent tensor has new memory
    set_sizes_and_strides(to_c10(source_->sizes()), to_c10(source_->strides()));
    return Error::Ok;
  }

 private:
  runtime::TensorImpl* source_;
};

}  // namespace

at::Tensor borrow(const runtime::Tensor& tensor) {
  return at::detail::make_tensor<BorrowedTensor>(tensor.unsafe_impl());
}

Error resize_tensor(runtime::KernelContext& context, const at::Tensor& out, runtime::IntArrayRef sizes) {
  if (auto* const borrowed = dynamic_cast<BorrowedTensor*>(out.unsafeGetTensorImpl())) {
    return borrowed->resize(context, sizes);
  }
  out.resize_(to_c10(sizes));
  return Error::Ok;
}

}  // namespace et::aten
