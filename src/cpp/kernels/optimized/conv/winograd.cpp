// aten::convolution and et::convolution_clamp with dense constant 3x3 filters and stride 1 on channels-last images, or
// volumes with any number of planes in the filter, by Winograd's minimal filtering (winograd.h). Volumes of the other
// order are transposed.
//
// The tiles of all images are cut into blocks whose transformed patches and products stay in the second cache; of a
// volume a block has the same tiles of several planes. For each block, patches are transformed once. For each strip of
// output channels follow the matrix products of all points, whose filter values stand one after the other in memory.
// Then what came out is transformed, with bias and limits, into the output. Threads share the blocks where there are
// many, and else the tiles and then the strips of each block, so that each thread reads a part of the filter only.
//
// A number that is not finite spreads over the tile that it belongs to, where direct convolution keeps it to its
// window.

#include "kernels/optimized/vec/every_target-inl.h"

#include <atomic>
#include <limits>
#include <new>

#include "base/rounding.h"
#include "kernels/optimized/conv/clamped_convolution.h"
#include "kernels/optimized/conv/winograd-inl.h"
#include "kernels/optimized/move/strided_copy.h"
#include "kernels/optimized/vec/table.h"
#include "runtime/host/packed_memory.h"
#include "runtime/shared_cache.h"
#include "threads/parallel.h"

#if HWY_ONCE
namespace et::kernels::optimized::conv {

HWY_EXPORT(WinogradStrip);
HWY_EXPORT(PackStrip);
HWY_EXPORT(TransformPatches);
HWY_EXPORT(MultiplyStrip);

namespace {

using runtime::PrepareContext;
using runtime::SharedCache;

// Arguments by position; the two operators differ in what follows kGroups.
using namespace ops::arguments::et_convolution_clamp;

constexpr size_t kMaxStrip = 32;  // two of the longest vectors
/// Of the output, of a block. The planes that a filter reaches beyond them are transformed for each block anew.
constexpr size_t kMostPlanes = 8;

// ------------------------------------------------------------------------------------------------------------------
// choice of the tile

/// A tile, and what a convolution with it takes, in multiplications of a dense product.
struct TileChoice {
  size_t side;  ///< pixels: 2 or 4
  double multiplications;
};
using TileRule = TileChoice (*)(const ConvolutionSizes& sizes);

/// What it multiplies, what its transforms take, and reading the filter, which is the larger part where an image is
/// small. Measured with AVX-512 at 1 thread: a number transformed takes as long as 34 multiplications with 16 to 192
/// channels (20 for patches, 14 for products).
TileChoice with_tile(size_t side, const ConvolutionSizes& sizes) {
  const size_t vector = HWY_DYNAMIC_DISPATCH(WinogradStrip)() / 2;
  const auto points = static_cast<double>((side + 2) * (side + 2));
  const auto tiles = static_cast<double>(sizes.images * divide_up(sizes.out_h, side) * divide_up(sizes.out_w, side));
  const auto out = static_cast<double>(round_up(sizes.out_channels, vector));
  const double again = static_cast<double>(sizes.planes - 1) / static_cast<double>(kMostPlanes);  // see plan_call
  const double in = static_cast<double>(round_up(sizes.in_channels, vector)) * (1 + again);
  const double filter = points * static_cast<double>(sizes.planes * sizes.in_channels) * out;
  return {side, filter * (tiles + ops::cost_of_reading(filter)) + points * tiles * (20 * in + 14 * out)};
}

TileChoice cheapest_tile(const ConvolutionSizes& sizes) {
  // A filter for large tiles takes 2.25 times the memory of one for small tiles, and saves more the larger the image
  // is. A large filter is worth it where it saves as many multiplications as this for each number more: a microsecond
  // for 16 KiB.
  constexpr double kWorthOfANumber = 32, kSmall = 32 << 10;
  const TileChoice small = with_tile(2, sizes), large = with_tile(4, sizes);
  const double more = (36 - 16) * static_cast<double>(sizes.planes * sizes.in_channels) *
                      static_cast<double>(round_up(sizes.out_channels, HWY_DYNAMIC_DISPATCH(WinogradStrip)() / 2));
  const double price = more > kSmall ? kWorthOfANumber * more : 0;
  return large.multiplications + price < small.multiplications ? large : small;
}

template <size_t side>
TileChoice always(const ConvolutionSizes& sizes) {
  return with_tile(side, sizes);
}

// ------------------------------------------------------------------------------------------------------------------
// filters

struct PackRequest {
  WinogradFilter filter;
  size_t tile, in_channels, out_channels;
  const runtime::PrepareContext* context;
};

/// [strips][points][planes][in_channels][columns of the strip], with slack after each point.
Result<void*> create_filter(void* argument) {
  const auto& request = *static_cast<const PackRequest*>(argument);
  const size_t strip = HWY_DYNAMIC_DISPATCH(WinogradStrip)();
  const size_t strips = divide_up(request.out_channels, strip);
  const size_t points = (request.tile + 2) * (request.tile + 2);
  const size_t floats = points * (request.filter.planes * request.in_channels * strip + kPointSlack);  // of a strip
  ET_TRY(void* const memory, request.context->shared()->memory().allocate(strips * floats * sizeof(float)));
  auto* const packed = static_cast<float*>(memory);
  const auto pack = HWY_DYNAMIC_POINTER(PackStrip);
  threads::parallel_for(request.context->pool(), strips, threads::grain_for(floats), [&](size_t begin, size_t end) {
    for (size_t s = begin; s < end; ++s) {
      const size_t first = s * strip, count = HWY_MIN(strip, request.out_channels - first);
      pack(request.tile, request.filter, request.in_channels, first, count, packed + s * floats);
      // What is packed is larger than what it is made from: both whole would be the most memory that a network ever
      // takes.
      request.context->discard(request.filter.data + first * request.filter.out_stride,
                               count * request.filter.out_stride * sizeof(float));
    }
  });
  return memory;
}

constexpr char kMaker = 0;  // its address names our entries in the shared cache

// ------------------------------------------------------------------------------------------------------------------
// prepare

/// What a list of one item for all dims, or of one a dim, says of a volume's plane, row and column.
struct VolumeList {
  int64_t d, h, w;
};

/// `volume`: for three dims, else for the last two, and `plane` is what an image has. False for a list of another
/// length.
bool read_list(const EValue& list, bool volume, int64_t plane, VolumeList* out) {
  const IntArrayRef items = list.to_int_list();
  const size_t dims = volume ? 3 : 2;
  if (items.size() != 1 && items.size() != dims) {
    return false;
  }
  const size_t last = items.size() - 1;
  *out = {volume ? items[0] : plane, items[last == 0 ? 0 : last - 1], items[last]};
  return true;
}

/// Geometry that this kernel is made for: rows and columns one by one, planes with any padding and dilation.
bool fits(const PrepareContext& context, Arguments args, Winograd* w) {
  const int64_t rank = args[kInput]->to_tensor().dim();
  const bool volume = rank == 5;
  VolumeList stride, padding, dilation;
  if (!has_constant_filter(context, args, volume ? 5 : 4) || !read_list(*args[kStride], volume, 1, &stride) ||
      !read_list(*args[kPadding], volume, 0, &padding) || !read_list(*args[kDilation], volume, 1, &dilation)) {
    return false;
  }
  const auto in_range = [](int64_t least, int64_t item) { return item >= least && item <= INT32_MAX; };
  if (stride.d != 1 || stride.h != 1 || stride.w != 1 || dilation.h != 1 || dilation.w != 1 ||
      !in_range(1, dilation.d) || !in_range(0, padding.d) || !in_range(0, padding.h) || !in_range(0, padding.w)) {
    return false;
  }
  const Tensor input = args[kInput]->to_tensor();
  const Tensor weight = args[kWeight]->to_tensor();
  if (args[kTransposed]->number_as_bool() || args[kGroups]->number_as_int() != 1 || weight.size(rank - 2) != 3 ||
      weight.size(rank - 1) != 3 || weight.numel() <= 0 || weight.size(1) != input.size(1) ||
      (volume && weight.size(2) > INT32_MAX)) {
    return false;
  }
  w->planes = volume ? static_cast<size_t>(weight.size(2)) : 1;
  w->plane_step = static_cast<size_t>(dilation.d);
  w->in_channels = static_cast<size_t>(weight.size(1));
  w->out_channels = static_cast<size_t>(weight.size(0));
  w->pad_d = padding.d;
  w->pad_h = padding.h;
  w->pad_w = padding.w;
  return true;
}

/// Sizes of a call's input and output. An extent of the output is 0 when the input is smaller than the kernel.
void set_extents(Winograd& w, const Tensor& input) {
  const int64_t rank = input.dim();
  w.in_d = rank == 5 ? input.size(2) : 1;
  w.in_h = input.size(rank - 2);
  w.in_w = input.size(rank - 1);
  w.out_d = output_extent(w.in_d, w.pad_d, static_cast<int64_t>(w.planes), 1, static_cast<int64_t>(w.plane_step));
  w.out_h = output_extent(w.in_h, w.pad_h, 3);
  w.out_w = output_extent(w.in_w, w.pad_w, 3);
}

template <TileRule choose_tile>
Error prepare(PrepareContext& context, Arguments args, const EValue* min, const EValue* max, void** state) {
  Winograd w{};
  if (context.shared() == nullptr || !fits(context, args, &w)) {
    return Error::NotSupported;
  }
  ET_TRY(const Range range, read_range(context, min, max));
  w.min = range.min;
  w.max = range.max;
  const Tensor input = args[kInput]->to_tensor();
  const Tensor weight = args[kWeight]->to_tensor();
  set_extents(w, input);
  if (w.out_d <= 0 || w.out_h <= 0 || w.out_w <= 0) {
    return Error::NotSupported;
  }
  // Patches of all planes between the first and the last that a block needs are kept: few where the filter's are side
  // by side.
  if (w.reach() > static_cast<size_t>(w.out_d) + 4) {
    return Error::NotSupported;
  }
  const TileChoice tile =
      choose_tile({w.in_channels, w.out_channels, w.planes, static_cast<size_t>(input.size(0) * w.out_d),
                   static_cast<size_t>(w.out_h), static_cast<size_t>(w.out_w)});
  w.tile = tile.side;
  // The margin is for a packed filter that is larger, and for images that come out smaller than their bounds.
  constexpr double kMargin = 0.9;
  ET_RETURN_IF_ERROR(runtime::offer_work(state,
                                         {ops::WorkKind::convolution, ops::WorkNumbers::floating, tile.multiplications},
                                         ops::kKernelCosts, 1 / kMargin));

  const bool taps_inside = is_row_major(*args[kWeight]);
  const size_t taps = 9 * w.planes;
  const WinogradFilter filter{weight.const_data_ptr<float>(),
                              w.planes,
                              taps * w.in_channels,
                              taps_inside ? taps : size_t{1},
                              taps_inside ? size_t{9} : 9 * w.in_channels,
                              taps_inside ? size_t{1} : w.in_channels};
  PackRequest request{filter, w.tile, w.in_channels, w.out_channels, &context};
  const SharedCache::Key key{&kMaker, weight.const_data_ptr(), nullptr,
                             uint64_t{w.planes} << 8 | (uint64_t{w.tile} << 1) | taps_inside,
                             uint64_t{w.in_channels} << 32 | w.out_channels};
  ET_TRY(void* const packed, context.shared()->get_or_create(key, &create_filter, &request, nullptr));
  w.packed = static_cast<const float*>(packed);

  const size_t padded = round_up(w.out_channels, kMaxStrip);
  ET_TRY(w.bias, padded_bias(context, *args[kBias], w.out_channels, padded));
  return keep_state(context, w, state);
}

// convolution(input, weight, bias, stride, …, groups, [min, max,] out)
// ------------------------------------------------------------------------------------------------------------------
// run

/// How the tiles of a call are shared.
struct Plan {
  size_t tiles;         // of a plane, or of all images
  size_t volumes;       // 1 for images
  size_t planes;        // of the output, at most, of a block
  size_t plane_blocks;  // of a volume
  size_t tile_blocks;
  size_t strip, strips;
  size_t width;         // of a strip in memory, at most
  size_t block_tiles;   // at most, of a block
  size_t slots;         // threads with scratch of their own
  bool shares_strips;   // threads share each block's strips, rather than the blocks
  size_t patch_floats;  // of a block
  size_t product_floats;

  size_t blocks() const { return volumes * plane_blocks * tile_blocks; }
  size_t patch_rows(const Winograd& w) const { return (planes + w.reach()) * block_tiles; }
};

Plan plan_call(const Winograd& w, size_t batch, threads::ThreadPool* pool) {
  // What a block may take of the second cache; strips of the filter pass through it as well. One as large as the
  // filter, which is read once a block, is large enough: more would be memory alone.
  constexpr size_t kLeastBlock = 192 << 10, kLargestBlock = 640 << 10;
  // Multiplications below which a hand-over to another thread costs more than it saves: some 5 us.
  constexpr size_t kWorthWaking = 250'000;
  const bool is_volume = w.planes > 1 || w.out_d > 1;
  const auto out_d = static_cast<size_t>(w.out_d);
  Plan plan{};
  plan.volumes = is_volume ? batch : 1;
  plan.plane_blocks = divide_up(out_d, kMostPlanes);
  plan.planes = divide_up(out_d, plan.plane_blocks);
  plan.plane_blocks = divide_up(out_d, plan.planes);
  plan.tiles = (is_volume ? 1 : batch) * w.tiles_down * w.tiles_across;
  plan.strip = HWY_DYNAMIC_DISPATCH(WinogradStrip)();
  plan.strips = divide_up(w.out_channels, plan.strip);
  const size_t stride = round_up(w.in_channels, plan.strip / 2);
  plan.width = HWY_MIN(plan.strip, round_up(w.out_channels, plan.strip / 2));
  const size_t tile_bytes =
      w.points() * ((plan.planes + w.reach()) * stride + plan.planes * plan.width) * sizeof(float);
  const size_t filter_bytes =
      w.points() * w.planes * w.in_channels * round_up(w.out_channels, plan.strip / 2) * sizeof(float);
  const size_t block_bytes = HWY_MIN(HWY_MAX(filter_bytes, kLeastBlock), kLargestBlock);
  size_t blocks = HWY_MAX((plan.tiles * tile_bytes + block_bytes / 2) / block_bytes, size_t{1});
  const size_t groups = plan.volumes * plan.plane_blocks;
  const size_t work = w.points() * plan.volumes * out_d * plan.tiles * w.planes * w.in_channels * w.out_channels;
  const size_t threads = pool == nullptr || work < kWorthWaking ? 1 : pool->num_threads();
  plan.slots = 1;
  if (threads > 1) {
    plan.shares_strips = groups * blocks < 2 * threads && plan.strips >= threads;
    plan.slots = threads;
    if (!plan.shares_strips) {
      blocks = divide_up(round_up(groups * blocks, threads), groups);
    }
  }
  plan.block_tiles = divide_up(plan.tiles, HWY_MIN(blocks, plan.tiles));
  plan.tile_blocks = divide_up(plan.tiles, plan.block_tiles);
  plan.patch_floats = w.points() * (plan.patch_rows(w) * stride + kPointSlack);
  plan.product_floats = w.points() * (plan.planes * plan.block_tiles * plan.width + kPointSlack);
  return plan;
}

Error run_plan(KernelContext& context, const Winograd& w, const Plan& plan) {
  const size_t stride = round_up(w.in_channels, plan.strip / 2);
  const size_t blocks = plan.blocks();
  const auto in_d = static_cast<size_t>(w.in_d), out_d = static_cast<size_t>(w.out_d);
  const size_t patch_buffers = plan.shares_strips ? 1 : plan.slots;
  const size_t floats = patch_buffers * plan.patch_floats + plan.slots * plan.product_floats + stride;
  ET_TRY(void* const memory, context.allocate_temp(floats * sizeof(float)));
  auto* const patches = static_cast<float*>(memory);
  float* const products = patches + patch_buffers * plan.patch_floats;
  float* const zeros = products + plan.slots * plan.product_floats;
  std::fill_n(zeros, stride, 0.0f);
  const auto block_at = [&](size_t index, size_t slot) {
    const size_t first = index % plan.tile_blocks * plan.block_tiles;
    const size_t count = HWY_MIN(plan.block_tiles, plan.tiles - first);
    const size_t group = index / plan.tile_blocks, volume = group / plan.plane_blocks;
    const size_t plane = group % plan.plane_blocks * plan.planes;
    return WinogradBlock{first,
                         count,
                         HWY_MIN(plan.planes, out_d - plane),
                         static_cast<int64_t>(plane) - w.pad_d,
                         volume * in_d,
                         volume * out_d + plane,
                         patches + (plan.shares_strips ? 0 : slot * plan.patch_floats),
                         stride,
                         plan.patch_rows(w) * stride + kPointSlack,
                         products + slot * plan.product_floats,
                         plan.planes * plan.block_tiles * plan.width + kPointSlack,
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
        transform(w, block, 0, (block.planes + w.reach()) * block.count);
        for (size_t s = 0; s < plan.strips; ++s) {
          multiply_strip(block, s);
        }
      }
    });
  } else {
    for (size_t i = 0; i < blocks && !context.cancelled(); ++i) {
      const WinogradBlock whole = block_at(i, 0);
      threads::parallel_tasks(pool, plan.slots, [&](size_t slot) {
        const size_t patches = (whole.planes + w.reach()) * whole.count;
        transform(w, whole, slot * patches / plan.slots, (slot + 1) * patches / plan.slots);
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

/// Dense memory for a volume, with channels innermost.
Result<portable::Window> transposed_window(KernelContext& context, const Tensor& volume) {
  portable::Window window = portable::window_of(volume);
  int64_t step = volume.size(1);
  window.strides[1] = 1;
  for (const int dim : {4, 3, 2, 0}) {
    window.strides[dim] = step;
    step *= volume.size(dim);
  }
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(volume.numel()) * sizeof(float), 64));
  window.data = static_cast<char*>(memory);
  return window;
}

Error run(KernelContext& context, Arguments args, void* state) {
  Winograd w = *static_cast<const Winograd*>(state);
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  ET_RETURN_IF_ERROR(check_channels(input, w.in_channels));
  set_extents(w, input);
  const auto batch = static_cast<size_t>(input.size(0));
  if (input.dim() == 4) {
    ET_RETURN_IF_ERROR(resize_output(context, "convolution", input, w.out_channels, w.out_h, w.out_w, out));
  } else {
    ET_CHECK_OR_RETURN(w.out_d > 0 && w.out_h > 0 && w.out_w > 0, InvalidArgument,
                       "convolution: an input of %" PRId64 " x %" PRId64 " x %" PRId64 " is smaller than the kernel",
                       w.in_d, w.in_h, w.in_w);
    const int64_t sizes[] = {input.size(0), static_cast<int64_t>(w.out_channels), w.out_d, w.out_h, w.out_w};
    ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes, 5}));
  }
  if (out.numel() == 0) {
    return Error::Ok;
  }
  w.in = input.const_data_ptr<float>();
  w.out = out.mutable_data_ptr<float>();
  const bool turns_input = !is_channels_last(*args[kInput]), turns_output = !is_channels_last(*args[args.size() - 1]);
  portable::Window turned_output{};
  if (turns_input) {
    ET_TRY(const portable::Window turned, transposed_window(context, input));
    move::copy_elements(context, portable::window_of(input), turned);
    w.in = reinterpret_cast<const float*>(turned.data);
  }
  if (turns_output) {
    ET_TRY(turned_output, transposed_window(context, out));
    w.out = reinterpret_cast<float*>(turned_output.data);
  }
  w.tiles_down = divide_up(static_cast<size_t>(w.out_h), w.tile);
  w.tiles_across = divide_up(static_cast<size_t>(w.out_w), w.tile);
  ET_RETURN_IF_ERROR(run_plan(context, w, plan_call(w, batch, context.pool())));
  if (turns_output) {
    move::copy_elements(context, turned_output, portable::window_of(out));
  }
  return Error::Ok;
}

}  // namespace

ET_KERNEL_TABLE(winograd, ConvolutionKernels<&prepare<cheapest_tile>, &run, kPriorityWinograd>::kTable)

Span<const Kernel> winograd_kernels_with_tiles_of(size_t side) {
  if (side == 2) {
    return ConvolutionKernels<&prepare<always<2>>, &run, kPriorityWinograd>::kTable;
  }
  return ConvolutionKernels<&prepare<always<4>>, &run, kPriorityWinograd>::kTable;
}

}  // namespace et::kernels::optimized::conv
#endif  // HWY_ONCE
