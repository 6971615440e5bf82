// aten::upsample_nearest2d.vec: whole pixels are copied where channels are innermost, rows are gathered otherwise.
//
// Source: the coordinate rule of torch.nn.functional.interpolate: output o reads min(floor(o * scale), in - 1), computed in
// float, with scale = 1 / scale_factor when a factor is given and in / out otherwise.

#include <cmath>
#include <cstring>

#include "kernels/optimized/fitting.h"
#include "kernels/optimized/tables.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

namespace et::kernels::optimized {
namespace {

constexpr const char* kOp = "aten::upsample_nearest2d";

/// The input position of output `o`.
size_t source_of(size_t o, float scale, size_t in) {
  const auto position = static_cast<size_t>(std::floor(static_cast<float>(o) * scale));
  return position < in - 1 ? position : in - 1;
}

Error upsample_nearest2d_vec_out(KernelContext& context, const Tensor& input, std::optional<IntArrayRef> output_size,
                                 std::optional<Span<const double>> scale_factors, Tensor& out) {
  ET_CHECK_OR_RETURN(
      (output_size && output_size->size() == 2) || (!output_size && scale_factors && scale_factors->size() == 2),
      InvalidArgument, "%s: needs two numbers as output_size or scale_factors", kOp);
  int64_t extent[2];
  float scale[2];
  for (size_t d = 0; d < 2; ++d) {
    const int64_t in = input.size(static_cast<int64_t>(2 + d));
    const double factor = scale_factors ? (*scale_factors)[d] : 0.0;
    extent[d] = output_size ? (*output_size)[d] : static_cast<int64_t>(static_cast<double>(in) * factor);
    ET_CHECK_OR_RETURN(in > 0 && extent[d] > 0, InvalidArgument, "%s: cannot resize %s to size %" PRId64, kOp,
                       portable::ShapeText(input.sizes()).text, extent[d]);
    scale[d] = static_cast<float>(factor > 0 ? 1.0 / factor : static_cast<double>(in) / static_cast<double>(extent[d]));
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {input.size(0), input.size(1), extent[0], extent[1]}));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const auto in_h = static_cast<size_t>(input.size(2));
  const auto in_w = static_cast<size_t>(input.size(3));
  const auto out_h = static_cast<size_t>(extent[0]);
  const auto out_w = static_cast<size_t>(extent[1]);
  const auto channels = static_cast<size_t>(input.size(1));
  ET_TRY(void* const memory, context.allocate_temp(out_w * sizeof(uint32_t)));
  auto* const columns = static_cast<uint32_t*>(memory);
  for (size_t w = 0; w < out_w; ++w) {
    columns[w] = static_cast<uint32_t>(source_of(w, scale[1], in_w));
  }

  // Rows of images: [batch, height, width, channels], or [batch * channels, height, width] with one float a pixel.
  const bool channels_last = runtime::is_channels_last_dim_order(runtime::dim_order(input));
  const size_t pixel = channels_last ? channels : 1;
  const size_t images = static_cast<size_t>(input.size(0)) * (channels_last ? 1 : channels);
  const float* const x = input.const_data_ptr<float>();
  float* const y = out.mutable_data_ptr<float>();
  threads::parallel_for(context.pool(), images * out_h, threads::grain_for(out_w * pixel),
                        [&](size_t begin, size_t end) {
                          for (size_t row = begin; row < end; ++row) {
                            const size_t h = source_of(row % out_h, scale[0], in_h);
                            float* const to = y + row * out_w * pixel;
                            if (row > begin && row % out_h != 0 && source_of(row % out_h - 1, scale[0], in_h) == h) {
                              std::memcpy(to, to - out_w * pixel, out_w * pixel * sizeof(float));
                              continue;
                            }
                            const float* const from = x + (row / out_h * in_h + h) * in_w * pixel;
                            if (pixel == 1) {
                              for (size_t w = 0; w < out_w; ++w) {
                                to[w] = from[columns[w]];
                              }
                            } else {
                              for (size_t w = 0; w < out_w; ++w) {
                                std::memcpy(to + w * pixel, from + columns[w] * pixel, pixel * sizeof(float));
                              }
                            }
                          }
                        });
  return Error::Ok;
}

bool fits_nearest(Arguments args) {
  const Tensor input = args[0]->to_tensor();
  return fits_unary(args) && input.dim() == 4 &&
         (is_row_major(*args[0]) || runtime::is_channels_last_dim_order(runtime::dim_order(input)));
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&upsample_nearest2d_vec_out, &fits_nearest>("aten::upsample_nearest2d.vec_out"),
};

}  // namespace

Span<const Kernel> resize_kernels() { return kKernels; }

}  // namespace et::kernels::optimized
