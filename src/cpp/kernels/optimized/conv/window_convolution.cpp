// aten::convolution and et::convolution_clamp with a constant filter on channels-last images, whose windows are
// multiplied where they stand: a row of a window is a run of numbers, the next pixel's begins some channels further on.
// A library that looks every tap up by a pointer has a product of few channels for each, and keeps the pointers: 5 MB
// for the first layer of a ResNet. Where channels are shared by groups, or the taps of a filter are apart, each tap is
// a run.
//
// What lies beside the image must be there, so a strip of rows is copied between zeros; without padding nothing is.
// Sums take their taps in the library's order, and have its bits.
#include <algorithm>

#include "base/checked_math.h"
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
  /// The second cache does not hold the filter of a group: it is read once for all rows of a strip.
  bool has_large_filter() const { return product.group_floats >= (size_t{1} << 19); }
  /// Rows of an image that a window spans.
  int64_t window_rows() const { return (kernel_h - 1) * dilation_h + 1; }
};

// ------------------------------------------------------------------------------------------------------------------
// prepare

/// pixel_convolution.cpp is for these: all pixels of all rows are one run.
bool is_of_pixels(Arguments args) {
  const Tensor weight = args[kWeight]->to_tensor();
  return weight.size(2) == 1 && weight.size(3) == 1 && args[kGroups]->number_as_int() == 1 &&
         is_pair(*args[kStride], 1, 1) && is_pair(*args[kPadding], 0, 0);
}

bool fits(const PrepareContext& context, Arguments args) {
  if (context.shared() == nullptr || !has_constant_filter(context, args) || args[kTransposed]->number_as_bool()) {
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
  if (w.pad_h >= w.window_rows() || w.pad_w >= (w.kernel_w - 1) * w.dilation_w + 1) {
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

/// How the rows of a call are walked.
struct Plan {
  int64_t row_floats;  // of a row with its border
  int64_t strip_rows;  // output rows at a time
  size_t strip_floats;
  size_t slots;  // threads, each with a strip of its own
};

Error plan_strips(const WindowConvolution& w, threads::ThreadPool* pool, int64_t batch, Plan* plan) {
  // Of the first cache, for the rows of a strip; the columns of the filter pass through it as well. Beside a large
  // filter, of the second.
  const int64_t strip_nbytes = w.has_large_filter() ? 512 << 10 : 48 << 10;
  // Multiplications below which a hand-over to another thread costs more than it saves: some 5 us.
  constexpr size_t kWorthWaking = 250'000;
  const int64_t rows = batch * w.out_h;
  const size_t work = static_cast<size_t>(rows * w.out_w * w.out_channels()) * w.product.depth();
  plan->slots = pool == nullptr || work < kWorthWaking ? 1 : std::min(pool->num_threads(), static_cast<size_t>(rows));
  plan->row_floats = (w.in_w + 2 * w.pad_w) * w.in_channels();
  const auto rows_of = [&](int64_t floats, int64_t step) {
    const int64_t fitting = strip_nbytes / static_cast<int64_t>(sizeof(float)) / floats - w.window_rows();
    return std::clamp<int64_t>(fitting / step + 1, 1, w.out_h);
  };
  if (!w.has_border()) {  // rows are read where they stand, without what lies between windows
    plan->strip_rows =
        rows_of(plan->row_floats / w.stride_w * std::min(w.kernel_w, w.stride_w) + 1, std::min(w.kernel_h, w.stride_h));
    return Error::Ok;
  }
  plan->strip_rows = rows_of(plan->row_floats, w.stride_h);
  size_t floats, nbytes;
  ET_CHECK_OR_RETURN(!mul_overflow(static_cast<size_t>((plan->strip_rows - 1) * w.stride_h + w.window_rows()),
                                   static_cast<size_t>(plan->row_floats), &floats) &&
                         !mul_overflow(floats, plan->slots * sizeof(float), &nbytes),
                     InvalidArgument, "convolution: %" PRId64 " rows of %" PRId64 " numbers are too many",
                     w.window_rows(), plan->row_floats);
  plan->strip_floats = floats;
  return Error::Ok;
}

/// Rows [first, first + rows) of an image with its border, of which some lie beside it.
void copy_rows(const WindowConvolution& w, const Plan& plan, const float* image, int64_t first, int64_t rows,
               float* to) {
  const int64_t border = w.pad_w * w.in_channels(), width = w.in_w * w.in_channels();
  for (int64_t row = first; row < first + rows; ++row, to += plan.row_floats) {
    if (row < 0 || row >= w.in_h) {
      std::fill_n(to, plan.row_floats, 0.0f);
      continue;
    }
    std::fill_n(to, border, 0.0f);
    std::copy_n(image + row * width, width, to + border);
    std::fill_n(to + border + width, border, 0.0f);
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
  windows.rows = w.product.kernel_h;
  windows.row_step = static_cast<size_t>(w.dilation_h * plan.row_floats);
  windows.out_step = static_cast<size_t>(w.out_channels());
  return windows;
}

/// Output rows [begin, end) of one image.
void run_rows(const WindowConvolution& w, const Plan& plan, const float* image, float* out, int64_t begin, int64_t end,
              float* strip) {
  const int64_t out_row = w.out_w * w.out_channels();
  const PixelWindows windows = windows_of(w, plan);
  for (int64_t row = begin; row < end; row += plan.strip_rows) {
    const int64_t rows = std::min(plan.strip_rows, end - row);
    const float* from = image + row * w.stride_h * plan.row_floats;
    if (w.has_border()) {
      copy_rows(w, plan, image, row * w.stride_h - w.pad_h, (rows - 1) * w.stride_h + w.window_rows(), strip);
      from = strip;
    }
    for (size_t g = 0; g < static_cast<size_t>(w.groups); ++g) {
      const PixelProduct product = w.product.group(g);
      const float* const in = from + g * product.in_channels;
      float* const to = out + row * out_row + g * product.out_channels;
      const size_t tiles = (product.out_channels + columns_of_a_tile() - 1) / columns_of_a_tile();
      const size_t step = w.has_large_filter() ? 1 : tiles;  // tiles of columns that a row meets at a time
      for (size_t tile = 0; tile < tiles; tile += step) {
        for (int64_t r = 0; r < rows; ++r) {
          multiply_windows(product, windows, in + r * w.stride_h * plan.row_floats, to + r * out_row,
                           static_cast<size_t>(w.out_w), tile, tile + step);
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
  share_rows(
      context.pool(), plan.slots, input.size(0), w.out_h, [&](size_t slot, int64_t image, int64_t begin, int64_t end) {
        run_rows(w, plan, in + image * in_image, to + image * out_image, begin, end, strips + slot * plan.strip_floats);
      });
  return Error::Ok;
}

}  // namespace

ET_KERNEL_TABLE(window_convolution, ConvolutionKernels<&prepare, &run, kPriorityWindows>::kTable)

}  // namespace et::kernels::optimized::conv
