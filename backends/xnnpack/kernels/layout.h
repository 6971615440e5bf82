/// Images in the library's layout: channels innermost.
///
/// For: kernels over [batch, channels, spatial…] tensors. One that lies channels-last already is used as it is; one
/// that lies row-major is transposed into temporary memory and back. Ranks 3 (one spatial dimension), 4 and 5. Not for:
/// deciding the layout; the compiler does, so that a network converts at its borders only.
#pragma once

#include "backends/xnnpack/kernels/library.h"

namespace et::backends::xnnpack {

/// True when tensors with this dim order can be treated: row-major or channels last.
bool has_image_layout(const Tensor& tensor);
/// True when the bytes of a tensor with image layout are channels innermost.
bool is_channels_innermost(const Tensor& tensor);

/// The elements of `image` with channels innermost: its own memory, or temporary memory that holds a copy.
Result<const void*> bytes_with_channels_innermost(KernelContext& context, const Tensor& image, pthreadpool* pool);
template <typename T>
Result<const T*> channels_innermost(KernelContext& context, const Tensor& image, pthreadpool* pool) {
  ET_TRY(const void* const bytes, bytes_with_channels_innermost(context, image, pool));
  return static_cast<const T*>(bytes);
}

/// An output that the library writes with channels innermost.
class ImageOutput {
 public:
  /// Takes `out` (already resized), or temporary memory when it lies row-major.
  static Result<ImageOutput> make(KernelContext& context, const Tensor& out);
  template <typename T>
  T* data() const {
    return static_cast<T*>(data_);
  }
  /// Brings what was written to the tensor.
  Error finish(pthreadpool* pool) const;

 private:
  Tensor out_;
  void* data_ = nullptr;
};

/// Copies [batch, rows, columns] to [batch, columns, rows]; elements of 1 or 4 bytes.
Error transpose(const void* from, void* to, size_t element_size, size_t batch, size_t rows, size_t columns,
                pthreadpool* pool);

}  // namespace et::backends::xnnpack
