#include "backends/xnnpack/kernels/volume.h"

#include <algorithm>
#include <cstring>

#include "backends/xnnpack/kernels/gather.h"
#include "backends/xnnpack/kernels/layout.h"
#include "base/checked_math.h"

namespace et::backends::xnnpack {
namespace {

/// An image, or several, with channels innermost, as a tensor that a kernel can be given.
class Images {
 public:
  Images(ScalarType dtype, int64_t count, size_t channels, Extent extent, void* data)
      : sizes_{count, static_cast<int64_t>(channels), extent.h, extent.w} {
    size_t nbytes = et::element_size(dtype);
    for (const int64_t size : sizes_) {
      nbytes *= static_cast<size_t>(size);
    }
    impl_ = runtime::TensorImpl(dtype, 4, sizes_, strides_, dim_order_, data, nbytes);
    value_ = EValue(Tensor(&impl_));
  }
  Images(const Images&) = delete;
  Images& operator=(const Images&) = delete;

  EValue* value() { return &value_; }

 private:
  int64_t sizes_[4], strides_[4];
  uint8_t dim_order_[4] = {0, 2, 3, 1};
  runtime::TensorImpl impl_;
  EValue value_;
};

/// Images of the planes under the kernel, from volumes [planes, rows, columns, channels].
struct Planes {
  const Depth& depth;
  const char* volume;
  int64_t in_planes, height, width;
  size_t groups, run;  // bytes of a group's channels of a plane
  unsigned char padding;
  int64_t first;  // plane of the output that `to` begins with
  char* to;

  size_t pixel() const { return groups * run; }

  /// Row `row` of all images.
  void gather(size_t row) const {
    const auto image = static_cast<int64_t>(row) / height;
    const int64_t y = static_cast<int64_t>(row) % height;
    const size_t out_pixel = pixel() * depth.kernel;
    char* const out = to + row * static_cast<size_t>(width) * out_pixel;
    for (uint32_t k = 0; k < depth.kernel; ++k) {
      const int64_t plane = (first + image) * depth.stride + int64_t{k} * depth.dilation - depth.padding;
      const bool is_inside = plane >= 0 && plane < in_planes;
      const char* const from =
          is_inside ? volume + static_cast<size_t>((plane * height + y) * width) * pixel() : nullptr;
      for (int64_t x = 0; x < width; ++x) {
        for (size_t g = 0; g < groups; ++g) {
          char* const at = out + static_cast<size_t>(x) * out_pixel + (g * depth.kernel + k) * run;
          if (is_inside) {
            std::memcpy(at, from + static_cast<size_t>(x) * pixel() + g * run, run);
          } else {
            std::memset(at, padding, run);
          }
        }
      }
    }
  }
};

void gather_row(void* planes, size_t row) { static_cast<const Planes*>(planes)->gather(row); }

/// Planes of the output whose images fit a cache, as even as they can be.
int64_t planes_at_once(int64_t planes, size_t image_nbytes) {
  constexpr size_t kBlockBytes = size_t{1} << 20;
  const auto most = static_cast<int64_t>(std::max<size_t>(1, kBlockBytes / std::max<size_t>(1, image_nbytes)));
  const int64_t blocks = (planes + most - 1) / most;
  return (planes + blocks - 1) / blocks;
}

}  // namespace

Error run_volume(KernelContext& context, PackedConvolution& state, const Tensor& input, const Tensor& out) {
  const Geometry& g = state.geometry;
  const int64_t batch = input.size(0), in_d = input.size(2);
  const size_t channels = g.in_channels / g.depth.kernel;
  ET_CHECK_OR_RETURN(input.size(1) == static_cast<int64_t>(channels), InvalidArgument,
                     "convolution: %" PRId64 " channels meet a weight for %zu", input.size(1), channels);
  const Extent image{input.size(3), input.size(4)};
  ET_TRY(const Extent extent, output_extent(g, batch, image.h, image.w));
  const int64_t out_d = output_planes(g.depth, in_d);
  ET_CHECK_OR_RETURN(out_d > 0, InvalidArgument,
                     "convolution: an input of %" PRId64 " planes is smaller than the kernel", in_d);
  const int64_t sizes[5] = {batch, static_cast<int64_t>(g.out_channels), out_d, extent.h, extent.w};
  ET_RETURN_IF_ERROR(runtime::resize_tensor(context, out, {sizes, 5}));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const void* x = nullptr;
  ImageOutput y;
  {
    const threads::NativePool pool(context.pool());
    ET_TRY(x, bytes_with_channels_innermost(context, input, pool.get()));
    ET_TRY(y, ImageOutput::make(context, out));
  }
  const size_t element = input.element_size();
  const auto in_plane = static_cast<size_t>(image.h * image.w) * channels * element;
  const auto out_plane = static_cast<size_t>(extent.h * extent.w) * g.out_channels * element;
  void* scratch = nullptr;
  if (state.gathers) {
    ET_TRY(scratch, context.allocate_temp(gathered_nbytes(g), 64));
  }
  const auto convolve = [&](int64_t count, const void* from, void* to) {
    Images images(input.scalar_type(), count, g.in_channels, image, const_cast<void*>(from));
    Images results(input.scalar_type(), count, g.out_channels, extent, to);
    if (state.gathers) {
      return run_gathered(context, state, images.value()->to_tensor(), results.value()->to_tensor(), scratch);
    }
    EValue* const args[] = {images.value(), results.value()};
    return run_convolution(context, {args, 2}, &state);
  };
  if (g.depth.is_trivial()) {
    ET_RETURN_IF_ERROR(convolve(batch * out_d, x, y.data<void>()));
  } else {
    size_t image_nbytes = 0, nbytes = 0;
    ET_CHECK_OR_RETURN(!mul_overflow(in_plane, size_t{g.depth.kernel}, &image_nbytes), OutOfResources,
                       "convolution: %u planes of %zu bytes", g.depth.kernel, in_plane);
    const int64_t step = planes_at_once(out_d, image_nbytes);
    ET_CHECK_OR_RETURN(!mul_overflow(image_nbytes, static_cast<size_t>(step), &nbytes), OutOfResources,
                       "convolution: %" PRId64 " images of %zu bytes", step, image_nbytes);
    ET_TRY(void* const block, context.allocate_temp(nbytes + XNN_EXTRA_BYTES));
    for (int64_t n = 0; n < batch; ++n) {
      const char* const volume = static_cast<const char*>(x) + static_cast<size_t>(n * in_d) * in_plane;
      for (int64_t first = 0; first < out_d; first += step) {
        ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "convolution: cancelled");
        const int64_t count = std::min(step, out_d - first);
        Planes planes{g.depth,
                      volume,
                      in_d,
                      image.h,
                      image.w,
                      g.groups,
                      channels / g.groups * element,
                      state.padding,
                      first,
                      static_cast<char*>(block)};
        {
          const threads::NativePool pool(context.pool());
          pthreadpool_parallelize_1d(pool.get(), &gather_row, &planes, static_cast<size_t>(count * image.h), 0);
        }
        ET_RETURN_IF_ERROR(convolve(count, block, y.data<char>() + static_cast<size_t>(n * out_d + first) * out_plane));
      }
    }
  }
  const threads::NativePool pool(context.pool());
  return y.finish(pool.get());
}

}  // namespace et::backends::xnnpack
