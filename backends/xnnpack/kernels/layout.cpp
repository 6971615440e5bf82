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

Error transpose(const float* from, float* to, size_t batch, size_t rows, size_t columns, pthreadpool* pool) {
  const size_t shape[3] = {batch, rows, columns};
  const size_t permutation[3] = {0, 2, 1};
  return check(xnn_run_transpose_nd_x32(from, to, 3, shape, permutation, 0, pool), "xnn_run_transpose_nd_x32");
}

Result<const float*> channels_innermost(KernelContext& context, const Tensor& image, pthreadpool* pool) {
  const float* const data = image.const_data_ptr<float>();
  if (is_channels_innermost(image) || image.numel() == 0) {
    return data;
  }
  ET_TRY(void* const copy, context.allocate_temp(image.nbytes() + XNN_EXTRA_BYTES));
  auto* const to = static_cast<float*>(copy);
  ET_RETURN_IF_ERROR(transpose(data, to, static_cast<size_t>(image.size(0)), static_cast<size_t>(image.size(1)),
                               spatial_size(image), pool));
  return static_cast<const float*>(to);
}

Result<ImageOutput> ImageOutput::make(KernelContext& context, const Tensor& out) {
  ImageOutput output;
  output.out_ = out;
  if (is_channels_innermost(out)) {
    output.data_ = out.mutable_data_ptr<float>();
    return output;
  }
  ET_TRY(void* const memory, context.allocate_temp(out.nbytes() + XNN_EXTRA_BYTES));
  output.data_ = static_cast<float*>(memory);
  return output;
}

Error ImageOutput::finish(pthreadpool* pool) const {
  float* const to = out_.mutable_data_ptr<float>();
  if (data_ == to || out_.numel() == 0) {
    return Error::Ok;
  }
  return transpose(data_, to, static_cast<size_t>(out_.size(0)), spatial_size(out_), static_cast<size_t>(out_.size(1)),
                   pool);
}

}  // namespace et::backends::xnnpack
