// aten::convolution and et::convolution_clamp with a constant filter on channels-last images and lines. Windows are
// multiplied where they stand: a row of a window is a run of numbers, the next pixel's begins some channels further on.
// A library that looks every tap up by a pointer has a product of few channels for each, and keeps the pointers: 5 MB
// for the first layer of a ResNet. Where channels are shared by groups, or the taps of a filter are apart, each tap is
// a run.
//
// What lies beside the image must be there, so a strip of rows is copied between zeros; without padding nothing is. A
// line has one row, so its strips, and the shares of threads, are of pixels. Sums take their taps in the library's
// order, and have its bits.
#include <algorithm>

#include "base/checked_math.h"
#include "base/rounding.h"
#include "kernels/optimized/conv/images.h"
#include "kernels/optimized/conv/pixel_product.h"
#include "kernels/optimized/vec/table.h"

namespace et::kernels::optimized::conv {
namespace {

using runtime::PrepareContext;

// Arguments by position; the two operators differ in what follows kGroups.
using namespace ops::arguments::et_convolution_clamp;

struct WindowConvolution : ImageGeometry {
  PixelProduct product;  // of the first group
  int64_t groups;

  bool has_border() const { return pad_h > 0 || pad_w > 0; }
  int64_t in_channels() const { return groups * static_cast<int64_t>(product.in_channels); }
  int64_t out_channels() const { return groups * static_cast<int64_t>(product.out_channels); }
  /// The second cache does not hold the filters of all groups: they are read once for all rows of a strip.
  bool has_large_filter() const { return static_cast<size_t>(groups) * product.group_floats >= (size_t{1} << 19); }
  /// Rows of an image that a window spans, and pixels of a row.
  int64_t window_rows() const { return (kernel_h - 1) * dilation_h + 1; }
  int64_t window_pixels() const { return (kernel_w - 1) * dilation_w + 1; }
};

// ------------------------------------------------------------------------------------------------------------------
// prepare

/// pixel_convolution.cpp is for these: all pixels of all rows are one run.
bool is_of_pixels(Arguments args) {
  const Tensor weight = args[kWeight]->to_tensor();
  return weight.size(2) == 1 && weight.size(-1) == 1 && args[kGroups]->number_as_int() == 1 &&
         is_pair(*args[kStride], 1, 1) && is_pair(*args[kPadding], 0, 0);
}

bool fits(const PrepareContext& context, Arguments args) {
  if (context.shared() == nullptr || !has_constant_filter(context, args, image_rank(args)) ||
      args[kTransposed]->number_as_bool()) {
    return false;
  }
  const Tensor weight = args[kWeight]->to_tensor();
  const int64_t groups = args[kGroups]->number_as_int();
  return weight.numel() > 0 && has_steps(*args[kStride]) && has_steps(*args[kDilation]) &&
         has_padding_up_to(*args[kPadding], INT32_MAX) && groups > 0 && weight.size(0) % groups == 0 &&
         args[kInput]->to_tensor().size(1) / groups == weight.size(1) &&
         args[kInput]->to_tensor().size(1) % groups == 0 && !is_of_pixels(args) &&
         (groups == 1 || weight.size(1) > 1);  // one channel a group is for depthwise.cpp
}

/// Of windows, whatever the filter: other kinds of 3x3 are for Winograd's method.
ops::Work windows_work(Arguments args) {
  ops::Work work = work_of(args);
  work.kind = ops::WorkKind::convolution;
  return work;
}

Error prepare(PrepareContext& context, Arguments args, const EValue* min, const EValue* max, void** state) {
  if (!fits(context, args)) {
    return Error::NotSupported;
  }
  WindowConvolution w{};
  static_cast<ImageGeometry&>(w) = geometry_of(args[kWeight]->to_tensor(), args[kStride]->to_int_list(),
                                               args[kPadding]->to_int_list(), args[kDilation]->to_int_list());
  w.groups = args[kGroups]->number_as_int();
  if (w.pad_h >= w.window_rows() || w.pad_w >= w.window_pixels()) {
    return Error::NotSupported;  // windows that see nothing of the image
  }
  ET_RETURN_IF_ERROR(runtime::offer_work(state, windows_work(args), ops::kKernelCosts));
  ET_TRY(const Range range, read_range(context, min, max));
  ET_TRY(w.product,
         pack_pixel_product(context, args[kWeight]->to_tensor(), *args[kBias], range, static_cast<size_t>(w.groups)));
  return keep_state(context, w, state);
}

// ------------------------------------------------------------------------------------------------------------------
// run

/// How the windows of a call are walked: in units, which are rows of an image or pixels of a line.
struct Plan {
  int64_t units;        // of the output
  int64_t row_floats;   // of a row with its border
  int64_t unit_floats;  // from what a unit looks at to what the next one does
  int64_t strip_units;  // at a time
  size_t strip_floats;
  size_t slots;  // threads, each with a strip of its own
};

Error plan_strips(const WindowConvolution& w, threads::ThreadPool* pool, int64_t batch, Plan* plan) {
  // Multiplications below which a hand-over to another thread costs more than it saves: some 5 us.
  constexpr size_t kWorthWaking = 250'000;
  const bool is_line = w.is_line();
  plan->units = is_line ? w.out_w : w.out_h;
  const size_t work = static_cast<size_t>(batch * w.out_h * w.out_w * w.out_channels()) * w.product.depth();
  plan->slots = pool == nullptr || work < kWorthWaking
                    ? 1
                    : std::min(pool->num_threads(), static_cast<size_t>(batch * plan->units));
  plan->row_floats = (w.in_w + 2 * w.pad_w) * w.in_channels();
  plan->unit_floats = is_line ? w.stride_w * w.in_channels() : w.stride_h * plan->row_floats;
  int64_t window_floats = is_line ? w.window_pixels() * w.in_channels() : w.window_rows() * plan->row_floats;
  int64_t step_floats = plan->unit_floats;
  if (!w.has_border()) {  // rows are read where they stand, without what lies between windows
    const auto read = [](int64_t floats, int64_t kernel, int64_t stride) {
      return floats / stride * std::min(kernel, stride) + 1;
    };
    const int64_t row = read(plan->row_floats, w.kernel_w, w.stride_w);
    step_floats = is_line ? read(plan->unit_floats, w.kernel_w, w.stride_w) : row * std::min(w.kernel_h, w.stride_h);
    window_floats = is_line ? window_floats : w.window_rows() * row;
  }
  // Of the first cache, for the rows of a strip; the columns of the filter pass through it as well. Beside a large
  // filter, of the second.
  const int64_t strip_floats = (w.has_large_filter() ? 512 << 10 : 48 << 10) / static_cast<int64_t>(sizeof(float));
  // A number of the filter is loaded once for some pixels of a line. Where windows overlap, many have little to copy.
  const int64_t least = is_line ? (w.window_pixels() > w.stride_w ? 8 : 1) * static_cast<int64_t>(kTilePixels) : 1;
  const int64_t most = std::max((strip_floats - window_floats) / step_floats + 1, least);
  const int64_t share = std::min(plan->units, divide_up(batch * plan->units, static_cast<int64_t>(plan->slots)));
  plan->strip_units = divide_up(share, divide_up(share, most));  // no strip is much shorter than the others
  if (!w.has_border()) {
    return Error::Ok;
  }
  size_t floats, nbytes;
  ET_CHECK_OR_RETURN(
      !mul_overflow(static_cast<size_t>(plan->strip_units - 1), static_cast<size_t>(plan->unit_floats), &floats) &&
          !add_overflow(floats, static_cast<size_t>(window_floats), &floats) &&
          !mul_overflow(floats, plan->slots * sizeof(float), &nbytes),
      InvalidArgument, "convolution: windows of %" PRId64 " numbers are too many", window_floats);
  plan->strip_floats = floats;
  return Error::Ok;
}

/// Pixels [first, first + count) of a row, of which some lie beside it. nullptr: all of them do.
void copy_pixels(const WindowConvolution& w, const float* row, int64_t first, int64_t count, float* to) {
  const int64_t channels = w.in_channels();
  const int64_t before = row == nullptr ? count : std::clamp<int64_t>(-first, 0, count);
  const int64_t last = std::clamp(w.in_w - first, before, count);
  std::fill_n(to, before * channels, 0.0f);
  if (last > before) {
    std::copy_n(row + (first + before) * channels, (last - before) * channels, to + before * channels);
  }
  std::fill_n(to + last * channels, (count - last) * channels, 0.0f);
}

/// What units [first, first + count) look at, with what lies beside the image.
void copy_strip(const WindowConvolution& w, const Plan& plan, const float* image, int64_t first, int64_t count,
                float* to) {
  if (w.is_line()) {
    copy_pixels(w, image, first * w.stride_w - w.pad_w, (count - 1) * w.stride_w + w.window_pixels(), to);
    return;
  }
  const int64_t begin = first * w.stride_h - w.pad_h, rows = (count - 1) * w.stride_h + w.window_rows();
  for (int64_t row = begin; row < begin + rows; ++row, to += plan.row_floats) {
    const bool is_inside = row >= 0 && row < w.in_h;
    copy_pixels(w, is_inside ? image + row * w.in_w * w.in_channels() : nullptr, -w.pad_w, w.in_w + 2 * w.pad_w, to);
  }
}

PixelWindows windows_of(const WindowConvolution& w, const Plan& plan) {
  const auto channels = static_cast<size_t>(w.in_channels());
  PixelWindows windows{};
  windows.step = static_cast<size_t>(w.stride_w) * channels;
  const bool is_one_run = w.groups == 1 && w.dilation_w == 1;
  windows.depth = w.product.in_channels * (is_one_run ? w.product.kernel_w : 1);
  windows.runs = is_one_run ? 1 : w.product.kernel_w;
  windows.run_step = static_cast<size_t>(w.dilation_w) * channels;
  windows.end_row = w.product.kernel_h;
  windows.row_step = static_cast<size_t>(w.dilation_h * plan.row_floats);
  windows.out_step = static_cast<size_t>(w.out_channels());
  return windows;
}

/// Without the rows of the windows that lie beside the image. `top`: where the first one lies. One row is left at
/// least.
PixelWindows rows_inside(const WindowConvolution& w, PixelWindows windows, int64_t top) {
  const int64_t first = std::min(top < 0 ? divide_up(-top, w.dilation_h) : 0, w.kernel_h - 1);
  windows.first_row = static_cast<size_t>(first);
  windows.end_row = static_cast<size_t>(std::clamp(divide_up(w.in_h - top, w.dilation_h), first + 1, w.kernel_h));
  return windows;
}

/// Units [begin, end) of one image.
void run_units(const WindowConvolution& w, const Plan& plan, const float* image, float* out, int64_t begin, int64_t end,
               float* strip) {
  const bool is_line = w.is_line();
  const int64_t out_unit = (is_line ? 1 : w.out_w) * w.out_channels();
  const PixelWindows windows = windows_of(w, plan);
  for (int64_t unit = begin; unit < end; unit += plan.strip_units) {
    const int64_t units = std::min(plan.strip_units, end - unit);
    const float* from = image + unit * plan.unit_floats;
    if (w.has_border()) {
      copy_strip(w, plan, image, unit, units, strip);
      from = strip;
    }
    const int64_t rows = is_line ? 1 : units, pixels = is_line ? units : w.out_w;
    for (size_t g = 0; g < static_cast<size_t>(w.groups); ++g) {
      const PixelProduct product = w.product.group(g);
      const float* const in = from + g * product.in_channels;
      float* const to = out + unit * out_unit + g * product.out_channels;
      const size_t tiles = divide_up(product.out_channels, columns_of_a_tile());
      const size_t step = w.has_large_filter() ? 1 : tiles;  // tiles of columns that a row meets at a time
      for (size_t tile = 0; tile < tiles; tile += step) {
        for (int64_t r = 0; r < rows; ++r) {
          const int64_t top = is_line ? 0 : (unit + r) * w.stride_h - w.pad_h;
          multiply_windows(product, rows_inside(w, windows, top), in + r * plan.unit_floats, to + r * out_unit,
                           static_cast<size_t>(pixels), tile, tile + step);
        }
      }
    }
  }
}

Error run(KernelContext& context, Arguments args, void* state) {
  auto w = *static_cast<const WindowConvolution*>(state);
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  ET_RETURN_IF_ERROR(plan_call(context, "convolution", input, static_cast<size_t>(w.in_channels()),
                               static_cast<size_t>(w.out_channels()), out, &w));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  Plan plan{};
  ET_RETURN_IF_ERROR(plan_strips(w, context.pool(), input.size(0), &plan));
  ET_TRY(void* const memory, context.allocate_temp(plan.slots * plan.strip_floats * sizeof(float)));
  auto* const strips = static_cast<float*>(memory);
  const auto* const in = input.const_data_ptr<float>();
  auto* const to = out.mutable_data_ptr<float>();
  const int64_t in_image = w.in_h * w.in_w * w.in_channels();
  const int64_t out_image = w.out_h * w.out_w * w.out_channels();
  share_units(context.pool(), plan.slots, input.size(0), plan.units,
              [&](size_t slot, int64_t image, int64_t begin, int64_t end) {
                run_units(w, plan, in + image * in_image, to + image * out_image, begin, end,
                          strips + slot * plan.strip_floats);
              });
  return Error::Ok;
}

}  // namespace

ET_KERNEL_TABLE(window_convolution, ConvolutionKernels<&prepare, &run, kPriorityWindows>::kTable)

}  // namespace et::kernels::optimized::conv
