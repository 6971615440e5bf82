/// The clamp at the end of a fused operator (et::convolution_clamp and its kin).
///
///     ET_RETURN_IF_ERROR(linear_out(context, input, weight, bias, out));
///     return clamp_in_place("et::linear_clamp", min, max, out);
#pragma once

#include <limits>

#include "kernels/portable/convert.h"
#include "kernels/portable/dispatch.h"

namespace et::kernels::portable {

/// values = clamp(values, low, high) without a branch, whose outcome nothing could foresee. NaN stays, and `high` wins
/// where `low` is above it. Limits are rounded to T: no value lies between a limit and what it is rounded to.
template <typename T>
void clamp_values(T* values, int64_t count, T low, T high) {
  for (int64_t i = 0; i < count; ++i) {
    const T value = low > values[i] ? low : values[i];
    values[i] = high < value ? high : value;
  }
}

/// out = clamp(out, min, max) as aten::clamp does it. in_parts(n, clamp) calls clamp(begin, end) until n elements are
/// done. Errors: InvalidType for an element type that is not a real floating one.
template <typename InParts>
Error clamp_in_place(const char* op, const std::optional<Scalar>& min, const std::optional<Scalar>& max,
                     const Tensor& out, const InParts& in_parts) {
  return dispatch<FloatTypes>(out.scalar_type(), op, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const T low = convert<T>(min.has_value() ? min->to<double>() : -kInfinity);
    const T high = convert<T>(max.has_value() ? max->to<double>() : kInfinity);
    T* const values = out.mutable_data_ptr<T>();
    in_parts(out.numel(), [&](int64_t begin, int64_t end) { clamp_values(values + begin, end - begin, low, high); });
    return Error::Ok;
  });
}

inline Error clamp_in_place(const char* op, const std::optional<Scalar>& min, const std::optional<Scalar>& max,
                            const Tensor& out) {
  return clamp_in_place(op, min, max, out, [](int64_t count, const auto& clamp) { clamp(int64_t{0}, count); });
}

}  // namespace et::kernels::portable
