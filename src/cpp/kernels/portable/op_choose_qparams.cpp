// quantized_decomposed::choose_qparams*: scale and zero point of a tensor, or of each of its rows, from the smallest
// and the largest value. Computed in the type of the input, in eager PyTorch's order.
#include "kernels/portable/op_choose_qparams.h"

#include <algorithm>

#include "kernels/portable/at_once.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/reduce.h"
#include "numerics/rounding.h"

namespace et::kernels::portable {
namespace {

using Inputs = DTypes<ScalarType::Half, ScalarType::BFloat16, ScalarType::Float>;

struct Range {
  float low = std::numeric_limits<float>::infinity();
  float high = -std::numeric_limits<float>::infinity();
  bool has_nan = false;

  void add(const float* values, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      has_nan = has_nan || std::isnan(values[i]);
      low = std::min(low, values[i]);
      high = std::max(high, values[i]);
    }
  }
};

/// Smallest and largest of all elements. Errors: InvalidArgument for none, or NaN among them.
Error range_of(KernelContext&, const char* op, const Tensor& input, Range* range) {
  ET_CHECK_OR_RETURN(input.numel() > 0, InvalidArgument, "%s: input has no elements", op);
  constexpr int64_t kChunk = kElementsAtOnce;
  float values[kChunk];
  const auto* data = static_cast<const char*>(input.const_data_ptr());  // dense, so the order does not matter
  for (int64_t start = 0; start < input.numel(); start += kChunk) {
    const int64_t n = std::min(kChunk, input.numel() - start);
    load<float>(input.scalar_type(), data + start * static_cast<int64_t>(input.element_size()), 1, n, values);
    range->add(values, n);
  }
  ET_CHECK_OR_RETURN(!range->has_nan, InvalidArgument, "%s: there is a NaN in the input", op);
  return Error::Ok;
}

/// Scalars [1] of the types that eager gives: f64 and i64.
Error write_one(KernelContext& context, double scale, int64_t zero_point, Tensor& scale_out, Tensor& zero_point_out) {
  const int64_t size = 1;
  ET_RETURN_IF_ERROR(resize_tensor(context, scale_out, {&size, 1}));
  ET_RETURN_IF_ERROR(resize_tensor(context, zero_point_out, {&size, 1}));
  store_one<double>(scale_out.scalar_type(), scale, scale_out.mutable_data_ptr());
  store_one<int64_t>(zero_point_out.scalar_type(), zero_point, zero_point_out.mutable_data_ptr());
  return Error::Ok;
}

Error check_outs(const char* op, const Tensor& scale, const Tensor& zero_point) {
  ET_CHECK_OR_RETURN(is_floating(scale.scalar_type()) && !is_complex(zero_point.scalar_type()), InvalidType,
                     "%s: scale is %s and zero point %s, must be floating and integral", op,
                     to_string(scale.scalar_type()), to_string(zero_point.scalar_type()));
  return check_row_major(op, {&scale, &zero_point});
}

Error choose_for_tensor(KernelContext& context, const char* op, const Tensor& input, int64_t quant_min,
                        int64_t quant_max, double eps, bool symmetric, ScalarType dtype, Tensor& scale_out,
                        Tensor& zero_point_out) {
  ET_CHECK_OR_RETURN(
      quant_min <= 0 && quant_max >= 0 && quant_min < quant_max && quant_min >= INT32_MIN && quant_max <= INT32_MAX,
      InvalidArgument, "%s: [%" PRId64 ", %" PRId64 "] is no range of integers around zero", op, quant_min, quant_max);
  ET_RETURN_IF_ERROR(check_outs(op, scale_out, zero_point_out));
  Range range;
  ET_RETURN_IF_ERROR(range_of(context, op, input, &range));
  return dispatch<Inputs>(input.scalar_type(), op, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto rounded = [](float value) { return static_cast<float>(static_cast<T>(value)); };
    const float low = std::min(range.low, 0.0f);
    const float high = std::max(range.high, 0.0f);
    const auto levels = static_cast<float>(quant_max - quant_min);
    const auto least = static_cast<float>(eps);
    if (symmetric) {
      const float scale = std::max(rounded(std::max(-low, high) / (levels / 2)), least);
      return write_one(context, static_cast<double>(scale), dtype == ScalarType::Byte ? 128 : 0, scale_out,
                       zero_point_out);
    }
    const float scale = std::max(rounded(rounded(high - low) / levels), least);
    const auto steps = convert<int32_t>(round_to_even(low / scale));
    const int64_t zero_point = std::clamp(quant_min - steps, quant_min, quant_max);
    return write_one(context, static_cast<double>(scale), zero_point, scale_out, zero_point_out);
  });
}

/// Calls choose(range of the row, &scale, &zero_point) for each row [.., n] of the input; outs get the sizes [.., 1].
template <typename Choose>
Error choose_for_rows(KernelContext& context, const char* op, const Tensor& input, Tensor& scale_out,
                      Tensor& zero_point_out, const Choose& choose) {
  ET_RETURN_IF_ERROR(check_rank(op, "input", input, 1, static_cast<int64_t>(kMaxRank)));
  ET_RETURN_IF_ERROR(check_row_major(op, {&input}));
  ET_RETURN_IF_ERROR(check_outs(op, scale_out, zero_point_out));
  Sizes sizes(input.sizes());
  const int64_t columns = sizes[input.dim() - 1];
  sizes[input.dim() - 1] = 1;
  const int64_t rows = sizes.numel();
  ET_CHECK_OR_RETURN(columns > 0 || rows == 0, InvalidArgument, "%s: the rows of input are empty", op);
  ET_RETURN_IF_ERROR(resize_tensor(context, scale_out, sizes));
  ET_RETURN_IF_ERROR(resize_tensor(context, zero_point_out, sizes));
  constexpr int64_t kChunk = kElementsAtOnce;
  float values[kChunk];
  const auto width = static_cast<int64_t>(input.element_size());
  const auto* data = static_cast<const char*>(input.const_data_ptr());
  for (int64_t row = 0; row < rows; ++row) {
    Range range;
    for (int64_t start = 0; start < columns; start += kChunk) {
      const int64_t n = std::min(kChunk, columns - start);
      load<float>(input.scalar_type(), data + (row * columns + start) * width, 1, n, values);
      range.add(values, n);
    }
    if (range.has_nan) {
      range.low = range.high = std::numeric_limits<float>::quiet_NaN();
    }
    float scale = 0, zero_point = 0;
    choose(range, &scale, &zero_point);
    store_one<double>(scale_out.scalar_type(), static_cast<double>(scale), scale_out.mutable_data_ptr(), row);
    store_one<double>(zero_point_out.scalar_type(), static_cast<double>(zero_point), zero_point_out.mutable_data_ptr(),
                      row);
  }
  return Error::Ok;
}

}  // namespace

Error choose_qparams_tensor_out(KernelContext& context, const Tensor& input, int64_t quant_min, int64_t quant_max,
                                double eps, ScalarType dtype, Tensor& scale_out, Tensor& zero_point_out) {
  return choose_for_tensor(context, "quantized_decomposed::choose_qparams.tensor", input, quant_min, quant_max, eps,
                           false, dtype, scale_out, zero_point_out);
}

Error choose_qparams_symmetric_tensor_out(KernelContext& context, const Tensor& input, int64_t quant_min,
                                          int64_t quant_max, double eps, ScalarType dtype, Tensor& scale_out,
                                          Tensor& zero_point_out) {
  return choose_for_tensor(context, "quantized_decomposed::choose_qparams_symmetric.tensor", input, quant_min,
                           quant_max, eps, true, dtype, scale_out, zero_point_out);
}

Error choose_qparams_per_token_out(KernelContext& context, const Tensor& input, ScalarType dtype, Tensor& scale_out,
                                   Tensor& zero_point_out) {
  constexpr const char* kOp = "quantized_decomposed::choose_qparams_per_token";
  ET_CHECK_OR_RETURN(dtype == ScalarType::Char, InvalidType, "%s: dtype is %s, must be torch.int8", kOp,
                     to_string(dtype));
  return dispatch<Inputs>(input.scalar_type(), kOp, [&](auto tag) {
    using T = typename decltype(tag)::type;
    // f16 goes to float before anything is divided, bf16 stays.
    using R = std::conditional_t<std::is_same_v<T, BFloat16>, BFloat16, float>;
    const auto rounded = [](float value) { return static_cast<float>(static_cast<R>(value)); };
    return choose_for_rows(context, kOp, input, scale_out, zero_point_out,
                           [&](const Range& range, float* scale, float* zero_point) {
                             const float largest = std::max(std::abs(range.low), std::abs(range.high));
                             *scale = rounded(std::max(largest, rounded(1e-5f)) / 127.0f);
                             *zero_point = 0;
                           });
  });
}

Error choose_qparams_per_token_asymmetric_out(KernelContext& context, const Tensor& input, ScalarType,
                                              Tensor& scale_out, Tensor& zero_point_out) {
  constexpr const char* kOp = "quantized_decomposed::choose_qparams_per_token_asymmetric";
  constexpr float kLow = -128, kHigh = 127;
  return dispatch<Inputs>(input.scalar_type(), kOp, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto rounded = [](float value) { return static_cast<float>(static_cast<T>(value)); };
    return choose_for_rows(
        context, kOp, input, scale_out, zero_point_out, [&](const Range& range, float* scale, float* zero_point) {
          const float low = std::min(0.0f, range.low);
          const float high = std::max(0.0f, range.high);
          *scale =
              std::max(rounded(rounded(high - low) / (kHigh - kLow)), rounded(std::numeric_limits<float>::epsilon()));
          const float first = rounded(low / *scale);
          const float last = rounded(high / *scale);
          const float errors = rounded(rounded(kLow + first) + rounded(kHigh + last));
          const float exact = errors > 0 ? rounded(kLow - first) : rounded(kHigh - last);
          *zero_point = round_to_even(std::clamp(exact, kLow, kHigh));
        });
  });
}

}  // namespace et::kernels::portable
