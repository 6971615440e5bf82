#include "kernels/portable/resize_taps.h"

namespace et::kernels::portable {
namespace {

// Taps at the border stand at one position: taken together.
Taps<double> merged(Taps<double> taps) {
  for (int k = 3; k > 0; --k) {
    if (taps.position[k] == taps.position[k - 1]) {
      taps.weight[k - 1] += taps.weight[k];
      taps.weight[k] = 0;
    }
  }
  return taps;
}

}  // namespace

int fixed_point_bits(double largest) {
  int bits = 0;
  while (bits < 22 && static_cast<int64_t>(0.5 + largest * static_cast<double>(int64_t{1} << (bits + 1))) < (1 << 15)) {
    ++bits;
  }
  return bits;
}

int32_t fixed_point(double weight, int bits) {
  const double scaled = weight * static_cast<double>(int64_t{1} << bits);
  return std::isnan(scaled) ? 0 : static_cast<int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

ByteAxis::ByteAxis(const ResizeAxis& axis, bool align_corners, bool cubic)
    : axis_(axis), align_corners_(align_corners), is_cubic_(cubic) {
  double largest = 0;
  for (int64_t o = 0; o < axis.out; ++o) {
    const Taps<double> along = exact_taps(o);
    for (int64_t k = 0; k < num_taps(); ++k) {
      largest = std::fmax(largest, along.weight[k]);
    }
  }
  bits_ = fixed_point_bits(largest);
}

Taps<double> ByteAxis::exact_taps(int64_t o) const {
  if (axis_.in == axis_.out) {
    return {{o, o, o, o}, {1, 0, 0, 0}};  // a copy
  }
  return is_cubic_ ? merged(cubic_taps<double>(axis_, o, align_corners_))
                   : linear_taps<double>(axis_, o, align_corners_);
}

Taps<int32_t> ByteAxis::taps(int64_t o) const {
  const Taps<double> exact = exact_taps(o);
  Taps<int32_t> taps{};
  for (int k = 0; k < 4; ++k) {
    taps.position[k] = exact.position[k];
    taps.weight[k] = fixed_point(exact.weight[k], bits_);
  }
  return taps;
}

}  // namespace et::kernels::portable
