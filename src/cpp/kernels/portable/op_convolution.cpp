// Convolution and transposed convolution in one, two and three dimensions, with dense, sparse and integer weights.
#include "kernels/portable/op_convolution.h"

#include <algorithm>

#include "base/checked_math.h"
#include "kernels/portable/arithmetic.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/convolution_extents.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/fused_clamp.h"
#include "kernels/portable/shape.h"
#include "numerics/integer_filter.h"
#include "numerics/sparse_weight.h"

namespace et::kernels::portable {
namespace {

constexpr const char* kOp = "aten::convolution";
constexpr const char* kSparseOp = "et::sparse_convolution";
constexpr const char* kIntegerOp = "et::weight_only_convolution";

// Everything in three spatial dimensions: one- and two-dimensional convolutions have leading sizes of 1.
struct Problem : ConvolutionExtents {
  int64_t batch;
  int64_t in_channels;   // of the whole input
  int64_t out_channels;  // of the whole output
  int64_t groups;
  bool transposed;
  // Strides in elements: batch, channel, then the three spatial dimensions. Weight: [out or in channels, per group, …].
  int64_t in_strides[5];
  int64_t out_strides[5];
  int64_t weight_strides[5];
};

// Adds weight * input to a piece of an output row: outputs [first, first + count) of the row.
template <typename T, typename A>
void add_row_forward(const Problem& p, const T* input, const T* weight, int64_t first, int64_t count,
                     A* __restrict sums) {
  if (p.in[2] == 0) {
    return;  // nothing but padding, and maybe no memory
  }
  const int64_t step = p.stride[2] * p.in_strides[4];
  const auto weight_of = [&](int64_t k) { return static_cast<A>(weight[k * p.weight_strides[4]]); };
  const auto start_of = [&](int64_t k) { return first * p.stride[2] + k * p.dilation[2] - p.padding[2]; };
  const auto add = [&](int64_t k, int64_t begin, int64_t end) {
    if (begin >= end) {
      return;
    }
    const A w = weight_of(k);
    const T* const from = input + start_of(k) * p.in_strides[4];
    if (step == 1 && end - begin > 4) {
      for (int64_t i = begin; i < end; ++i) {
        sums[i] = wrapping_add(sums[i], wrapping_mul(w, static_cast<A>(from[i])));
      }
    } else {
      for (int64_t i = begin; i < end; ++i) {
        sums[i] = wrapping_add(sums[i], wrapping_mul(w, static_cast<A>(from[i * step])));
      }
    }
  };
  int64_t k = 0;
  for (; step == 1 && k + 3 <= p.kernel[2]; k += 3) {  // three taps for each time that the sums are read and written
    // Starts grow with the tap: the first begins last, the last ends first.
    const StepRange ranges[] = {steps_inside(start_of(k), 1, count, p.in[2]),
                                steps_inside(start_of(k + 1), 1, count, p.in[2]),
                                steps_inside(start_of(k + 2), 1, count, p.in[2])};
    const int64_t begin = ranges[0].first;
    const int64_t end = std::max(begin, ranges[2].last);
    for (int64_t j = 0; j < 3; ++j) {
      add(k + j, ranges[j].first, std::min(begin, ranges[j].last));
      add(k + j, std::max(end, ranges[j].first), ranges[j].last);
    }
    const A w0 = weight_of(k), w1 = weight_of(k + 1), w2 = weight_of(k + 2);
    const T* const from = input + start_of(k);
    const T* const from1 = from + p.dilation[2];
    const T* const from2 = from1 + p.dilation[2];
    for (int64_t i = begin; i < ranges[2].last; ++i) {
      const A sum = wrapping_add(sums[i], wrapping_mul(w0, static_cast<A>(from[i])));
      sums[i] = wrapping_add(wrapping_add(sum, wrapping_mul(w1, static_cast<A>(from1[i]))),
                             wrapping_mul(w2, static_cast<A>(from2[i])));
    }
  }
  for (; k < p.kernel[2]; ++k) {
    const StepRange range = steps_inside(start_of(k), p.stride[2], count, p.in[2]);
    add(k, range.first, range.last);
  }
}

// Transposed: input x adds to output x * stride - padding + k * dilation.
template <typename T, typename A>
void add_row_transposed(const Problem& p, const T* input, const T* weight, int64_t first, int64_t count, A* sums) {
  for (int64_t k = 0; k < p.kernel[2]; ++k) {
    const A w = static_cast<A>(weight[k * p.weight_strides[4]]);
    const int64_t shift = k * p.dilation[2] - p.padding[2] - first;
    const StepRange range = steps_inside(shift, p.stride[2], p.in[2], count);
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

/// filter_of(oc): the weights of an output channel, with the problem's strides. Called for channel 0, 1, … for each
/// image.
template <typename T, typename FilterOf>
Error convolve(KernelContext& context, const Problem& p, const T* input, const FilterOf& filter_of, const T* bias,
               T* out) {
  using A = Accumulator<T>;
  constexpr int64_t kBlock = 128;
  const int64_t in_per_group = p.in_channels / p.groups;
  const int64_t out_per_group = p.out_channels / p.groups;
  const int64_t planes = in_per_group > 0 ? p.kernel[0] : 0;  // nothing bounds the sizes of a filter without elements
  if (p.out_channels * p.out[0] * p.out[1] * p.out[2] == 0) {
    return Error::Ok;  // nor the number of images
  }
  for (int64_t n = 0; n < p.batch; ++n) {
    for (int64_t oc = 0; oc < p.out_channels; ++oc) {
      const int64_t group = oc / out_per_group;
      // Weight of (output channel, input channel): [oc, ic in group] or, transposed, [ic, oc in group].
      const int64_t weight_in_stride = p.weight_strides[p.transposed ? 0 : 1];
      const T* filter = filter_of(oc);
      const T* image = input + n * p.in_strides[0] + group * in_per_group * p.in_strides[1];
      T* target = out + n * p.out_strides[0] + oc * p.out_strides[1];
      const A start = bias != nullptr ? static_cast<A>(bias[oc]) : A(0);
      for (int64_t od = 0; od < p.out[0]; ++od) {
        for (int64_t oh = 0; oh < p.out[1]; ++oh) {
          for (int64_t first = 0; first < p.out[2]; first += kBlock) {
            ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", kOp);
            const int64_t count = p.out[2] - first < kBlock ? p.out[2] - first : kBlock;
            A sums[kBlock];
            for (int64_t i = 0; i < count; ++i) {
              sums[i] = start;
            }
            for (int64_t kd = 0; kd < planes; ++kd) {
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

Error check_channels(const char* op, const Tensor& input, IntArrayRef weight, const OptionalTensor& bias,
                     int64_t spatial, bool transposed, int64_t groups, Problem* p) {
  p->in_channels = input.size(input.dim() - spatial - 1);
  p->groups = groups;
  const bool fits = !mul_overflow(weight[1], groups, &p->out_channels);
  ET_CHECK_OR_RETURN(fits, InvalidArgument, "%s: %" PRId64 " groups of %" PRId64 " channels", op, groups, weight[1]);
  const int64_t weight_in = transposed ? weight[0] : p->out_channels;
  p->out_channels = transposed ? p->out_channels : weight[0];
  ET_CHECK_OR_RETURN(groups > 0 && p->in_channels % groups == 0 && p->out_channels % groups == 0, InvalidArgument,
                     "%s: %" PRId64 " groups do not divide %" PRId64 " input and %" PRId64 " output channels", op,
                     groups, p->in_channels, p->out_channels);
  ET_CHECK_OR_RETURN(weight_in == p->in_channels, InvalidArgument,
                     "%s: input %s has %" PRId64 " channels, weight %s with %" PRId64 " groups takes %" PRId64, op,
                     ShapeText(input.sizes()).text, p->in_channels, ShapeText(weight).text, groups, weight_in);
  if (bias.has_value()) {
    ET_RETURN_IF_ERROR(check_same_dtype(op, "bias", *bias, input));
    ET_CHECK_OR_RETURN(bias->dim() == 1 && bias->size(0) == p->out_channels, InvalidArgument,
                       "%s: bias %s for %" PRId64 " output channels", op, ShapeText(bias->sizes()).text,
                       p->out_channels);
  }
  return Error::Ok;
}

/// Checks the arguments, fills the problem but for the weight's strides, and resizes the output. `weight`: its sizes.
Error plan(KernelContext& context, const char* op, const Tensor& input, IntArrayRef weight, const OptionalTensor& bias,
           const ConvolutionNumbers& numbers, const Tensor& out, Problem* problem) {
  Problem& p = *problem;
  const int64_t spatial = static_cast<int64_t>(weight.size()) - 2;
  ET_CHECK_OR_RETURN(spatial >= 1 && spatial <= 3, InvalidArgument, "%s: weight %s has rank %zu; it must be 3 to 5", op,
                     ShapeText(weight).text, weight.size());
  ET_RETURN_IF_ERROR(check_rank(op, "input", input, spatial + 1, spatial + 2));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, input));
  p.transposed = numbers.is_transposed;
  p.batch = input.dim() == spatial + 2 ? input.size(0) : 1;
  ET_RETURN_IF_ERROR(check_channels(op, input, weight, bias, spatial, numbers.is_transposed, numbers.groups, &p));
  Sizes sizes(input.sizes());
  sizes[input.dim() - spatial - 1] = p.out_channels;
  ET_RETURN_IF_ERROR(plan_extents(op, input, weight, numbers, &p, sizes.data()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  spread_strides(input, spatial, p.in_strides);
  spread_strides(out, spatial, p.out_strides);
  return Error::Ok;
}

template <typename T>
const T* data_or_null(const OptionalTensor& tensor) {
  return tensor.has_value() ? static_cast<const T*>(tensor->const_data_ptr()) : nullptr;
}

}  // namespace

Error convolution_out(KernelContext& context, const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                      IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                      IntArrayRef output_padding, int64_t groups, Tensor& out) {
  ET_RETURN_IF_ERROR(check_rank(kOp, "weight", weight, 3, 5));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "weight", weight, input));
  Problem p;
  ET_RETURN_IF_ERROR(plan(context, kOp, input, IntArrayRef(weight.sizes().data(), weight.sizes().size()), bias,
                          {stride, padding, dilation, transposed, output_padding, groups}, out, &p));
  spread_strides(weight, weight.dim() - 2, p.weight_strides);
  return dispatch<RealTypes>(input.scalar_type(), kOp, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const data = static_cast<const T*>(weight.const_data_ptr());
    const int64_t in_per_group = p.in_channels / groups;
    const int64_t out_per_group = p.out_channels / groups;
    const auto filter_of = [&](int64_t oc) {
      return data + (transposed ? (oc % out_per_group) * p.weight_strides[1] +
                                      oc / out_per_group * in_per_group * p.weight_strides[0]
                                : oc * p.weight_strides[0]);
    };
    return convolve<T>(context, p, static_cast<const T*>(input.const_data_ptr()), filter_of, data_or_null<T>(bias),
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

Error sparse_convolution_out(KernelContext& context, const Tensor& input, const Tensor& values, const Tensor& mask,
                             const OptionalTensor& bias, IntArrayRef weight_size, IntArrayRef stride,
                             IntArrayRef padding, IntArrayRef dilation, int64_t groups,
                             const std::optional<Scalar>& min, const std::optional<Scalar>& max, Tensor& out) {
  ET_RETURN_IF_ERROR(check_same_dtype(kSparseOp, "values", values, input));
  SparseWeight weight;
  ET_RETURN_IF_ERROR(check_sparse_weight(kSparseOp, values, mask, weight_size, &weight));
  Problem p;
  ET_RETURN_IF_ERROR(plan(context, kSparseOp, input, weight_size, bias,
                          {stride, padding, dilation, false, IntArrayRef(), groups}, out, &p));
  const int64_t row_major[5] = {static_cast<int64_t>(weight.columns), p.kernel[0] * p.kernel[1] * p.kernel[2],
                                p.kernel[1] * p.kernel[2], p.kernel[2], 1};
  std::copy_n(row_major, 5, p.weight_strides);
  ET_RETURN_IF_ERROR(dispatch<FloatTypes>(input.scalar_type(), kSparseOp, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ET_TRY(void* const memory, context.allocate_temp(weight.columns * sizeof(T)));
    T* const filter = static_cast<T*>(memory);  // one output channel at a time
    const T* next = static_cast<const T*>(weight.values);
    const auto filter_of = [&](int64_t oc) {
      next = oc == 0 ? static_cast<const T*>(weight.values) : next;
      next = unpack_row(weight, static_cast<size_t>(oc), next, filter);
      return static_cast<const T*>(filter);
    };
    return convolve<T>(context, p, static_cast<const T*>(input.const_data_ptr()), filter_of, data_or_null<T>(bias),
                       static_cast<T*>(out.mutable_data_ptr()));
  }));
  return clamp_in_place(kSparseOp, min, max, out);
}

Error weight_only_convolution_out(KernelContext& context, const Tensor& input, const Tensor& weight,
                                  const Tensor& weight_scales, const OptionalTensor& weight_zero_points,
                                  const OptionalTensor& bias, IntArrayRef stride, IntArrayRef padding,
                                  IntArrayRef dilation, bool transposed, IntArrayRef output_padding, int64_t groups,
                                  const std::optional<Scalar>& min, const std::optional<Scalar>& max, Tensor& out) {
  ET_CHECK_OR_RETURN(input.scalar_type() == ScalarType::Float, InvalidType, "%s: input is %s, must be torch.float32",
                     kIntegerOp, to_string(input.scalar_type()));
  ET_RETURN_IF_ERROR(check_rank(kIntegerOp, "weight", weight, 3, 5));
  const int64_t channel_dim = input.dim() - weight.dim() + 1;
  ET_CHECK_OR_RETURN((channel_dim == 0 || channel_dim == 1) && out.dim() == input.dim(), InvalidArgument,
                     "%s: input %s, weight %s and out %s do not fit together", kIntegerOp,
                     ShapeText(input.sizes()).text, ShapeText(weight.sizes()).text, ShapeText(out.sizes()).text);
  IntegerFilter integers;
  ET_RETURN_IF_ERROR(check_integer_filter(kIntegerOp, weight, weight_scales,
                                          weight_zero_points.has_value() ? &*weight_zero_points : nullptr,
                                          {input.size(channel_dim), out.size(channel_dim)}, transposed, &integers));
  Problem p;
  ET_RETURN_IF_ERROR(plan(context, kIntegerOp, input, IntArrayRef(integers.sizes, integers.dim), bias,
                          {stride, padding, dilation, transposed, output_padding, groups}, out, &p));
  const int64_t taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  const int64_t row_major[5] = {taps, taps, p.kernel[1] * p.kernel[2], p.kernel[2], 1};
  std::copy_n(row_major, 5, p.weight_strides);
  const int64_t in_per_group = p.in_channels / groups, out_per_group = p.out_channels / groups;
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(in_per_group * taps) * sizeof(float)));
  auto* const filter = static_cast<float*>(memory);  // one output channel at a time
  const auto filter_of = [&](int64_t oc) {
    for (int64_t ic = 0; ic < in_per_group; ++ic) {
      const int64_t row = transposed ? oc / out_per_group * in_per_group + ic : oc;
      const int64_t column = transposed ? oc % out_per_group : ic;
      dequantize_taps(integers, static_cast<size_t>(row), static_cast<size_t>(column), filter + ic * taps);
    }
    return static_cast<const float*>(filter);
  };
  ET_RETURN_IF_ERROR(convolve<float>(context, p, input.const_data_ptr<float>(), filter_of, data_or_null<float>(bias),
                                     out.mutable_data_ptr<float>()));
  return clamp_in_place(kIntegerOp, min, max, out);
}

}  // namespace et::kernels::portable
