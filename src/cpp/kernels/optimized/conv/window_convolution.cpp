// aten::convolution and et::convolution_clamp with a constant filter on channels-last images, whose windows are
// multiplied where they stand: a row of a window is a run of numbers, the next pixel's begins some channels further on.
// A library that looks every tap up by a pointer has a product of few channels for each, and keeps the pointers: 5 MB
// for the first layer of a ResNet. Where channels are shared by groups, or the taps of a filter are apart, each tap is
// a run.
//
// What lies beside the image must be there, so a strip of rows is copied between zeros; without padding nothing is.
// Sums take their taps in the library's order, and have its bits.
#include <algorithm>
#include <new>

#include "base/checked_math.h"
#include "kernels/optimized/conv/clamped_convolution.h"
#include "kernels/optimized/conv/pixel_product.h"
#include "kernels/optimized/vec/table.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::conv {
namespace {

using runtime::PrepareContext;

// Arguments by position; the two operators differ in what follows kGroups.
using namespace ops::arguments::et_convolution_clamp;

struct WindowConvolution {
  PixelProduct product;  // of the first group
  int64_t groups;
  int64_t stride_h, stride_w;
  int64_t pad_h, pad_w;
  int64_t dilation_h, dilation_w;

  bool has_border() const { return pad_h > 0 || pad_w > 0; }
  int64_t in_channels() const { return groups * static_cast<int64_t>(product.in_channels); }
  int64_t out_channels() const { return groups * static_cast<int64_t>(product.out_channels); }
  int64_t kernel_h() const { return static_cast<int64_t>(product.kernel_h); }
  int64_t kernel_w() const { return static_cast<int64_t>(product.kernel_w); }
  /// Rows of an image that a window spans.
  int64_t window_rows() const { return (kernel_h() - 1) * dilation_h + 1; }
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
  const IntArrayRef stride = args[kStride]->to_int_list();
  const IntArrayRef padding = args[kPadding]->to_int_list();
  const IntArrayRef dilation = args[kDilation]->to_int_list();
  w.groups = args[kGroups]->number_as_int();
  w.stride_h = stride[0];
  w.stride_w = stride[stride.size() - 1];
  w.pad_h = padding[0];
  w.pad_w = padding[padding.size() - 1];
  w.dilation_h = dilation[0];
  w.dilation_w = dilation[dilation.size() - 1];
  if (w.pad_h >= (args[kWeight]->to_tensor().size(2) - 1) * w.dilation_h + 1 ||
      w.pad_w >= (args[kWeight]->to_tensor().size(3) - 1) * w.dilation_w + 1) {
    return Error::NotSupported;  // windows that see nothing of the image
  }
  ET_RETURN_IF_ERROR(runtime::offer_work(state, windows_work(args), ops::kKernelCosts));
  ET_TRY(const Range range, read_range(context, min, max));
  ET_TRY(w.product,
         pack_pixel_product(context, args[kWeight]->to_tensor(), *args[kBias], range, static_cast<size_t>(w.groups)));
  ET_TRY(void* const memory, context.allocate(sizeof(WindowConvolution), alignof(WindowConvolution)));
  *state = new (memory) WindowConvolution(w);
  return Error::Ok;
}

// ------------------------------------------------------------------------------------------------------------------
// run

/// One call: images [in_h, in_w, in_channels] → [out_h, out_w, out_channels].
struct Call {
  const float* in;
  float* out;
  int64_t in_h, in_w, out_h, out_w;
  int64_t row_floats;  // of a row with its border
  int64_t strip_rows;  // output rows at a time
  size_t strip_floats;
  size_t slots;  // threads, each with a strip of its own
};

Error plan_call(const WindowConvolution& w, threads::ThreadPool* pool, int64_t batch, Call* call) {
  // Of the first cache, for the rows of a strip; the columns of the filter pass through it as well.
  constexpr int64_t kStripBytes = 48 << 10;
  // Multiplications below which a hand-over to another thread costs more than it saves: some 5 us.
  constexpr size_t kWorthWaking = 250'000;
  const int64_t rows = batch * call->out_h;
  const size_t work = static_cast<size_t>(rows * call->out_w * w.out_channels()) * w.product.depth();
  call->slots = pool == nullptr || work < kWorthWaking ? 1 : std::min(pool->num_threads(), static_cast<size_t>(rows));
  call->row_floats = (call->in_w + 2 * w.pad_w) * w.in_channels();
  if (!w.has_border()) {
    call->strip_rows = call->out_h;
    return Error::Ok;
  }
  const int64_t fitting = kStripBytes / static_cast<int64_t>(sizeof(float)) / call->row_floats - w.window_rows();
  call->strip_rows = std::clamp<int64_t>(fitting / w.stride_h + 1, 1, call->out_h);
  size_t floats, nbytes;
  ET_CHECK_OR_RETURN(!mul_overflow(static_cast<size_t>((call->strip_rows - 1) * w.stride_h + w.window_rows()),
                                   static_cast<size_t>(call->row_floats), &floats) &&
                         !mul_overflow(floats, call->slots * sizeof(float), &nbytes),
                     InvalidArgument, "convolution: %" PRId64 " rows of %" PRId64 " numbers are too many",
                     w.window_rows(), call->row_floats);
  call->strip_floats = floats;
  return Error::Ok;
}

/// Rows [first, first + rows) of an image with its border, of which some lie beside it.
void copy_rows(const WindowConvolution& w, const Call& call, const float* image, int64_t first, int64_t rows,
               float* to) {
  const int64_t border = w.pad_w * w.in_channels(), width = call.in_w * w.in_channels();
  for (int64_t row = first; row < first + rows; ++row, to += call.row_floats) {
    if (row < 0 || row >= call.in_h) {
      std::fill_n(to, call.row_floats, 0.0f);
      continue;
    }
    std::fill_n(to, border, 0.0f);
    std::copy_n(image + row * width, width, to + border);
    std::fill_n(to + border + width, border, 0.0f);
  }
}

PixelWindows windows_of(const WindowConvolution& w, const Call& call) {
  const auto channels = static_cast<size_t>(w.in_channels());
  PixelWindows windows{};
  windows.step = static_cast<size_t>(w.stride_w) * channels;
  const bool is_one_run = w.groups == 1 && w.dilation_w == 1;
  windows.depth = w.product.in_channels * (is_one_run ? w.product.kernel_w : 1);
  windows.runs = is_one_run ? 1 : w.product.kernel_w;
  windows.run_step = static_cast<size_t>(w.dilation_w) * channels;
  windows.rows = w.product.kernel_h;
  windows.row_step = static_cast<size_t>(w.dilation_h * call.row_floats);
  windows.out_step = static_cast<size_t>(w.out_channels());
  return windows;
}

/// Output rows [begin, end) of one image.
void run_rows(const WindowConvolution& w, const Call& call, const float* image, float* out, int64_t begin, int64_t end,
              float* strip) {
  const int64_t out_row = call.out_w * w.out_channels();
  const PixelWindows windows = windows_of(w, call);
  for (int64_t row = begin; row < end; row += call.strip_rows) {
    const int64_t rows = std::min(call.strip_rows, end - row);
    const float* from = image + row * w.stride_h * call.row_floats;
    if (w.has_border()) {
      copy_rows(w, call, image, row * w.stride_h - w.pad_h, (rows - 1) * w.stride_h + w.window_rows(), strip);
      from = strip;
    }
    for (size_t g = 0; g < static_cast<size_t>(w.groups); ++g) {
      const PixelProduct product = w.product.group(g);
      const float* const in = from + g * product.in_channels;
      float* const to = out + row * out_row + g * product.out_channels;
      for (int64_t r = 0; r < rows; ++r) {
        multiply_windows(product, windows, in + r * w.stride_h * call.row_floats, to + r * out_row,
                         static_cast<size_t>(call.out_w));
      }
    }
  }
}

Error run(KernelContext& context, Arguments args, void* state) {
  const auto& w = *static_cast<const WindowConvolution*>(state);
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  ET_RETURN_IF_ERROR(check_channels(input, static_cast<size_t>(w.in_channels())));
  Call call{};
  call.in_h = input.size(2);
  call.in_w = input.size(3);
  call.out_h = output_extent(call.in_h, w.pad_h, w.kernel_h(), w.stride_h, w.dilation_h);
  call.out_w = output_extent(call.in_w, w.pad_w, w.kernel_w(), w.stride_w, w.dilation_w);
  ET_RETURN_IF_ERROR(
      resize_output(context, "convolution", input, static_cast<size_t>(w.out_channels()), call.out_h, call.out_w, out));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  call.in = input.const_data_ptr<float>();
  call.out = out.mutable_data_ptr<float>();
  ET_RETURN_IF_ERROR(plan_call(w, context.pool(), input.size(0), &call));
  ET_TRY(void* const memory, context.allocate_temp(call.slots * call.strip_floats * sizeof(float)));
  auto* const strips = static_cast<float*>(memory);
  const int64_t rows = input.size(0) * call.out_h;
  const int64_t in_image = call.in_h * call.in_w * w.in_channels();
  const int64_t out_image = call.out_h * call.out_w * w.out_channels();
  threads::parallel_tasks(call.slots > 1 ? context.pool() : nullptr, call.slots, [&](size_t slot) {
    const auto bound = [&](size_t i) { return rows * static_cast<int64_t>(i) / static_cast<int64_t>(call.slots); };
    for (int64_t row = bound(slot); row < bound(slot + 1);) {
      const int64_t image = row / call.out_h;
      const int64_t last = std::min(bound(slot + 1) - image * call.out_h, call.out_h);
      run_rows(w, call, call.in + image * in_image, call.out + image * out_image, row - image * call.out_h, last,
               strips + slot * call.strip_floats);
      row = image * call.out_h + last;
    }
  });
  return Error::Ok;
}

}  // namespace

ET_KERNEL_TABLE(window_convolution, ConvolutionKernels<&run, &prepare, kPriorityWindows>::kTable)

}  // namespace et::kernels::optimized::conv
