// quantized_decomposed::quantize_* and dequantize_*: q = clamp(round(x / scale) + zero_point), x = (q - zero_point) *
// scale. Every step is done in the type, and in the order, in which eager PyTorch does it, so that results are equal
// bit for bit.
#include "kernels/portable/op_quantize.h"

#include <algorithm>

#include "kernels/portable/at_once.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/elementwise.h"
#include "numerics/rounding.h"

namespace et::kernels::portable {
namespace {

/// Bounds of an integer type that quantization knows. Errors: InvalidType for another one.
Error integer_range(const char* op, ScalarType dtype, int64_t* low, int64_t* high) {
  switch (dtype) {
    case ScalarType::Byte: return *low = 0, *high = 255, Error::Ok;
    case ScalarType::Char: return *low = -128, *high = 127, Error::Ok;
    case ScalarType::UInt16: return *low = 0, *high = 65535, Error::Ok;
    case ScalarType::Short: return *low = -32768, *high = 32767, Error::Ok;
    case ScalarType::Int: return *low = INT32_MIN, *high = INT32_MAX, Error::Ok;
    default: break;
  }
  ET_LOG_ERROR(
      "%s: %s is no type to quantize to; there are torch.int8, torch.uint8, torch.int16, torch.uint16 and torch.int32",
      op, to_string(dtype));
  return Error::InvalidType;
}

Error check_range(const char* op, ScalarType dtype, int64_t quant_min, int64_t quant_max) {
  int64_t low = 0, high = 0;
  ET_RETURN_IF_ERROR(integer_range(op, dtype, &low, &high));
  ET_CHECK_OR_RETURN(quant_min >= low && quant_max <= high, InvalidArgument,
                     "%s: [%" PRId64 ", %" PRId64 "] is not within the range of %s", op, quant_min, quant_max,
                     to_string(dtype));
  return Error::Ok;
}

Error check_quantize(const char* op, const Tensor& input, int64_t quant_min, int64_t quant_max, ScalarType dtype,
                     const Tensor& out) {
  const ScalarType from = input.scalar_type();
  ET_CHECK_OR_RETURN(is_floating(from) && from != ScalarType::Double, InvalidType,
                     "%s: input is %s, must be torch.float32, torch.float16 or torch.bfloat16", op, to_string(from));
  ET_RETURN_IF_ERROR(check_range(op, dtype, quant_min, quant_max));
  ET_CHECK_OR_RETURN(out.scalar_type() == dtype, InvalidType, "%s: out is %s, must be %s", op,
                     to_string(out.scalar_type()), to_string(dtype));
  return Error::Ok;
}

Error check_dequantize(const char* op, const Tensor& input, ScalarType dtype, std::optional<ScalarType> out_dtype,
                       const Tensor& out) {
  ET_CHECK_OR_RETURN(input.scalar_type() == dtype, InvalidType, "%s: input is %s, must be %s", op,
                     to_string(input.scalar_type()), to_string(dtype));
  int64_t low = 0, high = 0;
  ET_RETURN_IF_ERROR(integer_range(op, dtype, &low, &high));
  const ScalarType wanted = out_dtype.value_or(ScalarType::Float);
  ET_CHECK_OR_RETURN(is_floating(wanted) && out.scalar_type() == wanted, InvalidType, "%s: out is %s, must be %s", op,
                     to_string(out.scalar_type()), is_floating(wanted) ? to_string(wanted) : "floating");
  return Error::Ok;
}

/// The only element of a tensor.
Error read_one(const char* op, const char* name, const Tensor& tensor, double* value) {
  ET_CHECK_OR_RETURN(tensor.numel() == 1, InvalidArgument, "%s: %s has %" PRId64 " elements, must have one", op, name,
                     tensor.numel());
  *value = load_one<double>(tensor.scalar_type(), tensor.const_data_ptr());
  return Error::Ok;
}

template <typename T>
inline T clamped(T value, T low, T high) {
  value = value < low ? low : value;  // NaN stays
  return value > high ? high : value;
}

// --------------------------------------------------------------------------------------------- one scale for the
// tensor

Error quantize(KernelContext& context, const char* op, const Tensor& input, double scale, double zero_point,
               int64_t quant_min, int64_t quant_max, ScalarType dtype, Tensor& out) {
  ET_RETURN_IF_ERROR(check_quantize(op, input, quant_min, quant_max, dtype, out));
  ET_CHECK_OR_RETURN(scale != 0, InvalidArgument, "%s: the scale is zero", op);
  const auto inverse = static_cast<float>(1.0 / scale);
  const auto shift = static_cast<float>(zero_point);
  const auto low = static_cast<float>(quant_min);
  const auto high = static_cast<float>(quant_max);
  return elementwise<float>(
      context, op, ScalarType::Float, out,
      [=](float value) { return clamped(round_to_even(value * inverse) + shift, low, high); }, input);
}

Error dequantize(KernelContext& context, const char* op, const Tensor& input, double scale, double zero_point,
                 ScalarType dtype, std::optional<ScalarType> out_dtype, Tensor& out) {
  ET_RETURN_IF_ERROR(check_dequantize(op, input, dtype, out_dtype, out));
  return dispatch<FloatTypes>(out.scalar_type(), op, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Accumulator<T>;
    const auto factor = static_cast<C>(scale);
    const auto shift = static_cast<C>(zero_point);
    const auto rounded = [](C value) { return static_cast<C>(static_cast<T>(value)); };  // 16-bit floats: each step
    return elementwise<C>(
        context, op, dtype_of<C>, out, [=](C value) { return rounded(rounded(rounded(value) - shift) * factor); },
        input);
  });
}

// ------------------------------------------------------------------------------------------------------ several scales

/// How elements and parameters belong together: the input seen as [outer, count, inner], parameter i for [:, i, :].
struct Groups {
  int64_t count;
  int64_t inner;
};

Error check_parameters(const char* op, const Tensor& scales, const OptionalTensor& zero_points, int64_t count) {
  ET_CHECK_OR_RETURN(is_floating(scales.scalar_type()), InvalidType, "%s: scales are %s, must be floating", op,
                     to_string(scales.scalar_type()));
  ET_CHECK_OR_RETURN(scales.numel() == count, InvalidArgument,
                     "%s: %" PRId64 " scales, must be %" PRId64 ", one for each group", op, scales.numel(), count);
  ET_RETURN_IF_ERROR(check_row_major(op, {&scales}));
  if (zero_points.has_value()) {
    const ScalarType type = zero_points->scalar_type();
    ET_CHECK_OR_RETURN(
        type == ScalarType::Int || type == ScalarType::Long || type == ScalarType::Float || type == ScalarType::Double,
        InvalidType, "%s: zero_points are %s, must be torch.int32, torch.int64, torch.float32 or torch.float64", op,
        to_string(type));
    ET_CHECK_OR_RETURN(zero_points->numel() == count, InvalidArgument,
                       "%s: %" PRId64 " zero points, must be %" PRId64 ", one for each group", op, zero_points->numel(),
                       count);
    ET_RETURN_IF_ERROR(check_row_major(op, {&*zero_points}));
  }
  return Error::Ok;
}

/// [:axis] [axis] [axis + 1:]
Error groups_of_channels(const char* op, const Tensor& input, int64_t axis, Groups* groups) {
  ET_RETURN_IF_ERROR(check_rank(op, "input", input, 1, static_cast<int64_t>(kMaxRank)));
  ET_RETURN_IF_ERROR(normalize_dim(op, axis, input.dim(), &axis));
  const auto position = static_cast<size_t>(axis);
  *groups = {input.size(axis), product(input.sizes(), position + 1, input.sizes().size())};
  return Error::Ok;
}

/// Rows. Scales have the sizes of the input, but 1 for the last: eager broadcasts them.
Error groups_of_tokens(const char* op, const Tensor& input, const Tensor& scales, const Tensor& zero_points,
                       Groups* groups) {
  ET_RETURN_IF_ERROR(check_rank(op, "input", input, 1, static_cast<int64_t>(kMaxRank)));
  const int64_t inner = input.size(-1);
  *groups = {product(input.sizes(), 0, input.sizes().size() - 1), inner};
  for (const Tensor* parameters : {&scales, &zero_points}) {
    bool fits = parameters->dim() == input.dim() && parameters->size(-1) == 1;
    for (int64_t d = 0; fits && d + 1 < input.dim(); ++d) {
      fits = parameters->size(d) == input.size(d);
    }
    ET_CHECK_OR_RETURN(fits || inner == 0, InvalidArgument, "%s: parameters %s for the rows of %s", op,
                       ShapeText(parameters->sizes()).text, ShapeText(input.sizes()).text);
  }
  return Error::Ok;
}

Error groups_of_size(const char* op, const Tensor& input, const Tensor& scales, int64_t group_size, Groups* groups) {
  ET_RETURN_IF_ERROR(check_rank(op, "input", input, 2, 2));
  ET_CHECK_OR_RETURN(group_size > 1, InvalidArgument, "%s: group_size is %" PRId64 ", must be more than 1", op,
                     group_size);
  if (group_size > input.size(1) && scales.dim() > 0 && scales.size(-1) == 1) {
    group_size = input.size(1);
  }
  ET_CHECK_OR_RETURN(group_size > 0 && input.size(1) % group_size == 0, InvalidArgument,
                     "%s: rows of %" PRId64 " elements are not made of groups of %" PRId64, op, input.size(1),
                     group_size);
  *groups = {input.numel() / group_size, group_size};
  return Error::Ok;
}

/// Calls fn(value, group) for each element in row-major order, values as In, results as C.
template <typename In, typename C, typename Fn>
void for_each_element(const Tensor& input, const Tensor& out, const Groups& groups, const Fn& fn) {
  constexpr int64_t kChunk = kElementsAtOnce;
  In values[kChunk];
  C results[kChunk];
  const auto* from = static_cast<const char*>(input.const_data_ptr());
  auto* to = static_cast<char*>(out.mutable_data_ptr());
  int64_t group = 0, within = 0;
  for (int64_t start = 0; start < input.numel(); start += kChunk) {
    const int64_t n = std::min(kChunk, input.numel() - start);
    load<In>(input.scalar_type(), from + start * static_cast<int64_t>(input.element_size()), 1, n, values);
    for (int64_t i = 0; i < n; ++i) {
      results[i] = fn(values[i], group);
      if (++within == groups.inner) {
        within = 0;
        group = group + 1 == groups.count ? 0 : group + 1;
      }
    }
    store<C>(out.scalar_type(), results, n, to + start * static_cast<int64_t>(out.element_size()), 1);
  }
}

double parameter_at(const Tensor& tensor, int64_t i) {
  return load_one<double>(tensor.scalar_type(), tensor.const_data_ptr(), i);
}

/// Temporary memory for `count` numbers.
template <typename C>
Result<C*> numbers(KernelContext& context, int64_t count) {
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(count) * sizeof(C) + 1));
  return static_cast<C*>(memory);
}

/// `adds_first`: the zero point is added before rounding, as operators for tokens and groups do it.
Error quantize_groups(KernelContext& context, const char* op, const Tensor& input, const Tensor& scales,
                      const Tensor& zero_points, const Groups& groups, bool adds_first, int64_t quant_min,
                      int64_t quant_max, ScalarType dtype, Tensor& out) {
  ET_RETURN_IF_ERROR(check_quantize(op, input, quant_min, quant_max, dtype, out));
  ET_RETURN_IF_ERROR(check_parameters(op, scales, zero_points, groups.count));
  ET_RETURN_IF_ERROR(check_row_major(op, {&input, &out}));
  for (int64_t i = 0; i < groups.count; ++i) {
    ET_CHECK_OR_RETURN(parameter_at(scales, i) != 0, InvalidArgument, "%s: scale %" PRId64 " is zero", op, i);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, input.sizes()));
  // Channels convert the input to float first; tokens and groups compute in what input and scales promote to.
  const ScalarType scale_type = scales.scalar_type();
  const ScalarType common = promote_types(adds_first ? input.scalar_type() : ScalarType::Float, scale_type);
  return dispatch<FloatTypes>(scale_type, op, [&](auto scale_tag) {
    using S = typename decltype(scale_tag)::type;
    return dispatch<FloatTypes>(common, op, [&](auto tag) {
      using T = typename decltype(tag)::type;
      using C = Accumulator<T>;
      ET_TRY(C* const inverses, numbers<C>(context, groups.count));
      ET_TRY(C* const shifts, numbers<C>(context, groups.count));
      for (int64_t i = 0; i < groups.count; ++i) {
        const auto scale = static_cast<Accumulator<S>>(parameter_at(scales, i));
        inverses[i] = static_cast<C>(static_cast<Accumulator<S>>(static_cast<S>(1 / scale)));
        shifts[i] = static_cast<C>(parameter_at(zero_points, i));
      }
      const auto low = static_cast<C>(quant_min);
      const auto high = static_cast<C>(quant_max);
      const auto rounded = [](C value) { return static_cast<C>(static_cast<T>(value)); };
      for_each_element<C, C>(input, out, groups, [&](C value, int64_t i) {
        const C product = rounded(value * inverses[i]);
        const C whole =
            adds_first ? round_to_even(rounded(product + shifts[i])) : rounded(round_to_even(product) + shifts[i]);
        return clamped(whole, low, high);
      });
      return Error::Ok;
    });
  });
}

Error dequantize_groups(KernelContext& context, const char* op, const Tensor& input, const Tensor& scales,
                        const OptionalTensor& zero_points, const Groups& groups, int64_t quant_min, int64_t quant_max,
                        ScalarType dtype, std::optional<ScalarType> out_dtype, Tensor& out) {
  ET_RETURN_IF_ERROR(check_dequantize(op, input, dtype, out_dtype, out));
  ET_RETURN_IF_ERROR(check_range(op, dtype, quant_min, quant_max));
  ET_RETURN_IF_ERROR(check_parameters(op, scales, zero_points, groups.count));
  ET_RETURN_IF_ERROR(check_row_major(op, {&input, &out}));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, input.sizes()));
  return dispatch<FloatTypes>(scales.scalar_type(), op, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Accumulator<T>;
    ET_TRY(C* const factors, numbers<C>(context, groups.count));
    ET_TRY(double* const shifts, numbers<double>(context, groups.count));
    for (int64_t i = 0; i < groups.count; ++i) {
      factors[i] = static_cast<C>(parameter_at(scales, i));
      shifts[i] = zero_points.has_value() ? parameter_at(*zero_points, i) : 0;
    }
    const auto rounded = [](C value) { return static_cast<C>(static_cast<T>(value)); };
    for_each_element<double, C>(input, out, groups, [&](double value, int64_t i) {
      return rounded(rounded(static_cast<C>(value - shifts[i])) * factors[i]);
    });
    return Error::Ok;
  });
}

}  // namespace

Error quantize_per_tensor_out(KernelContext& context, const Tensor& input, double scale, int64_t zero_point,
                              int64_t quant_min, int64_t quant_max, ScalarType dtype, Tensor& out) {
  return quantize(context, "quantized_decomposed::quantize_per_tensor", input, scale, static_cast<double>(zero_point),
                  quant_min, quant_max, dtype, out);
}

Error quantize_per_tensor_tensor_out(KernelContext& context, const Tensor& input, const Tensor& scale,
                                     const Tensor& zero_point, int64_t quant_min, int64_t quant_max, ScalarType dtype,
                                     Tensor& out) {
  constexpr const char* kOp = "quantized_decomposed::quantize_per_tensor.tensor";
  double factor = 0, shift = 0;
  ET_RETURN_IF_ERROR(read_one(kOp, "scale", scale, &factor));
  ET_RETURN_IF_ERROR(read_one(kOp, "zero_point", zero_point, &shift));
  return quantize(context, kOp, input, factor, shift, quant_min, quant_max, dtype, out);
}

Error quantize_per_tensor_tensor2_out(KernelContext& context, const Tensor& input, const Tensor& scale,
                                      const Tensor& zero_point, const Tensor& quant_min, const Tensor& quant_max,
                                      ScalarType dtype, Tensor& out) {
  constexpr const char* kOp = "quantized_decomposed::quantize_per_tensor.tensor2";
  double factor = 0, shift = 0, low = 0, high = 0;
  ET_RETURN_IF_ERROR(read_one(kOp, "scale", scale, &factor));
  ET_RETURN_IF_ERROR(read_one(kOp, "zero_point", zero_point, &shift));
  ET_RETURN_IF_ERROR(read_one(kOp, "quant_min", quant_min, &low));
  ET_RETURN_IF_ERROR(read_one(kOp, "quant_max", quant_max, &high));
  return quantize(context, kOp, input, factor, shift, convert<int64_t>(low), convert<int64_t>(high), dtype, out);
}

Error dequantize_per_tensor_out(KernelContext& context, const Tensor& input, double scale, int64_t zero_point, int64_t,
                                int64_t, ScalarType dtype, std::optional<ScalarType> out_dtype, Tensor& out) {
  return dequantize(context, "quantized_decomposed::dequantize_per_tensor", input, scale,
                    static_cast<double>(zero_point), dtype, out_dtype, out);
}

Error dequantize_per_tensor_tensor_out(KernelContext& context, const Tensor& input, const Tensor& scale,
                                       const Tensor& zero_point, int64_t, int64_t, ScalarType dtype,
                                       std::optional<ScalarType> out_dtype, Tensor& out) {
  constexpr const char* kOp = "quantized_decomposed::dequantize_per_tensor.tensor";
  double factor = 0, shift = 0;
  ET_RETURN_IF_ERROR(read_one(kOp, "scale", scale, &factor));
  ET_RETURN_IF_ERROR(read_one(kOp, "zero_point", zero_point, &shift));
  return dequantize(context, kOp, input, factor, shift, dtype, out_dtype, out);
}

Error dequantize_per_tensor_tensor2_out(KernelContext& context, const Tensor& input, const Tensor& scale,
                                        const Tensor& zero_point, const Tensor&, const Tensor&, ScalarType dtype,
                                        std::optional<ScalarType> out_dtype, Tensor& out) {
  return dequantize_per_tensor_tensor_out(context, input, scale, zero_point, 0, 0, dtype, out_dtype, out);
}

Error quantize_per_channel_out(KernelContext& context, const Tensor& input, const Tensor& scales,
                               const Tensor& zero_points, int64_t axis, int64_t quant_min, int64_t quant_max,
                               ScalarType dtype, Tensor& out) {
  constexpr const char* kOp = "quantized_decomposed::quantize_per_channel";
  Groups groups;
  ET_RETURN_IF_ERROR(groups_of_channels(kOp, input, axis, &groups));
  return quantize_groups(context, kOp, input, scales, zero_points, groups, false, quant_min, quant_max, dtype, out);
}

Error dequantize_per_channel_out(KernelContext& context, const Tensor& input, const Tensor& scales,
                                 const OptionalTensor& zero_points, int64_t axis, int64_t quant_min, int64_t quant_max,
                                 ScalarType dtype, std::optional<ScalarType> out_dtype, Tensor& out) {
  constexpr const char* kOp = "quantized_decomposed::dequantize_per_channel";
  Groups groups;
  ET_RETURN_IF_ERROR(groups_of_channels(kOp, input, axis, &groups));
  return dequantize_groups(context, kOp, input, scales, zero_points, groups, quant_min, quant_max, dtype, out_dtype,
                           out);
}

Error quantize_per_channel_group_out(KernelContext& context, const Tensor& input, const Tensor& scales,
                                     const Tensor& zero_points, int64_t quant_min, int64_t quant_max, ScalarType dtype,
                                     int64_t group_size, Tensor& out) {
  constexpr const char* kOp = "quantized_decomposed::quantize_per_channel_group";
  Groups groups;
  ET_RETURN_IF_ERROR(groups_of_size(kOp, input, scales, group_size, &groups));
  return quantize_groups(context, kOp, input, scales, zero_points, groups, true, quant_min, quant_max, dtype, out);
}

Error dequantize_per_channel_group_out(KernelContext& context, const Tensor& w_int8, const Tensor& scales,
                                       const OptionalTensor& zero_points, int64_t quant_min, int64_t quant_max,
                                       ScalarType dtype, int64_t group_size, ScalarType output_dtype, Tensor& out) {
  constexpr const char* kOp = "quantized_decomposed::dequantize_per_channel_group";
  Groups groups;
  ET_RETURN_IF_ERROR(groups_of_size(kOp, w_int8, scales, group_size, &groups));
  return dequantize_groups(context, kOp, w_int8, scales, zero_points, groups, quant_min, quant_max, dtype, output_dtype,
                           out);
}

Error quantize_per_token_out(KernelContext& context, const Tensor& input, const Tensor& scales,
                             const Tensor& zero_points, int64_t quant_min, int64_t quant_max, ScalarType dtype,
                             Tensor& out) {
  constexpr const char* kOp = "quantized_decomposed::quantize_per_token";
  Groups groups;
  ET_RETURN_IF_ERROR(groups_of_tokens(kOp, input, scales, zero_points, &groups));
  return quantize_groups(context, kOp, input, scales, zero_points, groups, true, quant_min, quant_max, dtype, out);
}

Error dequantize_per_token_out(KernelContext& context, const Tensor& input, const Tensor& scales,
                               const Tensor& zero_points, int64_t quant_min, int64_t quant_max, ScalarType dtype,
                               ScalarType output_dtype, Tensor& out) {
  constexpr const char* kOp = "quantized_decomposed::dequantize_per_token";
  Groups groups;
  ET_RETURN_IF_ERROR(groups_of_tokens(kOp, input, scales, zero_points, &groups));
  return dequantize_groups(context, kOp, input, scales, zero_points, groups, quant_min, quant_max, dtype, output_dtype,
                           out);
}

}  // namespace et::kernels::portable
