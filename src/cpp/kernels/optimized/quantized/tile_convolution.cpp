// et::quantized_convolution with a constant int8 filter on channels-last images of int8, by tiles (tile_product.h).
//
// A pixel of the output meets, for each row of the filter, one run of bytes of the input: as many pixels as the filter
// is wide, with all their channels. The next pixel's run begins a stride further on. So the input of a tile's 16 pixels
// is read where it stands, by the tile's own stride, and a pixel that lies beside the image must stand there, too:
// images with a border are copied into one of zero points. Its rows go to a plane for each step of the vertical stride,
// so that pixel after pixel, over the ends of rows, begins at the same distance. The few pixels that lie between two
// rows are computed and left out. Filters of 1x1 take the input itself.
//
// Sums, scales and rounding are those of the plain kernel (docs/reference/numerics.md), bit for bit.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "kernels/optimized/amx/tile_product.h"
#include "kernels/optimized/amx/tiles.h"
#include "kernels/optimized/quantized/convolution.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/quantized/op_convolution.h"
#include "runtime/host/packed_memory.h"
#include "runtime/shared_cache.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::quantized {
namespace {

using runtime::PrepareContext;

using namespace ops::arguments::et_quantized_convolution;

constexpr const char* kOp = "et::quantized_convolution";
constexpr char kMaker = 0;  // its address names our entries in the shared cache

/// Beyond these a border would be larger than most images.
constexpr int64_t kMostStride = 4, kMostExtent = 64;

/// The copy of an image with its border: planes of rows. Row r of the bordered image is row r / stride of plane r %
/// stride.
struct Planes {
  int64_t height, width;  // of the bordered image
  size_t pitch;           // pixels of the output that fit a row, those left out included
  size_t row_bytes, rows, plane_bytes;
};

struct TileConvolution {
  QuantizedConvolution call;
  amx::TileProduct product;
  size_t channels;
  bool merges;     // a run has the whole width of the filter; otherwise (dilated) a pixel
  bool is_direct;  // rows of the product are the input's pixels

  ptrdiff_t* offsets;  // [runs], written at each call that has a border: they depend on the image's width; otherwise 0

  Planes planes(int64_t out_h, int64_t out_w) const {
    Planes p{};
    p.height = (out_h - 1) * call.stride_h + (call.kernel_h - 1) * call.dilation_h + 1;
    p.width = (out_w - 1) * call.stride_w + (call.kernel_w - 1) * call.dilation_w + 1;
    p.pitch = static_cast<size_t>((p.width + call.stride_w - 1) / call.stride_w);
    p.row_bytes = p.pitch * static_cast<size_t>(call.stride_w) * channels;
    p.rows = static_cast<size_t>((p.height + call.stride_h - 1) / call.stride_h);
    p.plane_bytes = p.rows * p.row_bytes;
    return p;
  }
  /// Whether rows of the bordered image with this remainder by the stride meet the filter.
  bool uses_plane(int64_t plane) const {
    for (int64_t i = 0; i < call.kernel_h; ++i) {
      if (i * call.dilation_h % call.stride_h == plane) {
        return true;
      }
    }
    return false;
  }
};

// ------------------------------------------------------------------------------------------------------------------
// prepare

/// A filter, and how it is packed.
struct Filter {
  const int8_t* weights;
  bool is_row_major;  // [columns, channels, height, width]; or [columns, height, width, channels]
  size_t channels, height, width;
  bool merges;
  amx::TilePacking packing;
  const PrepareContext* context;

  /// The weights that meet a run.
  void read_run(size_t column, size_t run, int8_t* to) const {
    const size_t taps = height * width;
    const size_t first = merges ? run * width : run, count = merges ? width : 1;
    const int8_t* const from = weights + column * taps * channels;
    if (!is_row_major) {
      std::memcpy(to, from + first * channels, count * channels);
      return;
    }
    for (size_t c = 0; c < channels; ++c) {
      for (size_t t = 0; t < count; ++t) {
        to[t * channels + c] = from[c * taps + first + t];
      }
    }
  }
};

/// Packed weights, and behind them the sum of each column's.
Result<void*> pack(void* argument) {
  const auto& filter = *static_cast<const Filter*>(argument);
  const amx::TilePacking& packing = filter.packing;
  const size_t nbytes = packing.nbytes() + packing.padded_columns() * sizeof(uint32_t);
  threads::ThreadPool* const pool = filter.context->pool();
  const size_t run_nbytes = packing.steps() * amx::TilePacking::kStep;
  const size_t chunks = threads::chunks_for(pool, packing.columns, threads::grain_for(packing.runs * run_nbytes));
  const std::unique_ptr<int8_t[]> runs(new (std::nothrow) int8_t[chunks * run_nbytes]());
  ET_CHECK_OR_RETURN(runs != nullptr, MemoryAllocationFailed, "%s: no memory for %zu bytes of a filter's runs", kOp,
                     chunks * run_nbytes);
  ET_TRY(void* const memory, filter.context->shared()->memory().allocate(nbytes));
  auto* const to = static_cast<int8_t*>(memory);
  auto* const sums = reinterpret_cast<uint32_t*>(to + packing.nbytes());
  std::memset(memory, 0, nbytes);
  const auto pack_column = [&](size_t column, int8_t* run_weights) {
    uint32_t sum = 0;
    for (size_t run = 0; run < packing.runs; ++run) {
      filter.read_run(column, run, run_weights);
      for (size_t byte = 0; byte < packing.run_bytes; ++byte) {
        sum += static_cast<uint32_t>(int32_t{run_weights[byte]});
      }
      for (size_t step = 0; step < packing.steps(); ++step) {
        int8_t* const tile = to + packing.place(column, run, step);
        for (size_t i = 0; i < amx::TilePacking::kStep; i += 4) {
          std::memcpy(tile + i * amx::kTileSide, run_weights + step * amx::TilePacking::kStep + i, 4);
        }
      }
    }
    sums[column] = sum;
  };
  threads::parallel_chunks(pool, packing.columns, chunks, [&](size_t chunk, size_t begin, size_t end) {
    for (size_t column = begin; column < end; ++column) {
      pack_column(column, runs.get() + chunk * run_nbytes);
    }
  });
  return memory;
}

bool fits(const PrepareContext& context, Arguments args, QuantizedConvolution* c) {
  if (!amx::has_integer_tiles() || context.shared() == nullptr || !read_quantized_convolution(context, args, c)) {
    return false;
  }
  const Tensor weight = args[kWeight]->to_tensor();
  return args[kGroups]->number_as_int() == 1 && args[kInput]->to_tensor().size(1) == weight.size(1) &&
         c->stride_h <= kMostStride && c->stride_w <= kMostStride && (c->kernel_h - 1) * c->dilation_h < kMostExtent &&
         (c->kernel_w - 1) * c->dilation_w < kMostExtent && c->pad_h <= kMostExtent && c->pad_w <= kMostExtent;
}

Error prepare(PrepareContext& context, Arguments args, void** state) {
  TileConvolution w{};
  if (!fits(context, args, &w.call)) {
    return Error::NotSupported;
  }
  const Tensor weight = args[kWeight]->to_tensor();
  const auto height = static_cast<size_t>(w.call.kernel_h), width = static_cast<size_t>(w.call.kernel_w);
  w.channels = static_cast<size_t>(weight.size(1));
  w.merges = w.call.dilation_w == 1 || width == 1;
  w.is_direct = height == 1 && width == 1 && w.call.stride_h == 1 && w.call.stride_w == 1 && w.call.pad_h == 0 &&
                w.call.pad_w == 0;
  amx::TilePacking& packing = w.product.packing;
  packing.columns = static_cast<size_t>(weight.size(0));
  packing.runs = w.merges ? height : height * width;
  packing.run_bytes = w.merges ? width * w.channels : w.channels;
  if (!packing.is_worth_its_zeros()) {
    return Error::NotSupported;
  }
  ET_RETURN_IF_ERROR(runtime::offer_work(state, work_of_integers(args), ops::kKernelCosts));
  Filter filter{weight.const_data_ptr<int8_t>(),
                is_row_major(*args[kWeight]),
                w.channels,
                height,
                width,
                w.merges,
                packing,
                &context};
  const runtime::SharedCache::Key key{
      &kMaker, filter.weights, nullptr, uint64_t{packing.columns} << 32 | packing.run_bytes,
      uint64_t{packing.runs} << 40 | uint64_t{filter.channels} << 1 | (filter.is_row_major ? 1 : 0)};
  ET_TRY(void* const packed, context.shared()->get_or_create(key, &pack, &filter, nullptr));
  const size_t padded = packing.padded_columns();
  ET_TRY(void* const biases_memory, context.allocate(padded * sizeof(int32_t), 64));
  ET_TRY(void* const scales_memory, context.allocate(padded * sizeof(float), 64));
  ET_TRY(void* const offsets_memory, context.allocate(packing.runs * sizeof(ptrdiff_t), alignof(ptrdiff_t)));
  auto* const biases = static_cast<int32_t*>(biases_memory);
  auto* const scales = static_cast<float*>(scales_memory);
  const auto* const sums = reinterpret_cast<const uint32_t*>(static_cast<const int8_t*>(packed) + packing.nbytes());
  std::fill_n(biases, padded, 0);
  std::fill_n(scales, padded, 0.0f);
  for (size_t c = 0; c < packing.columns; ++c) {
    biases[c] = w.call.start_of(c, sums[c]);
    if (!w.call.scale_of(c, &scales[c])) {
      return Error::NotSupported;
    }
  }
  w.product.weights = static_cast<const int8_t*>(packed);
  w.product.biases = biases;
  w.product.scales = scales;
  w.product.low = w.call.low;
  w.product.high = w.call.high;
  w.product.zero_point = w.call.zero_point;
  w.offsets = static_cast<ptrdiff_t*>(offsets_memory);
  std::fill_n(w.offsets, packing.runs, ptrdiff_t{0});
  w.product.offsets = w.offsets;
  ET_TRY(void* const memory, context.allocate(sizeof(TileConvolution), alignof(TileConvolution)));
  *state = new (memory) TileConvolution(w);
  context.shared()->release(filter.weights);
  return Error::Ok;
}

// ------------------------------------------------------------------------------------------------------------------
// run

/// All of a product on the pool's threads.
void multiply(KernelContext& context, const amx::TileProduct& p) {
  constexpr size_t kWorthSharing = 8'000'000;  // multiplications that are worth handing over to another thread
  const size_t unit = std::min(amx::tile_strip(p) * amx::TileProduct::kBlock, p.rows) * amx::TilePacking::kColumns *
                      p.packing.runs * p.packing.steps() * amx::TilePacking::kStep;
  threads::parallel_for(context, amx::tile_strips(p) * p.packing.panels(), kWorthSharing / unit + 1,
                        [&](size_t begin, size_t end) { amx::multiply_tiles(p, begin, end); });
}

/// Pixels of the input are rows of the product. The last ones are read from a copy with room behind it.
Error run_direct(KernelContext& context, const TileConvolution& w, const Tensor& input, amx::TileProduct p) {
  p.in_stride = w.channels;
  p.rows = static_cast<size_t>(input.numel()) / w.channels;
  p.pitch = p.kept = p.rows;
  const size_t reach = p.packing.steps() * amx::TilePacking::kStep;
  constexpr size_t kTail = 3 * amx::TileProduct::kBlock;  // a block before it ends 64 rows and more before the last one
  p.tail_row = p.rows;
  if (reach > w.channels) {
    p.tail_row = p.rows > kTail ? p.rows - kTail : 0;
    const size_t nbytes = (p.rows - p.tail_row) * w.channels;
    ET_TRY(void* const tail, context.allocate_temp(nbytes + reach));
    if (nbytes > 0) {
      std::memcpy(tail, p.in + p.tail_row * w.channels, nbytes);
    }
    std::memset(static_cast<int8_t*>(tail) + nbytes, 0, reach);
    p.tail = static_cast<const int8_t*>(tail);
  }
  multiply(context, p);
  return Error::Ok;
}

/// Row r of the bordered image into its plane.
void copy_row(const TileConvolution& w, const Planes& planes, const int8_t* image, int64_t in_h, int64_t in_w,
              int64_t row, int8_t* to) {
  const auto beside = static_cast<unsigned char>(static_cast<int8_t>(w.call.input_zero_point));
  const int64_t y = row - w.call.pad_h;
  if (y < 0 || y >= in_h) {
    std::memset(to, beside, planes.row_bytes);
    return;
  }
  const auto columns = static_cast<int64_t>(planes.row_bytes / w.channels);
  const int64_t begin = std::min(w.call.pad_w, columns), end = std::min(begin + in_w, columns);
  std::memset(to, beside, static_cast<size_t>(begin) * w.channels);
  if (begin < end) {  // an image without columns has no memory
    std::memcpy(to + static_cast<size_t>(begin) * w.channels, image + static_cast<size_t>(y * in_w) * w.channels,
                static_cast<size_t>(end - begin) * w.channels);
  }
  std::memset(to + static_cast<size_t>(end) * w.channels, beside, static_cast<size_t>(columns - end) * w.channels);
}

Error run_bordered(KernelContext& context, const TileConvolution& w, const Tensor& input, int64_t out_h, int64_t out_w,
                   amx::TileProduct p) {
  const Planes planes = w.planes(out_h, out_w);
  const int64_t in_h = input.size(2), in_w = input.size(3);
  const size_t image_bytes = static_cast<size_t>(in_h * in_w) * w.channels;
  const size_t nbytes = planes.plane_bytes * static_cast<size_t>(w.call.stride_h);
  const size_t reach = p.packing.steps() * amx::TilePacking::kStep + w.channels * static_cast<size_t>(w.call.kernel_w);
  ET_TRY(void* const memory, context.allocate_temp(nbytes + reach));
  auto* const bordered = static_cast<int8_t*>(memory);
  std::memset(bordered + nbytes, 0, reach);
  for (size_t run = 0; run < p.packing.runs; ++run) {
    const auto i = static_cast<int64_t>(w.merges ? run : run / static_cast<size_t>(w.call.kernel_w));
    const auto j = static_cast<int64_t>(w.merges ? 0 : run % static_cast<size_t>(w.call.kernel_w));
    const int64_t row = i * w.call.dilation_h;
    w.offsets[run] = static_cast<ptrdiff_t>(static_cast<size_t>(row % w.call.stride_h) * planes.plane_bytes +
                                            static_cast<size_t>(row / w.call.stride_h) * planes.row_bytes +
                                            static_cast<size_t>(j * w.call.dilation_w) * w.channels);
  }
  p.in_stride = static_cast<size_t>(w.call.stride_w) * w.channels;
  p.rows = static_cast<size_t>(out_h - 1) * planes.pitch + static_cast<size_t>(out_w);
  p.pitch = planes.pitch;
  p.kept = static_cast<size_t>(out_w);
  p.tail_row = p.rows;
  p.in = bordered;
  const int8_t* const images = input.const_data_ptr<int8_t>();
  int8_t* const outs = p.out;
  for (int64_t image = 0; image < input.size(0); ++image) {
    threads::parallel_for(context, planes.rows * static_cast<size_t>(w.call.stride_h),
                          threads::grain_for(planes.row_bytes / sizeof(float)), [&](size_t begin, size_t end) {
                            for (size_t i = begin; i < end; ++i) {
                              const auto plane = static_cast<int64_t>(i / planes.rows);
                              const auto row = static_cast<int64_t>(i % planes.rows) * w.call.stride_h + plane;
                              if (w.uses_plane(plane)) {
                                copy_row(w, planes, images + static_cast<size_t>(image) * image_bytes, in_h, in_w, row,
                                         bordered + i * planes.row_bytes);
                              }
                            }
                          });
    p.out = outs + static_cast<size_t>(image * out_h * out_w) * p.packing.columns;
    multiply(context, p);
  }
  return Error::Ok;
}

Error run(KernelContext& context, Arguments args, void* state) {
  const auto& w = *static_cast<const TileConvolution*>(state);
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[kOut]->to_tensor();
  ET_RETURN_IF_ERROR(conv::check_channels(input, w.channels));
  const int64_t out_h =
      conv::output_extent(input.size(2), w.call.pad_h, w.call.kernel_h, w.call.stride_h, w.call.dilation_h);
  const int64_t out_w =
      conv::output_extent(input.size(3), w.call.pad_w, w.call.kernel_w, w.call.stride_w, w.call.dilation_w);
  ET_RETURN_IF_ERROR(conv::resize_output(context, kOp, input, w.product.packing.columns, out_h, out_w, out));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  amx::TileProduct product = w.product;
  product.in = input.const_data_ptr<int8_t>();
  product.out = out.mutable_data_ptr<int8_t>();
  return w.is_direct ? run_direct(context, w, input, product) : run_bordered(context, w, input, out_h, out_w, product);
}

constexpr Kernel kKernels[] = {
    make_stateful_kernel<&prepare, &run>(signature::quantized_convolution_out, kPriorityTiles),
};

}  // namespace

ET_KERNEL_TABLE(tile_convolution, kKernels)

}  // namespace et::kernels::optimized::quantized
