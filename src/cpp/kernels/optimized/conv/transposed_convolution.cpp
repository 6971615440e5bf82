// aten::convolution and et::convolution_clamp, transposed, whose windows do not overlap: a constant filter of the size
// of the stride, no padding, dilation or groups, on channels-last images.
//
// Each input pixel then makes a patch of the output of its own. A row of that patch, [columns of the filter, channels],
// is one contiguous run of numbers: the pixel's channels times a matrix. So the whole is one product of pixels and
// filter rows, whose results go to their places in the output as they leave the registers. (A library for all
// transposed convolutions runs a small product for each place in the patch.)

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>

#include "base/rounding.h"
#include "kernels/optimized/conv/clamped_convolution.h"
#include "kernels/optimized/conv/pixel_product-inl.h"
#include "kernels/optimized/vec/table.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_TRANSPOSED_CONVOLUTION_ONCE
#define ET_KERNELS_OPTIMIZED_TRANSPOSED_CONVOLUTION_ONCE
namespace et::kernels::optimized::conv {
/// One such convolution on images with channels innermost.
struct PatchProduct {
  size_t in_channels, out_channels;
  size_t kernel_h, kernel_w;
  size_t columns;       // numbers of a patch's row: kernel_w * out_channels
  size_t strips;        // of two vectors, that hold them
  const float* filter;  // [kernel_h][strips][in_channels][columns of a strip]
  const float* bias;    // [strips][columns of a strip]
  float min, max;

  // Of a call.
  const float* in;  // [pixels, in_channels]
  float* out;       // [pixels / in_w, kernel_h, in_w, columns]
  size_t in_w;
};
}  // namespace et::kernels::optimized::conv
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::conv::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

size_t PatchStrip() { return 2 * hn::Lanes(PixelTag()); }

/// kPixels pixels from `pixel` on times one strip of row `row` of the filter.
template <size_t kPixels>
HWY_INLINE void multiply_patches(const PatchProduct& p, size_t pixel, size_t row, size_t strip) {
  const PixelTag d;
  const size_t width = 2 * hn::Lanes(d);
  const size_t first = strip * width;
  const PixelTile tile{p.in + pixel * p.in_channels,
                       {p.in_channels, p.in_channels, 1, 0, 0, 1, 0, 0},
                       p.filter + (row * p.strips + strip) * p.in_channels * width,
                       width,
                       p.bias + first,
                       p.min,
                       p.max,
                       HWY_MIN(width, p.columns - first)};
  size_t line = pixel / p.in_w;
  size_t x = pixel % p.in_w;
  multiply_tile<kPixels, true>(d, d, tile, [&](size_t /*pixel*/) {
    float* const to = p.out + ((line * p.kernel_h + row) * p.in_w + x) * p.columns + first;
    if (++x == p.in_w) {
      x = 0;
      ++line;
    }
    return to;
  });
}

/// Input pixels [begin, end) of all images.
void MultiplyPatches(const PatchProduct& p, size_t begin, size_t end) {
  constexpr size_t kPixels = kWideTilePixels;
  // Tiles that meet a strip of the filter while the first cache holds it and them.
  constexpr size_t kBlock = 8 * kPixels;
  for (size_t start = begin; start < end; start += kBlock) {
    const size_t stop = HWY_MIN(end, start + kBlock);
    for (size_t row = 0; row < p.kernel_h; ++row) {
      for (size_t strip = 0; strip < p.strips; ++strip) {
        size_t pixel = start;
        for (; pixel + kPixels <= stop; pixel += kPixels) {
          multiply_patches<kPixels>(p, pixel, row, strip);
        }
        if (pixel < stop && stop - begin >= kPixels) {
          multiply_patches<kPixels>(p, stop - kPixels, row, strip);  // overlaps rather than being smaller
        } else {
          for (; pixel < stop; ++pixel) {
            multiply_patches<1>(p, pixel, row, strip);
          }
        }
      }
    }
  }
}

}  // namespace et::kernels::optimized::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::conv {

HWY_EXPORT(PatchStrip);
HWY_EXPORT(MultiplyPatches);

namespace {

using runtime::PrepareContext;

// Arguments by position; the two operators differ in what follows kGroups.
using namespace ops::arguments::et_convolution_clamp;

/// [in, out, kernel_h, kernel_w] in this order, or with out innermost → [kernel_h][strips][in_channels][columns of a
/// strip], `width` of them; columns beyond the last are 0.
void pack_filter(const PatchProduct& p, const float* weight, bool taps_inside, size_t width, threads::ThreadPool* pool,
                 float* packed) {
  std::fill_n(packed, p.kernel_h * p.strips * p.in_channels * width, 0.0f);
  const size_t taps = p.kernel_h * p.kernel_w;
  threads::parallel_for(pool, p.in_channels, threads::grain_for(p.out_channels * taps), [&](size_t k, size_t end) {
    for (; k < end; ++k) {
      const float* const from = weight + k * p.out_channels * taps;
      for (size_t t = 0; t < taps; ++t) {
        const size_t row = t / p.kernel_w;
        for (size_t c = 0; c < p.out_channels; ++c) {
          const size_t column = t % p.kernel_w * p.out_channels + c;
          const size_t strip = row * p.strips + column / width;
          packed[(strip * p.in_channels + k) * width + column % width] =
              from[taps_inside ? c * taps + t : t * p.out_channels + c];
        }
      }
    }
  });
}

bool fits(const PrepareContext& context, Arguments args) {
  if (!has_constant_filter(context, args) || !args[kTransposed]->number_as_bool() ||
      args[kGroups]->number_as_int() != 1) {
    return false;
  }
  const Tensor weight = args[kWeight]->to_tensor();
  return is_pair(*args[kStride], weight.size(2), weight.size(3)) && is_pair(*args[kPadding], 0, 0) &&
         is_pair(*args[kDilation], 1, 1) && is_pair(*args[kOutputPadding], 0, 0) && weight.numel() > 0 &&
         weight.size(0) == args[kInput]->to_tensor().size(1);
}

Error prepare(PrepareContext& context, Arguments args, const EValue* min, const EValue* max, void** state) {
  if (context.shared() == nullptr || !fits(context, args)) {
    return Error::NotSupported;
  }
  ET_RETURN_IF_ERROR(runtime::offer_work(state, work_of(args), ops::kKernelCosts));
  PatchProduct p{};
  ET_TRY(const Range range, read_range(context, min, max));
  p.min = range.min;
  p.max = range.max;
  const Tensor weight = args[kWeight]->to_tensor();
  p.in_channels = static_cast<size_t>(weight.size(0));
  p.out_channels = static_cast<size_t>(weight.size(1));
  p.kernel_h = static_cast<size_t>(weight.size(2));
  p.kernel_w = static_cast<size_t>(weight.size(3));
  p.columns = p.kernel_w * p.out_channels;
  const size_t width = HWY_DYNAMIC_DISPATCH(PatchStrip)();
  p.strips = divide_up(p.columns, width);

  const auto* const from_file = weight.const_data_ptr<float>();
  const bool taps_inside = is_row_major(*args[kWeight]);
  const Packing packing{from_file, uint64_t{p.kernel_h} << 33 | uint64_t{p.kernel_w} << 1 | taps_inside,
                        uint64_t{p.in_channels} << 32 | p.out_channels};
  ET_TRY(p.filter, packed_once<float>(context, packing, p.kernel_h * p.strips * p.in_channels * width, [&](float* to) {
           pack_filter(p, from_file, taps_inside, width, context.pool(), to);
         }));

  ET_TRY(void* const bias_memory, context.allocate(p.strips * width * sizeof(float), 64));
  auto* const bias = static_cast<float*>(bias_memory);
  const float* const from = args[kBias]->is_none() ? nullptr : args[kBias]->to_tensor().const_data_ptr<float>();
  for (size_t c = 0; c < p.strips * width; ++c) {
    bias[c] = from != nullptr && c < p.columns ? from[c % p.out_channels] : 0.0f;
  }
  p.bias = bias;
  return keep_state(context, p, state);
}

// convolution(input, weight, bias, stride, …, groups, [min, max,] out)
Error run(KernelContext& context, Arguments args, void* state) {
  PatchProduct p = *static_cast<const PatchProduct*>(state);
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  ET_RETURN_IF_ERROR(check_channels(input, p.in_channels));
  const int64_t sizes[] = {input.size(0), static_cast<int64_t>(p.out_channels),
                           input.size(2) * static_cast<int64_t>(p.kernel_h),
                           input.size(3) * static_cast<int64_t>(p.kernel_w)};
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes, 4}));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  p.in = input.const_data_ptr<float>();
  p.out = out.mutable_data_ptr<float>();
  p.in_w = static_cast<size_t>(input.size(3));
  // Multiplications of a chunk worth handing over to another thread: some 3 us.
  constexpr size_t kChunk = 300'000;
  const size_t work = p.in_channels * p.columns * p.kernel_h;
  const auto multiply = HWY_DYNAMIC_POINTER(MultiplyPatches);
  // Pixels between two looks: many of the blocks that meet a strip of the filter together.
  const size_t piece = 448 + kChunk * 256 / work;
  threads::parallel_for(context.pool(), static_cast<size_t>(input.numel()) / p.in_channels, kChunk / work + 1,
                        [&](size_t begin, size_t end) {
                          threads::in_pieces(context, end - begin, piece,
                                             [&](size_t from, size_t to) { multiply(p, begin + from, begin + to); });
                        });
  return Error::Ok;
}

}  // namespace

ET_KERNEL_TABLE(transposed_convolution, ConvolutionKernels<&prepare, &run, kPriorityTransposed>::kTable)

}  // namespace et::kernels::optimized::conv
#endif  // HWY_ONCE
