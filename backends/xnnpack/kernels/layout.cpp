#include "backends/xnnpack/kernels/layout.h"

namespace et::backends::xnnpack {
namespace {

size_t spatial_size(const Tensor& image) {
  size_t size = 1;
  for (int64_t d = 2; d < image.dim(); ++d) {
    size *= static_cast<size_t>(image.size(d));
  }
  return size;
}

}  // namespace

bool has_image_layout(const Tensor& tensor) {
  const auto order = runtime::dim_order(tensor);
  return tensor.dim() >= 3 && tensor.dim() <= 5 &&
         (runtime::is_contiguous_dim_order(order) || runtime::is_channels_last_dim_order(order));
}

bool is_channels_innermost(const Tensor& tensor) {
  return runtime::is_channels_last_dim_order(runtime::dim_order(tensor)) || tensor.size(1) == 1 ||
         spatial_size(tensor) == 1;
}

Error transpose(const void* from, void* to, size_t element_size, size_t batch, size_t rows, size_t columns,
                pthreadpool* pool) {
  const size_t shape[3] = {batch, rows, columns};
  const size_t permutation[3] = {0, 2, 1};
  if (element_size == 1) {
    return check(xnn_run_transpose_nd_x8(from, to, 3, shape, permutation, 0, pool), "xnn_run_transpose_nd_x8");
  }
  ET_CHECK_OR_RETURN(element_size == 4, NotSupported, "transpose: elements of %zu bytes", element_size);
  return check(xnn_run_transpose_nd_x32(from, to, 3, shape, permutation, 0, pool), "xnn_run_transpose_nd_x32");
}

Result<const void*> bytes_with_channels_innermost(KernelContext& context, const Tensor& image, pthreadpool* pool) {
  const void* const data = image.const_data_ptr();
  if (is_channels_innermost(image) || image.numel() == 0) {
    return data;
  }
  ET_TRY(void* const copy, context.allocate_temp(image.nbytes() + XNN_EXTRA_BYTES));
  ET_RETURN_IF_ERROR(transpose(data, copy, image.element_size(), static_cast<size_t>(image.size(0)),
                               static_cast<size_t>(image.size(1)), spatial_size(image), pool));
  return static_cast<const void*>(copy);
}

Result<ImageOutput> ImageOutput::make(KernelContext& context, const Tensor& out) {
  ImageOutput output;
  output.out_ = out;
  if (is_channels_innermost(out)) {
    output.data_ = out.mutable_data_ptr();
    return output;
  }
  ET_TRY(output.data_, context.allocate_temp(out.nbytes() + XNN_EXTRA_BYTES));
  return output;
}

Error ImageOutput::finish(pthreadpool* pool) const {
  void* const to = out_.mutable_data_ptr();
  if (data_ == to || out_.numel() == 0) {
    return Error::Ok;
  }
  return transpose(data_, to, out_.element_size(), static_cast<size_t>(out_.size(0)), spatial_size(out_),
                   static_cast<size_t>(out_.size(1)), pool);
}

}  // namespace et::backends::xnnpack
