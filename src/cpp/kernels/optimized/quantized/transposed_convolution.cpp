// et::quantized_convolution, transposed, with a constant int8 filter, on images of int8 in one or two dimensions and
// either order. Sums, scales and rounding are those of the plain kernel (docs/reference/numerics.md), bit for bit.
//
// Results whose places differ by a multiple of the stride meet the same taps of the filter. So all of one row of the
// stride are one convolution of step 1, with a column for each place in that row and each channel. A pixel of its
// result is a run of neighbours in the output. Windows are rows of a product (integer_product.h).

#include <algorithm>

#include "kernels/optimized/move/strided_copy.h"
#include "kernels/optimized/quantized/integer_product.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/quantized/op_convolution.h"

namespace et::kernels::optimized::quantized {
namespace {

using namespace ops::arguments::et_quantized_convolution;
using portable::Window;

constexpr const char* kOp = "et::quantized_convolution";

/// A state.
struct TransposedConvolution {
  StrideRow filter;  // its first row
  int64_t pad_h, pad_w, extra_h, extra_w;
  size_t channels;
  IntegerProduct* rows;  // [stride_h]

  int64_t out_h(int64_t in) const { return extent(in, filter.kernel_h, filter.stride_h, pad_h, extra_h); }
  int64_t out_w(int64_t in) const { return extent(in, filter.kernel_w, filter.stride_w, pad_w, extra_w); }
  /// Pixels of a row's product along a line of the image, and down an image, up to the last result.
  int64_t across(int64_t out_w) const { return (pad_w + out_w - 1) / static_cast<int64_t>(filter.stride_w) + 1; }
  int64_t down(int64_t out_h) const { return (pad_h + out_h - 1) / static_cast<int64_t>(filter.stride_h) + 1; }
  /// Numbers of the packed filter, taps beside it included, over those of the filter.
  double growth() const {
    const StrideRow& f = filter;
    return static_cast<double>(f.taps_h() * f.stride_h * f.taps_w() * f.stride_w) /
           static_cast<double>(f.kernel_h * f.kernel_w);
  }

 private:
  static int64_t extent(int64_t in, size_t kernel, size_t stride, int64_t pad, int64_t extra) {
    return (in - 1) * static_cast<int64_t>(stride) - 2 * pad + static_cast<int64_t>(kernel) + extra;
  }
};

bool read(const runtime::PrepareContext& context, Arguments args, TransposedConvolution* t, QuantizedConvolution* c) {
  if (!has_constant_rest(context, args)) {
    return false;
  }
  for (const size_t i : {kInput, kWeight, kOut}) {
    if (!args[i]->is_tensor() || args[i]->to_tensor().scalar_type() != ScalarType::Char ||
        args[i]->to_tensor().dim() != args[kInput]->to_tensor().dim() ||
        !(is_row_major(*args[i]) || is_channels_last(*args[i]))) {
      return false;
    }
  }
  const Tensor input = args[kInput]->to_tensor(), weight = args[kWeight]->to_tensor();
  const bool is_line = input.dim() == 3;
  int64_t stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  if ((!is_line && input.dim() != 4) || !args[kTransposed]->number_as_bool() || args[kGroups]->number_as_int() != 1 ||
      weight.numel() == 0 || weight.size(0) != input.size(1) ||
      !read_steps(*args[kStride], is_line, 1, 1, &stride_h, &stride_w) ||
      !read_steps(*args[kDilation], is_line, 1, 1, &dilation_h, &dilation_w) ||
      !read_steps(*args[kPadding], is_line, 0, 0, &t->pad_h, &t->pad_w) ||
      !read_steps(*args[kOutputPadding], is_line, 0, 0, &t->extra_h, &t->extra_w) || dilation_h != 1 ||
      dilation_w != 1 || t->extra_h >= stride_h || t->extra_w >= stride_w) {
    return false;
  }
  const auto h = static_cast<size_t>(is_line ? 1 : weight.size(2)), w = static_cast<size_t>(weight.size(-1));
  t->channels = static_cast<size_t>(weight.size(0));
  StrideRow& f = t->filter;
  f.kernel_h = h, f.kernel_w = w;
  f.stride_h = static_cast<size_t>(stride_h), f.stride_w = static_cast<size_t>(stride_w);
  f.out_channels = static_cast<size_t>(weight.size(1));
  const bool is_innermost = is_channels_last(*args[kWeight]) && !is_row_major(*args[kWeight]);
  f.in_step = f.out_channels * h * w;
  f.out_step = is_innermost ? 1 : h * w;
  f.w_step = is_innermost ? f.out_channels : 1;
  f.h_step = w * f.w_step;
  constexpr double kMostGrowth = 4;  // beyond it products are of zeros above all
  return std::max({h, w, f.stride_h, f.stride_w}) <= StrideRow::kMost && t->growth() <= kMostGrowth &&
         read_affine(args,
                     {kInputScale, kInputZeroPoint, kWeightScales, kBias, kOutputScale, kOutputZeroPoint, kOutputMin,
                      kOutputMax},
                     weight.size(1), c);
}

/// `count` numbers, and again, for each place of the stride.
template <class T>
Result<const T*> repeated(runtime::PrepareContext& context, const T* from, size_t count, size_t times) {
  ET_TRY(void* const memory, context.allocate(count * times * sizeof(T), alignof(T)));
  auto* const to = static_cast<T*>(memory);
  for (size_t i = 0; i < times; ++i) {
    std::copy_n(from, count, to + i * count);
  }
  return static_cast<const T*>(to);
}

/// The product of the results in `row` of the stride.
IntegerProduct product_of(const QuantizedConvolution& c, const StrideRow& row, size_t channels) {
  IntegerProduct p{};
  static_cast<QuantizedConvolution&>(p) = c;
  p.kernel_h = static_cast<int64_t>(row.taps_h());
  p.kernel_w = static_cast<int64_t>(row.taps_w());
  p.pad_h = p.kernel_h - 1;
  p.pad_w = p.kernel_w - 1;
  p.stride_h = p.stride_w = p.dilation_h = p.dilation_w = 1;
  p.channels = channels;
  p.groups = 1;
  p.taps = row.taps_h() * row.taps_w();
  p.columns = row.stride_w * row.out_channels;
  return p;
}

Error prepare(runtime::PrepareContext& context, Arguments args, void** state) {
  TransposedConvolution t{};
  QuantizedConvolution c{};
  if (context.shared() == nullptr || !read(context, args, &t, &c)) {
    return Error::NotSupported;
  }
  // Windows that reach over the ends of the image, and taps beside the filter, are multiplied, too.
  const Tensor input = args[kInput]->to_tensor(), out = args[kOut]->to_tensor();
  const bool is_line = input.dim() == 3;
  const int64_t pixels = input.size(-1) * (is_line ? 1 : input.size(2));
  const double windows = static_cast<double>(t.across(out.size(-1)) * t.down(is_line ? 1 : out.size(2)));
  const double factor = t.growth() * windows / static_cast<double>(std::max<int64_t>(pixels, 1));
  ET_RETURN_IF_ERROR(runtime::offer_work(state, work_of_integers(args), ops::kKernelCosts, factor));
  const StrideRow& f = t.filter;
  if (!c.has_one_scale) {
    ET_TRY(c.weight_scales, repeated(context, c.weight_scales, f.out_channels, f.stride_w));
  }
  if (c.bias != nullptr) {
    ET_TRY(c.bias, repeated(context, c.bias, f.out_channels, f.stride_w));
  }
  ET_TRY(void* const rows, context.allocate(f.stride_h * sizeof(IntegerProduct), alignof(IntegerProduct)));
  t.rows = static_cast<IntegerProduct*>(rows);
  const void* const filter = args[kWeight]->to_tensor().const_data_ptr();
  for (StrideRow row = f; row.row < f.stride_h; ++row.row) {
    IntegerProduct* const p = new (&t.rows[row.row]) IntegerProduct(product_of(c, row, t.channels));
    ET_RETURN_IF_ERROR(add_pixel_beside(context, 0, p));
    ET_RETURN_IF_ERROR(pack_integer_product(context, {filter, false, false, &row}, p));
  }
  return keep_plan(context, args, t, state);
}

/// [images, height, width, channels] of an image, or a line, in its own order.
Window pixels_of(const Tensor& image) {
  Window w = portable::window_of(image);
  portable::move_dim(w, 1, image.dim() - 1);
  if (image.dim() == 3) {
    portable::split_dim(w, 1, image.size(2));
  }
  return w;
}

/// Such a window of what lies in memory, rows of `step` bytes.
Window rows_at(int8_t* data, IntArrayRef sizes, int64_t image, int64_t line) {
  const int64_t strides[] = {image, line, sizes[3], 1};
  return {reinterpret_cast<char*>(data), portable::Sizes(sizes), portable::Sizes({strides, 4}), ScalarType::Char};
}

Error run(KernelContext& context, Arguments args, void* state) {
  const auto& t = *static_cast<const TransposedConvolution*>(state);
  const StrideRow& f = t.filter;
  const Tensor input = args[kInput]->to_tensor(), out = args[kOut]->to_tensor();
  ET_RETURN_IF_ERROR(conv::check_channels(input, t.channels));
  const bool is_line = input.dim() == 3;
  const int64_t batch = input.size(0), in_h = is_line ? 1 : input.size(2), in_w = input.size(-1);
  const int64_t out_h = t.out_h(in_h), out_w = t.out_w(in_w), channels = static_cast<int64_t>(f.out_channels);
  ET_CHECK_OR_RETURN(out_h >= 0 && out_w >= 0, InvalidArgument,
                     "%s: kernel of %zu x %zu does not fit an input of %" PRId64 " x %" PRId64, kOp, f.kernel_h,
                     f.kernel_w, in_h, in_w);
  portable::Sizes sizes(input.sizes());
  sizes[1] = channels;
  sizes[2] = out_h;
  sizes[input.dim() - 1] = out_w;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const int8_t* in = input.const_data_ptr<int8_t>();
  if (!is_channels_last(*args[kInput]) && t.channels > 1 && input.numel() > 0) {
    ET_TRY(void* const copy, context.allocate_temp(input.nbytes()));
    const int64_t lines[] = {batch, in_h, in_w, static_cast<int64_t>(t.channels)};
    const int64_t line = in_w * static_cast<int64_t>(t.channels);
    in = static_cast<int8_t*>(copy);
    move::copy_elements(context, pixels_of(input), rows_at(static_cast<int8_t*>(copy), {lines, 4}, in_h * line, line));
  }
  const int64_t across = t.across(out_w), line = across * static_cast<int64_t>(f.stride_w) * channels;
  const auto stride = static_cast<int64_t>(f.stride_h);
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(batch * t.down(out_h) * line)));
  auto* const results = static_cast<int8_t*>(memory);
  for (int64_t row = 0; row < stride && !context.cancelled(); ++row) {
    // Rows of the product that stand in the output: from `first` on.
    const int64_t first = std::max<int64_t>(0, (t.pad_h - row + stride - 1) / stride);
    const int64_t count = (t.pad_h + out_h - 1 - row) / stride + 1 - first;
    if (t.pad_h + out_h - 1 < row || count <= 0) {
      continue;
    }
    IntegerProduct p = t.rows[row];
    p.in = in, p.out = results;
    p.in_h = in_h, p.in_w = in_w;
    p.out_h = first + count, p.out_w = across;
    ET_RETURN_IF_ERROR(multiply_windows(context, p, static_cast<size_t>(batch * p.out_h * across)));
    const int64_t lines[] = {batch, count, out_w, channels};
    Window to = pixels_of(out);
    to.advance(1, first * stride + row - t.pad_h);
    to.sizes[1] = count;
    to.strides[1] *= stride;
    move::copy_elements(context, rows_at(results + first * line + t.pad_w * channels, {lines, 4}, p.out_h * line, line),
                        to);
  }
  return Error::Ok;
}

constexpr Kernel kKernels[] = {
    make_stateful_kernel<&prepare, &run>(signature::quantized_convolution_out, kPriorityTransposed),
};

}  // namespace

ET_KERNEL_TABLE(transposed_convolution, kKernels)

}  // namespace et::kernels::optimized::quantized
