// aten::convolution and et::convolution_clamp with dense constant 3x3 filters and stride 1 on channels-last images, by
// Winograd's minimal filtering (winograd.h).
//
// The tiles of all images are cut into blocks whose transformed patches and products stay in the second cache. For each
// block: patches are transformed once; then for each strip of output channels the matrix products of all points, whose
// filter values follow each other in memory, and the transform of what came out, with bias and limits, into the output.
// Threads share the blocks where there are many, and else the tiles and then the strips of each block, so that each thread
// reads a part of the filter only.
//
// A number that is not finite spreads over the tile that it belongs to, where direct convolution keeps it to its window.

#include "kernels/optimized/targets.h"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/winograd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/clamped_convolution.h"
#include "kernels/optimized/table.h"
#include "kernels/optimized/winograd-inl.h"
#include "runtime/host/pages.h"
#include "runtime/shared_cache.h"
#include "threads/parallel.h"

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(WinogradStrip);
HWY_EXPORT(PackStrip);
HWY_EXPORT(TransformPatches);
HWY_EXPORT(MultiplyStrip);

namespace {

using runtime::PrepareContext;
using runtime::SharedCache;

// Arguments by position; the two operators differ in what follows kGroups.
using namespace ops::convolution_arguments;

constexpr size_t kMaxStrip = 32;  // two of the longest vectors

size_t round_up(size_t n, size_t step) { return (n + step - 1) / step * step; }
size_t divide_up(size_t n, size_t by) { return (n + by - 1) / by; }

// --------------------------------------------------------------------------------------------------------- choice of the tile

/// Cost of a convolution in multiplications: those it does (a library's direct ones fill two vectors of output channels, ours
/// one), what its transforms take, and reading the filter, which is the larger part where an image is small. Measured with
/// AVX-512 at 1 thread: a number transformed takes as long as 34 multiplications with 16 to 192 channels (20 for patches,
/// 14 for products), a number of a filter as long as 13 when the second cache does not hold it, and 3 when it does.
struct ConvolutionCost {
  double in, out, strip_out;  // channels; output channels in whole vectors and in pairs of vectors

  static double reading(double filter) { return filter > (1 << 18) ? 13 : 3; }
  double direct(double pixels) const {
    const double filter = 9 * in * strip_out;
    return filter * (pixels + reading(filter));
  }
  double winograd(double tile, double tiles, double vector_in) const {
    const double points = (tile + 2) * (tile + 2);
    const double filter = points * in * out;
    return filter * (tiles + reading(filter)) + points * tiles * (20 * vector_in + 14 * out);
  }
};

/// The rule by cost.
size_t cheapest_tile(size_t in_channels, size_t out_channels, size_t batch, size_t out_h, size_t out_w) {
  const size_t strip = HWY_DYNAMIC_DISPATCH(WinogradStrip)();
  const ConvolutionCost cost{static_cast<double>(in_channels), static_cast<double>(round_up(out_channels, strip / 2)),
                             static_cast<double>(round_up(out_channels, strip))};
  const auto with_tile = [&](size_t tile) {
    const size_t tiles = batch * divide_up(out_h, tile) * divide_up(out_w, tile);
    return cost.winograd(static_cast<double>(tile), static_cast<double>(tiles),
                         static_cast<double>(round_up(in_channels, strip / 2)));
  };
  // A filter for large tiles takes 2.25 times the memory of one for small tiles, and saves more the larger the image is. A large
  // filter is worth it where it saves as many multiplications as this for each number more: a microsecond for 16 KiB.
  constexpr double kWorthOfANumber = 32, kSmall = 32 << 10;
  const double more = (36 - 16) * cost.in * cost.out;
  const double price = more > kSmall ? kWorthOfANumber * more : 0;
  const size_t chosen = with_tile(4) + price < with_tile(2) ? 4 : 2;
  // The margin is for a packed filter that is larger, and for images that come out smaller than their bounds.
  return with_tile(chosen) < 0.9 * cost.direct(static_cast<double>(batch * out_h * out_w)) ? chosen : 0;
}

TileRule choose_tile = cheapest_tile;

// ------------------------------------------------------------------------------------------------------------------- filters

struct PackedFilter {
  float* data = nullptr;
  size_t nbytes = 0;
  bool is_mapped = false;
};

struct PackRequest {
  WinogradFilter filter;
  size_t tile, in_channels, out_channels;
  const runtime::PrepareContext* context;
};

void destroy_filter(void* object) {
  auto* const packed = static_cast<PackedFilter*>(object);
  packed->is_mapped ? runtime::unmap_pages(packed->data, packed->nbytes) : std::free(packed->data);
  delete packed;
}

/// [strips][points][in_channels][columns of the strip], with slack after each point.
Result<void*> create_filter(void* argument) {
  const auto& request = *static_cast<const PackRequest*>(argument);
  const size_t strip = HWY_DYNAMIC_DISPATCH(WinogradStrip)();
  const size_t strips = divide_up(request.out_channels, strip);
  const size_t points = (request.tile + 2) * (request.tile + 2);
  const size_t floats = points * (request.in_channels * strip + kPointSlack);  // of a strip
  auto* const packed = new (std::nothrow) PackedFilter();
  ET_CHECK_OR_RETURN(packed != nullptr, MemoryAllocationFailed, "convolution: no memory for a filter");
  packed->nbytes = strips * floats * sizeof(float);
  packed->is_mapped = packed->nbytes >= runtime::kHugePage / 2;
  void* memory = nullptr;
  if (packed->is_mapped) {
    memory = runtime::map_pages(packed->nbytes);
  } else if (posix_memalign(&memory, 64, packed->nbytes) != 0) {
    memory = nullptr;
  }
  if (memory == nullptr) {
    const size_t nbytes = packed->nbytes;
    delete packed;
    ET_LOG_ERROR("convolution: no memory for a filter of %zu bytes", nbytes);
    return Error::MemoryAllocationFailed;
  }
  packed->data = static_cast<float*>(memory);
  const auto pack = HWY_DYNAMIC_POINTER(PackStrip);
  threads::parallel_for(request.context->pool(), strips, threads::grain_for(floats), [&](size_t begin, size_t end) {
    for (size_t s = begin; s < end; ++s) {
      const size_t first = s * strip, count = HWY_MIN(strip, request.out_channels - first);
      pack(request.tile, request.filter, request.in_channels, first, count, packed->data + s * floats);
      // What is packed is larger than what it is made from: both whole would be the most memory that a network ever takes.
      request.context->discard(request.filter.data + first * request.filter.out_stride,
                               count * request.filter.out_stride * sizeof(float));
    }
  });
  return static_cast<void*>(packed);
}

constexpr char kMaker = 0;  // its address names our entries in the shared cache

// ------------------------------------------------------------------------------------------------------------------- prepare

bool fits(const PrepareContext& context, Arguments args) {
  if (!has_constant_filter(context, args)) {
    return false;
  }
  const Tensor input = args[kInput]->to_tensor();
  const Tensor weight = args[kWeight]->to_tensor();
  return has_padding_up_to(*args[kPadding], INT32_MAX) && is_pair(*args[kStride], 1, 1) &&
         is_pair(*args[kDilation], 1, 1) && !args[kTransposed]->number_as_bool() &&
         args[kGroups]->number_as_int() == 1 && weight.size(2) == 3 && weight.size(3) == 3 && weight.numel() > 0 &&
         weight.size(1) == input.size(1);
}

Error prepare(PrepareContext& context, Arguments args, const EValue* min, const EValue* max, void** state) {
  if (context.shared() == nullptr || !fits(context, args)) {
    return Error::NotSupported;
  }
  Winograd w{};
  ET_TRY(const Range range, read_range(context, min, max));
  w.min = range.min;
  w.max = range.max;
  const Tensor input = args[kInput]->to_tensor();
  const Tensor weight = args[kWeight]->to_tensor();
  w.in_channels = static_cast<size_t>(weight.size(1));
  w.out_channels = static_cast<size_t>(weight.size(0));
  const IntArrayRef padding = args[kPadding]->to_int_list();
  w.pad_h = padding[0];
  w.pad_w = padding[padding.size() - 1];
  const int64_t out_h = output_extent(input.size(2), w.pad_h, 3);
  const int64_t out_w = output_extent(input.size(3), w.pad_w, 3);
  if (out_h <= 0 || out_w <= 0) {
    return Error::NotSupported;
  }
  w.tile = choose_tile(w.in_channels, w.out_channels, static_cast<size_t>(input.size(0)), static_cast<size_t>(out_h),
                       static_cast<size_t>(out_w));
  if (w.tile == 0) {
    return Error::NotSupported;
  }

  const bool taps_inside = is_row_major(*args[kWeight]);
  const WinogradFilter filter{weight.const_data_ptr<float>(), 9 * w.in_channels, taps_inside ? 9 : size_t{1},
                              taps_inside ? size_t{1} : w.in_channels};
  PackRequest request{filter, w.tile, w.in_channels, w.out_channels, &context};
  const SharedCache::Key key{&kMaker, weight.const_data_ptr(), nullptr, (uint64_t{w.tile} << 1) | taps_inside,
                             uint64_t{w.in_channels} << 32 | w.out_channels};
  ET_TRY(void* const packed, context.shared()->get_or_create(key, &create_filter, &request, &destroy_filter));
  w.packed = static_cast<const PackedFilter*>(packed)->data;

  const size_t padded = round_up(w.out_channels, kMaxStrip);
  ET_TRY(w.bias, padded_bias(context, *args[kBias], w.out_channels, padded));
  ET_TRY(void* const memory, context.allocate(sizeof(Winograd), alignof(Winograd)));
  *state = new (memory) Winograd(w);
  return Error::Ok;
}

// convolution(input, weight, bias, stride, …, groups, [min, max,] out)
// ----------------------------------------------------------------------------------------------------------------------- run

/// How the tiles of a call are shared.
struct Plan {
  size_t tiles, strip, strips;
  size_t width;         // of a strip in memory, at most
  size_t block_tiles;   // at most, of a block
  size_t slots;         // threads with scratch of their own
  bool shares_strips;   // threads share each block's strips, rather than the blocks
  size_t patch_floats;  // of a block
  size_t product_floats;
};

Plan plan_call(const Winograd& w, size_t batch, threads::ThreadPool* pool) {
  // What a block may take of the second cache; strips of the filter pass through it as well. One as large as the filter, which is
  // read once a block, is large enough: more would be memory alone.
  constexpr size_t kLeastBlock = 192 << 10, kLargestBlock = 640 << 10;
  // Multiplications below which a hand-over to another thread costs more than it saves: some 5 us.
  constexpr size_t kWorthWaking = 250'000;
  Plan plan{};
  plan.tiles = batch * w.tiles_down * w.tiles_across;
  plan.strip = HWY_DYNAMIC_DISPATCH(WinogradStrip)();
  plan.strips = divide_up(w.out_channels, plan.strip);
  const size_t stride = round_up(w.in_channels, plan.strip / 2);
  plan.width = HWY_MIN(plan.strip, round_up(w.out_channels, plan.strip / 2));
  const size_t tile_bytes = w.points() * (stride + plan.width) * sizeof(float);
  const size_t filter_bytes = w.points() * w.in_channels * round_up(w.out_channels, plan.strip / 2) * sizeof(float);
  const size_t block_bytes = HWY_MIN(HWY_MAX(filter_bytes, kLeastBlock), kLargestBlock);
  size_t blocks = HWY_MAX((plan.tiles * tile_bytes + block_bytes / 2) / block_bytes, size_t{1});
  const size_t work = w.points() * plan.tiles * w.in_channels * w.out_channels;
  const size_t threads = pool == nullptr || work < kWorthWaking ? 1 : pool->num_threads();
  plan.slots = 1;
  if (threads > 1) {
    plan.shares_strips = blocks < 2 * threads && plan.strips >= threads;
    plan.slots = threads;
    if (!plan.shares_strips) {
      blocks = round_up(blocks, threads);
    }
  }
  plan.block_tiles = divide_up(plan.tiles, HWY_MIN(blocks, plan.tiles));
  plan.patch_floats = w.points() * (plan.block_tiles * stride + kPointSlack);
  plan.product_floats = w.points() * (plan.block_tiles * plan.width + kPointSlack);
  return plan;
}

Error run_plan(KernelContext& context, const Winograd& w, const Plan& plan) {
  const size_t stride = round_up(w.in_channels, plan.strip / 2);
  const size_t blocks = divide_up(plan.tiles, plan.block_tiles);
  const size_t patch_buffers = plan.shares_strips ? 1 : plan.slots;
  const size_t floats = patch_buffers * plan.patch_floats + plan.slots * plan.product_floats + stride;
  ET_TRY(void* const memory, context.allocate_temp(floats * sizeof(float)));
  auto* const patches = static_cast<float*>(memory);
  float* const products = patches + patch_buffers * plan.patch_floats;
  float* const zeros = products + plan.slots * plan.product_floats;
  std::fill_n(zeros, stride, 0.0f);
  const auto block_at = [&](size_t index, size_t slot) {
    const size_t first = index * plan.block_tiles;
    const size_t count = HWY_MIN(plan.block_tiles, plan.tiles - first);
    return WinogradBlock{first,
                         count,
                         patches + (plan.shares_strips ? 0 : slot * plan.patch_floats),
                         stride,
                         plan.block_tiles * stride + kPointSlack,
                         products + slot * plan.product_floats,
                         plan.block_tiles * plan.width + kPointSlack,
                         zeros};
  };
  const auto transform = HWY_DYNAMIC_POINTER(TransformPatches);
  const auto multiply = HWY_DYNAMIC_POINTER(MultiplyStrip);
  const auto multiply_strip = [&](const WinogradBlock& block, size_t strip) {
    const size_t first = strip * plan.strip;
    multiply(w, block, first, HWY_MIN(plan.strip, w.out_channels - first));
  };
  threads::ThreadPool* const pool = plan.slots > 1 ? context.pool() : nullptr;
  if (!plan.shares_strips) {
    std::atomic<size_t> next{0};
    threads::parallel_tasks(pool, plan.slots, [&](size_t slot) {
      for (size_t i = next.fetch_add(1); i < blocks && !context.cancelled(); i = next.fetch_add(1)) {
        const WinogradBlock block = block_at(i, slot);
        transform(w, block, 0, block.count);
        for (size_t s = 0; s < plan.strips; ++s) {
          multiply_strip(block, s);
        }
      }
    });
  } else {
    for (size_t i = 0; i < blocks && !context.cancelled(); ++i) {
      const WinogradBlock whole = block_at(i, 0);
      threads::parallel_tasks(pool, plan.slots, [&](size_t slot) {
        transform(w, whole, slot * whole.count / plan.slots, (slot + 1) * whole.count / plan.slots);
      });
      std::atomic<size_t> next{0};
      threads::parallel_tasks(pool, plan.slots, [&](size_t slot) {
        const WinogradBlock block = block_at(i, slot);
        for (size_t s = next.fetch_add(1); s < plan.strips; s = next.fetch_add(1)) {
          multiply_strip(block, s);
        }
      });
    }
  }
  ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "convolution: cancelled");
  return Error::Ok;
}

Error run(KernelContext& context, Arguments args, void* state) {
  Winograd w = *static_cast<const Winograd*>(state);
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  ET_RETURN_IF_ERROR(check_channels(input, w.in_channels));
  w.in_h = input.size(2);
  w.in_w = input.size(3);
  w.out_h = output_extent(w.in_h, w.pad_h, 3);
  w.out_w = output_extent(w.in_w, w.pad_w, 3);
  ET_RETURN_IF_ERROR(resize_output(context, "convolution", input, w.out_channels, w.out_h, w.out_w, out));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  w.in = input.const_data_ptr<float>();
  w.out = out.mutable_data_ptr<float>();
  w.tiles_down = divide_up(static_cast<size_t>(w.out_h), w.tile);
  w.tiles_across = divide_up(static_cast<size_t>(w.out_w), w.tile);
  return run_plan(context, w, plan_call(w, static_cast<size_t>(input.size(0)), context.pool()));
}

}  // namespace

ET_KERNEL_TABLE(winograd, ConvolutionKernels<&run, &prepare, kPriorityWinograd>::kTable)

TileRule set_tile_rule(TileRule rule) { return std::exchange(choose_tile, rule); }

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
