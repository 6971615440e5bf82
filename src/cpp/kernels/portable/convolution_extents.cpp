#include "kernels/portable/convolution_extents.h"

namespace et::kernels::portable {

Error check_window(const char* op, int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  const auto is_between = [](int64_t value, int64_t least) { return value >= least && value <= INT32_MAX; };
  ET_CHECK_OR_RETURN(is_between(size, 0) && is_between(kernel, 1) && is_between(stride, 1) && is_between(padding, 0) &&
                         is_between(dilation, 1),
                     InvalidArgument,
                     "%s: size %" PRId64 ", kernel %" PRId64 ", stride %" PRId64 ", padding %" PRId64
                     ", dilation %" PRId64 ": only size and padding may be 0, and each must fit 31 bits",
                     op, size, kernel, stride, padding, dilation);
  return Error::Ok;
}

Error plan_extents(const char* op, const Tensor& input, IntArrayRef weight, const ConvolutionNumbers& numbers,
                   ConvolutionExtents* extents, int64_t* sizes) {
  ConvolutionExtents& e = *extents;
  const int64_t spatial = static_cast<int64_t>(weight.size()) - 2;
  const int64_t lead = input.dim() - spatial;
  for (const IntArrayRef list : {numbers.stride, numbers.padding, numbers.dilation, numbers.output_padding}) {
    ET_CHECK_OR_RETURN(list.size() <= 1 || static_cast<int64_t>(list.size()) == spatial, InvalidArgument,
                       "%s: %s has not one number for each of %" PRId64 " spatial dimensions", op, ShapeText(list).text,
                       spatial);
  }
  for (size_t d = 0; d < 3; ++d) {
    const int64_t i = static_cast<int64_t>(d) - (3 - spatial);
    if (i < 0) {
      e.in[d] = e.out[d] = e.kernel[d] = e.stride[d] = e.dilation[d] = 1;
      e.padding[d] = 0;
      continue;
    }
    const auto item = static_cast<size_t>(i);
    e.in[d] = input.size(lead + i);
    e.kernel[d] = weight[2 + item];
    e.stride[d] = list_item(numbers.stride, item, 1);
    e.padding[d] = list_item(numbers.padding, item, 0);
    e.dilation[d] = list_item(numbers.dilation, item, 1);
    ET_RETURN_IF_ERROR(check_window(op, e.in[d], e.kernel[d], e.stride[d], e.padding[d], e.dilation[d]));
    const int64_t extra = list_item(numbers.output_padding, item, 0);
    ET_CHECK_OR_RETURN(extra >= 0 && extra <= INT32_MAX, InvalidArgument, "%s: output padding %" PRId64, op, extra);
    const int64_t reach = e.dilation[d] * (e.kernel[d] - 1) + 1;
    const int64_t padded = e.in[d] + 2 * e.padding[d];
    if (numbers.is_transposed) {
      e.out[d] = (e.in[d] - 1) * e.stride[d] - 2 * e.padding[d] + reach + extra;
    } else if (padded >= reach && padded - reach <= UINT32_MAX) {  // few microcontrollers divide 64 bits
      e.out[d] = int64_t{static_cast<uint32_t>(padded - reach) / static_cast<uint32_t>(e.stride[d])} + 1;
    } else {
      e.out[d] = -1;
    }
    ET_CHECK_OR_RETURN(e.out[d] >= 0, InvalidArgument, "%s: kernel %s does not fit input %s", op,
                       ShapeText(weight).text, ShapeText(input.sizes()).text);
    sizes[lead + i] = e.out[d];
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
