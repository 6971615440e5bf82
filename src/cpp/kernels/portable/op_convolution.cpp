// Convolution and transposed convolution in one, two and three dimensions.
#include "kernels/portable/op_convolution.h"

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/fused_clamp.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {
namespace {

constexpr const char* kOp = "aten::convolution";

// Everything in three spatial dimensions: one- and two-dimensional convolutions have leading sizes of 1.
struct Problem {
  int64_t batch;
  int64_t in_channels;   // of the whole input
  int64_t out_channels;  // of the whole output
  int64_t groups;
  int64_t in[3];
  int64_t out[3];
  int64_t kernel[3];
  int64_t stride[3];
  int64_t padding[3];
  int64_t dilation[3];
  bool transposed;
  // Strides in elements: batch, channel, then the three spatial dimensions. Weight: [out or in channels, per group, …].
  int64_t in_strides[5];
  int64_t out_strides[5];
  int64_t weight_strides[5];
};

// Strides of an [N, C, spatial…] tensor (or [C, spatial…] without batch) as five.
void spread_strides(const Tensor& tensor, int64_t spatial, int64_t* strides) {
  const int64_t lead = tensor.dim() - spatial;
  strides[0] = lead == 2 ? tensor.stride(0) : 0;
  strides[1] = tensor.stride(lead - 1);
  for (int64_t d = 0; d < 3; ++d) {
    const int64_t source = d - (3 - spatial);
    strides[2 + d] = source >= 0 ? tensor.stride(lead + source) : 0;
  }
}

// The steps i in [0, count) for which position `start + i * step` lies in [0, size) and, for transposed convolutions, is a
// multiple of `divisor`, are walked by the callers below; this gives the range without the divisor.
struct Range {
  int64_t first;
  int64_t last;  // exclusive
};

Range inside(int64_t start, int64_t step, int64_t count, int64_t size) {
  const int64_t first = start >= 0 ? 0 : (-start + step - 1) / step;
  const int64_t last = start >= size ? 0 : (size - 1 - start) / step + 1;
  return {first, last < count ? last : count};
}

// Adds weight * input to a piece of an output row: outputs [first, first + count) of the row.
template <typename T, typename A>
void add_row_forward(const Problem& p, const T* input, const T* weight, int64_t first, int64_t count, A* sums) {
  for (int64_t k = 0; k < p.kernel[2]; ++k) {
    const A w = static_cast<A>(weight[k * p.weight_strides[4]]);
    const int64_t start = first * p.stride[2] + k * p.dilation[2] - p.padding[2];
    const Range range = inside(start, p.stride[2], count, p.in[2]);
    const int64_t step = p.stride[2] * p.in_strides[4];
    const T* from = input + start * p.in_strides[4];
    if (step == 1) {
      for (int64_t i = range.first; i < range.last; ++i) {
        sums[i] = wrapping_add(sums[i], wrapping_mul(w, static_cast<A>(from[i])));
      }
    } else {
      for (int64_t i = range.first; i < range.last; ++i) {
        sums[i] = wrapping_add(sums[i], wrapping_mul(w, static_cast<A>(from[i * step])));
      }
    }
  }
}

// Transposed: input x adds to output x * stride - padding + k * dilation.
template <typename T, typename A>
void add_row_transposed(const Problem& p, const T* input, const T* weight, int64_t first, int64_t count, A* sums) {
  for (int64_t k = 0; k < p.kernel[2]; ++k) {
    const A w = static_cast<A>(weight[k * p.weight_strides[4]]);
    const int64_t shift = k * p.dilation[2] - p.padding[2] - first;
    const Range range = inside(shift, p.stride[2], p.in[2], count);
    for (int64_t x = range.first; x < range.last; ++x) {
      A& sum = sums[x * p.stride[2] + shift];
      sum = wrapping_add(sum, wrapping_mul(w, static_cast<A>(input[x * p.in_strides[4]])));
    }
  }
}

// Input position that kernel tap `k` reads for output position `o` along dimension d; -1 when there is none.
int64_t input_position(const Problem& p, int d, int64_t o, int64_t k) {
  if (!p.transposed) {
    const int64_t position = o * p.stride[d] + k * p.dilation[d] - p.padding[d];
    return position >= 0 && position < p.in[d] ? position : -1;
  }
  const int64_t scaled = o + p.padding[d] - k * p.dilation[d];
  const int64_t position = scaled / p.stride[d];
  return scaled >= 0 && scaled % p.stride[d] == 0 && position < p.in[d] ? position : -1;
}

template <typename T>
Error convolve(KernelContext& context, const Problem& p, const T* input, const T* weight, const T* bias, T* out) {
  using A = Accumulator<T>;
  constexpr int64_t kBlock = 128;
  const int64_t in_per_group = p.in_channels / p.groups;
  const int64_t out_per_group = p.out_channels / p.groups;
  for (int64_t n = 0; n < p.batch; ++n) {
    for (int64_t oc = 0; oc < p.out_channels; ++oc) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", kOp);
      const int64_t group = oc / out_per_group;
      // Weight of (output channel, input channel): [oc, ic in group] or, transposed, [ic, oc in group].
      const int64_t weight_in_stride = p.weight_strides[p.transposed ? 0 : 1];
      const T* filter = weight + (p.transposed ? (oc % out_per_group) * p.weight_strides[1] +
                                                     group * in_per_group * p.weight_strides[0]
                                               : oc * p.weight_strides[0]);
      const T* image = input + n * p.in_strides[0] + group * in_per_group * p.in_strides[1];
      T* target = out + n * p.out_strides[0] + oc * p.out_strides[1];
      const A start = bias != nullptr ? static_cast<A>(bias[oc]) : A(0);
      for (int64_t od = 0; od < p.out[0]; ++od) {
        for (int64_t oh = 0; oh < p.out[1]; ++oh) {
          for (int64_t first = 0; first < p.out[2]; first += kBlock) {
            const int64_t count = p.out[2] - first < kBlock ? p.out[2] - first : kBlock;
            A sums[kBlock];
            for (int64_t i = 0; i < count; ++i) {
              sums[i] = start;
            }
            for (int64_t kd = 0; kd < p.kernel[0]; ++kd) {
              const int64_t id = input_position(p, 0, od, kd);
              for (int64_t kh = 0; id >= 0 && kh < p.kernel[1]; ++kh) {
                const int64_t ih = input_position(p, 1, oh, kh);
                for (int64_t ic = 0; ih >= 0 && ic < in_per_group; ++ic) {
                  const T* row = image + ic * p.in_strides[1] + id * p.in_strides[2] + ih * p.in_strides[3];
                  const T* taps = filter + ic * weight_in_stride + kd * p.weight_strides[2] + kh * p.weight_strides[3];
                  if (p.transposed) {
                    add_row_transposed(p, row, taps, first, count, sums);
                  } else {
                    add_row_forward(p, row, taps, first, count, sums);
                  }
                }
              }
            }
            T* to = target + od * p.out_strides[2] + oh * p.out_strides[3] + first * p.out_strides[4];
            for (int64_t i = 0; i < count; ++i) {
              to[i * p.out_strides[4]] = convert<T>(sums[i]);
            }
          }
        }
      }
    }
  }
  return Error::Ok;
}

Error check_channels(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, int64_t spatial,
                     bool transposed, int64_t groups, Problem* p) {
  p->in_channels = input.size(input.dim() - spatial - 1);
  p->out_channels = transposed ? weight.size(1) * groups : weight.size(0);
  p->groups = groups;
  ET_CHECK_OR_RETURN(groups > 0 && p->in_channels % groups == 0 && p->out_channels % groups == 0, InvalidArgument,
                     "%s: %" PRId64 " groups do not divide %" PRId64 " input and %" PRId64 " output channels", kOp,
                     groups, p->in_channels, p->out_channels);
  const int64_t weight_in = transposed ? weight.size(0) : weight.size(1) * groups;
  ET_CHECK_OR_RETURN(weight_in == p->in_channels, InvalidArgument,
                     "%s: input %s has %" PRId64 " channels, weight %s with %" PRId64 " groups takes %" PRId64, kOp,
                     ShapeText(input.sizes()).text, p->in_channels, ShapeText(weight.sizes()).text, groups, weight_in);
  if (bias.has_value()) {
    ET_RETURN_IF_ERROR(check_same_dtype(kOp, "bias", *bias, input));
    ET_CHECK_OR_RETURN(bias->dim() == 1 && bias->size(0) == p->out_channels, InvalidArgument,
                       "%s: bias %s for %" PRId64 " output channels", kOp, ShapeText(bias->sizes()).text,
                       p->out_channels);
  }
  return Error::Ok;
}

}  // namespace

Error convolution_out(KernelContext& context, const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                      IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                      IntArrayRef output_padding, int64_t groups, Tensor& out) {
  ET_RETURN_IF_ERROR(check_rank(kOp, "weight", weight, 3, 5));
  const int64_t spatial = weight.dim() - 2;
  ET_RETURN_IF_ERROR(check_rank(kOp, "input", input, spatial + 1, spatial + 2));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "weight", weight, input));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, input));
  for (const IntArrayRef list : {stride, padding, dilation, output_padding}) {
    ET_CHECK_OR_RETURN(list.size() <= 1 || static_cast<int64_t>(list.size()) == spatial, InvalidArgument,
                       "%s: %s has not one number for each of %" PRId64 " spatial dimensions", kOp,
                       ShapeText(list).text, spatial);
  }
  Problem p;
  p.transposed = transposed;
  p.batch = input.dim() == spatial + 2 ? input.size(0) : 1;
  ET_RETURN_IF_ERROR(check_channels(input, weight, bias, spatial, transposed, groups, &p));
  Sizes sizes(input.sizes());
  sizes[input.dim() - spatial - 1] = p.out_channels;
  for (int64_t d = 0; d < 3; ++d) {
    const int64_t i = d - (3 - spatial);
    const auto item = static_cast<size_t>(i);
    const bool real = i >= 0;
    p.in[d] = real ? input.size(input.dim() - spatial + i) : 1;
    p.kernel[d] = real ? weight.size(2 + i) : 1;
    p.stride[d] = real ? list_item(stride, item, 1) : 1;
    p.padding[d] = real ? list_item(padding, item, 0) : 0;
    p.dilation[d] = real ? list_item(dilation, item, 1) : 1;
    const int64_t extra = real ? list_item(output_padding, item, 0) : 0;
    ET_CHECK_OR_RETURN(p.stride[d] > 0 && p.dilation[d] > 0 && p.padding[d] >= 0 && extra >= 0, InvalidArgument,
                       "%s: stride %" PRId64 ", padding %" PRId64 ", dilation %" PRId64, kOp, p.stride[d], p.padding[d],
                       p.dilation[d]);
    const int64_t reach = p.dilation[d] * (p.kernel[d] - 1);
    p.out[d] = transposed ? (p.in[d] - 1) * p.stride[d] - 2 * p.padding[d] + reach + extra + 1
                          : (p.in[d] + 2 * p.padding[d] - reach - 1) / p.stride[d] + 1;
    const bool fits = transposed ? p.out[d] >= 0 : p.in[d] + 2 * p.padding[d] > reach;
    ET_CHECK_OR_RETURN(fits, InvalidArgument, "%s: kernel %s does not fit input %s", kOp,
                       ShapeText(weight.sizes()).text, ShapeText(input.sizes()).text);
    if (real) {
      sizes[input.dim() - spatial + i] = p.out[d];
    }
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  spread_strides(input, spatial, p.in_strides);
  spread_strides(out, spatial, p.out_strides);
  spread_strides(weight, spatial, p.weight_strides);
  return dispatch<RealTypes>(input.scalar_type(), kOp, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return convolve<T>(context, p, static_cast<const T*>(input.const_data_ptr()),
                       static_cast<const T*>(weight.const_data_ptr()),
                       bias.has_value() ? static_cast<const T*>(bias->const_data_ptr()) : nullptr,
                       static_cast<T*>(out.mutable_data_ptr()));
  });
}

Error convolution_clamp_out(KernelContext& context, const Tensor& input, const Tensor& weight,
                            const OptionalTensor& bias, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                            bool transposed, IntArrayRef output_padding, int64_t groups,
                            const std::optional<Scalar>& min, const std::optional<Scalar>& max, Tensor& out) {
  ET_RETURN_IF_ERROR(convolution_out(context, input, weight, bias, stride, padding, dilation, transposed,
                                     output_padding, groups, out));
  return clamp_in_place("et::convolution_clamp", min, max, out);
}

}  // namespace et::kernels::portable
