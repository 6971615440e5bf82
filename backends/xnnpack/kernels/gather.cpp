#include "backends/xnnpack/kernels/gather.h"

#include <algorithm>
#include <cstring>

#include "backends/xnnpack/kernels/layout.h"

namespace et::backends::xnnpack {
namespace {

constexpr size_t kDepthStep = 8;                   // channels that the library's integer kernels take at a time
constexpr size_t kBlockBytes = size_t{256} << 10;  // of gathered inputs: with their results they fit a second cache
constexpr int64_t kRegisterRows = 64;              // pixels that are worth a run of the product
constexpr size_t kTileBytes = size_t{16} << 10;    // of them: what a thread gathers at a time
constexpr size_t kWide = 32;                       // bytes of the copy that most runs fit in

size_t up_to_step(size_t n) { return (n + kDepthStep - 1) / kDepthStep * kDepthStep; }

/// An image of bytes with channels innermost, and where its windows lie.
struct Windows {
  const Geometry& g;
  const uint8_t* image;
  int64_t height, width, rows, columns;  // of one image and of its output
  size_t nbytes;                         // of all images
  uint8_t padding;

  /// Windows of `count` pixels of the output from pixel `first` on; pixels count through rows and images.
  void gather(int64_t first, int64_t count, uint8_t* to) const {
    const size_t run = size_t{g.kernel.w} * g.in_channels;
    const uint8_t* const end = to + static_cast<size_t>(count) * g.window_size();
    int64_t x = first % columns, row = first / columns;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t image_at = row / rows * height;
      const int64_t top = row % rows * g.stride.h - g.padding.h;
      const int64_t left = x * g.stride.w - g.padding.w;
      const bool is_inside = g.dilation.w == 1 && left >= 0 && left + g.kernel.w <= width;
      for (int64_t k = 0; k < g.kernel.h; ++k, to += run) {
        const int64_t y = top + k * g.dilation.h;
        if (y < 0 || y >= height) {
          std::memset(to, padding, run);
          continue;
        }
        const size_t line = static_cast<size_t>((image_at + y) * width) * g.in_channels;
        if (!is_inside) {
          gather_edge(line, left, to);
          continue;
        }
        const size_t at = line + static_cast<size_t>(left) * g.in_channels;
        if (run <= kWide && at + kWide <= nbytes && to + kWide <= end) {
          std::memcpy(to, image + at, kWide);  // what it writes too much, the next runs overwrite
        } else {
          std::memcpy(to, image + at, run);
        }
      }
      if (++x == columns) {
        x = 0;
        ++row;
      }
    }
  }

 private:
  /// Tap after tap, some of them beside the image.
  void gather_edge(size_t line, int64_t left, uint8_t* to) const {
    for (int64_t k = 0; k < g.kernel.w; ++k, to += g.in_channels) {
      const int64_t x = left + k * g.dilation.w;
      if (x < 0 || x >= width) {
        std::memset(to, padding, g.in_channels);
      } else {
        std::memcpy(to, image + line + static_cast<size_t>(x) * g.in_channels, g.in_channels);
      }
    }
  }
};

/// Pixels of the output whose windows lie together.
struct Block {
  const Windows* windows;
  int64_t first;
  uint8_t* to;
};

void gather_pixels(void* context, size_t begin, size_t count) {
  const auto& block = *static_cast<const Block*>(context);
  block.windows->gather(block.first + static_cast<int64_t>(begin), static_cast<int64_t>(count),
                        block.to + begin * block.windows->g.window_size());
}

/// Pixels of a block.
int64_t pixels_at_once(const Geometry& g) {
  return std::max<int64_t>(kRegisterRows, static_cast<int64_t>(kBlockBytes / g.window_size()));
}

}  // namespace

bool is_worth_gathering(const Geometry& g) {
  const size_t taps = size_t{g.kernel.h} * g.kernel.w;
  return !g.transposed && g.groups == 1 && taps > 1 && g.in_channels < kDepthStep &&
         taps * kDepthStep >= 2 * up_to_step(g.window_size());
}

Geometry gathered(const Geometry& g) {
  Geometry product = g;
  product.kernel = product.stride = product.dilation = {1, 1};
  product.padding = {0, 0};
  product.in_channels = g.window_size();
  return product;
}

size_t gathered_nbytes(const Geometry& g) {
  return static_cast<size_t>(pixels_at_once(g)) * g.window_size() + XNN_EXTRA_BYTES;
}

Error run_gathered(KernelContext& context, PackedConvolution& state, const Tensor& input, const Tensor& out,
                   void* scratch) {
  const Geometry& g = state.geometry;
  const size_t depth = g.window_size();
  const ConvolutionLibrary& library = *state.library;
  const bool is_image = input.dim() == 4;
  const int64_t pixels = out.numel() / out.size(1);
  const threads::NativePool pool(pool_for(context, out.numel() * static_cast<int64_t>(depth), library.picoseconds));
  ET_TRY(const auto* const image, channels_innermost<uint8_t>(context, input, pool.get()));
  ET_TRY(const ImageOutput y, ImageOutput::make(context, out));

  const Windows windows{g,
                        image,
                        is_image ? input.size(2) : 1,
                        input.size(-1),
                        is_image ? out.size(2) : 1,
                        out.size(-1),
                        input.nbytes(),
                        state.padding};
  const int64_t most = pixels_at_once(g);
  const int64_t blocks = (pixels + most - 1) / most;
  const int64_t size = (pixels + blocks - 1) / blocks;
  const size_t tile = std::max<size_t>(1, kTileBytes / depth);
  if (scratch == nullptr) {
    ET_TRY(scratch, context.allocate_temp(static_cast<size_t>(size) * depth + XNN_EXTRA_BYTES, 64));
  }
  auto* const gathered = static_cast<uint8_t*>(scratch);
  for (int64_t first = 0; first < pixels; first += size) {
    const auto count = static_cast<size_t>(std::min(size, pixels - first));
    Block block{&windows, first, gathered};
    pthreadpool_parallelize_1d_tile_1d(pool.get(), &gather_pixels, &block, count, tile, 0);
    ET_RETURN_IF_ERROR(
        state.op.reshape(pool.get(), {static_cast<int64_t>(count)}, library.call, [&](xnn_operator_t /*handle*/) {
          return library.reshape(state.op, 1, 1, count, g.output_padding, pool.get());
        }));
    ET_TRY(void* const workspace, state.op.workspace(context));
    auto* const to = y.data<uint8_t>() + static_cast<size_t>(first) * g.out_channels;
    ET_RETURN_IF_ERROR(check(library.setup(state.op.get(), workspace, gathered, to), "setup", library.call));
    ET_RETURN_IF_ERROR(state.op.run(context, pool.get()));
  }
  return y.finish(pool.get());
}

}  // namespace et::backends::xnnpack
