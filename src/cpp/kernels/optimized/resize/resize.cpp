// Resizing to the nearest element: whole pixels are copied where channels are innermost, rows are gathered otherwise,
// and a row that an output row repeats is copied once more.

#include <cstring>

#include "kernels/optimized/vec/element_bits.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/resize_axis.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::resize {
namespace {

/// One dimension of the image.
struct Axis {
  size_t in;
  size_t out;
  uint32_t* sources;  // [out]
};

/// Rows [begin, end) of [images, out depth, out height] rows of `pixel` elements a place.
template <typename T>
void resize_rows(const Axis* axes, size_t pixel, const T* x, T* y, size_t begin, size_t end) {
  const Axis& depth = axes[0];
  const Axis& height = axes[1];
  const Axis& width = axes[2];
  const size_t length = width.out * pixel;
  for (size_t row = begin; row < end; ++row) {
    const size_t h = row % height.out;
    const size_t d = row / height.out % depth.out;
    const size_t image = row / height.out / depth.out;
    T* const to = y + row * length;
    if (row > begin && h != 0 && height.sources[h] == height.sources[h - 1]) {
      std::memcpy(to, to - length, length * sizeof(T));
      continue;
    }
    const T* const from =
        x + ((image * depth.in + depth.sources[d]) * height.in + height.sources[h]) * width.in * pixel;
    if (pixel == 1) {
      for (size_t w = 0; w < width.out; ++w) {
        to[w] = from[width.sources[w]];
      }
    } else {
      for (size_t w = 0; w < width.out; ++w) {
        std::memcpy(to + w * pixel, from + width.sources[w] * pixel, pixel * sizeof(T));
      }
    }
  }
}

/// [batch, channels, spatial…] of `Spatial` dimensions.
template <size_t Spatial, bool Exact>
Error nearest_out(KernelContext& context, const Tensor& input, portable::ResizeSizes output_size,
                  portable::ResizeFactors scale_factors, Tensor& out) {
  constexpr const char* kOp = Exact ? "aten::_upsample_nearest_exact" : "aten::upsample_nearest";
  portable::ResizeAxis resized[3];
  portable::Sizes sizes(input.sizes());
  ET_RETURN_IF_ERROR(portable::resize_axes(kOp, input, Spatial, output_size, scale_factors, false, resized, &sizes));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  size_t places = 0;  // of all axes
  for (const portable::ResizeAxis& axis : resized) {
    ET_CHECK_OR_RETURN(axis.in <= UINT32_MAX, NotSupported, "%s: %" PRId64 " elements along one dimension", kOp,
                       axis.in);
    places += static_cast<size_t>(axis.out);
  }
  ET_TRY(void* const memory, context.allocate_temp(places * sizeof(uint32_t)));
  auto* next = static_cast<uint32_t*>(memory);
  const portable::NearestRule rule = portable::nearest_rule(input, Spatial, Exact);
  Axis axes[3];
  for (size_t d = 0; d < 3; ++d) {
    const portable::ResizeAxis& axis = resized[d];
    axes[d] = {static_cast<size_t>(axis.in), static_cast<size_t>(axis.out), next};
    for (int64_t o = 0; o < axis.out; ++o) {
      *next++ = static_cast<uint32_t>(portable::nearest_position(axis, o, rule));
    }
  }
  // Rows of images: [batch, height, width, channels], or [batch * channels, depth, height, width] with one element a
  // pixel.
  const auto channels = static_cast<size_t>(input.size(1));
  const bool channels_last = Spatial == 2 && runtime::is_channels_last_dim_order(runtime::dim_order(input));
  const size_t pixel = channels_last ? channels : 1;
  const size_t rows = static_cast<size_t>(input.size(0)) * (channels_last ? 1 : channels) * axes[0].out * axes[1].out;
  with_bits_type(input.element_size(), [&](auto bits) {
    using T = decltype(bits);
    const T* const x = static_cast<const T*>(input.const_data_ptr());
    T* const y = static_cast<T*>(out.mutable_data_ptr());
    threads::parallel_for(context, rows, threads::grain_for(axes[2].out * pixel),
                          [&](size_t begin, size_t end) { resize_rows(axes, pixel, x, y, begin, end); });
  });
  return Error::Ok;
}

/// nearest(input, output_size, scale_factors, out) of one dtype and dim order.
template <size_t Spatial>
bool fits_nearest(Arguments args) {
  const Tensor input = args[0]->to_tensor();
  const Tensor out = args[3]->to_tensor();
  const size_t element = input.element_size();
  return input.dim() == static_cast<int64_t>(Spatial + 2) && out.dim() == input.dim() &&
         input.scalar_type() == out.scalar_type() && element <= 8 && same_dim_order(*args[0], *args[3]) &&
         (is_row_major(*args[0]) || (Spatial == 2 && runtime::is_channels_last_dim_order(runtime::dim_order(input))));
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&nearest_out<1, false>, &fits_nearest<1>>("et::upsample_nearest1d.vec_out"),
    make_fitting_kernel<&nearest_out<2, false>, &fits_nearest<2>>("aten::upsample_nearest2d.vec_out"),
    make_fitting_kernel<&nearest_out<3, false>, &fits_nearest<3>>("et::upsample_nearest3d.vec_out"),
    make_fitting_kernel<&nearest_out<1, true>, &fits_nearest<1>>("et::_upsample_nearest_exact1d.vec_out"),
    make_fitting_kernel<&nearest_out<2, true>, &fits_nearest<2>>("et::_upsample_nearest_exact2d.vec_out"),
    make_fitting_kernel<&nearest_out<3, true>, &fits_nearest<3>>("et::_upsample_nearest_exact3d.vec_out"),
};

}  // namespace

ET_KERNEL_TABLE(resize, kKernels)

}  // namespace et::kernels::optimized::resize
