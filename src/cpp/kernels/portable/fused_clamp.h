/// The clamp at the end of a fused operator (et::convolution_clamp and its kin).
///
///     ET_RETURN_IF_ERROR(linear_out(context, input, weight, bias, out));
///     return clamp_in_place("et::linear_clamp", min, max, out);
#pragma once

#include <limits>

#include "kernels/portable/convert.h"
#include "kernels/portable/dispatch.h"

namespace et::kernels::portable {

/// out = clamp(out, min, max) as aten::clamp does it: NaN stays, and max wins where min is above it.
/// Errors: InvalidType for an element type that is not a real floating one.
inline Error clamp_in_place(const char* op, const std::optional<Scalar>& min, const std::optional<Scalar>& max,
                            const Tensor& out) {
  return dispatch<FloatTypes>(out.scalar_type(), op, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double low = min.has_value() ? min->to<double>() : -kInfinity;
    const double high = max.has_value() ? max->to<double>() : kInfinity;
    const T lowest = convert<T>(low), highest = convert<T>(high);
    T* const values = out.mutable_data_ptr<T>();
    for (int64_t i = 0; i < out.numel(); ++i) {
      const T value = values[i] < low ? lowest : values[i];
      values[i] = value > high ? highest : value;
    }
    return Error::Ok;
  });
}

}  // namespace et::kernels::portable
