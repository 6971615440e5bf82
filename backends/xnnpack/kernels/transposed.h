/// Which transposed convolutions the library can compute: for the kernels, and for the payloads of the delegate.
#pragma once

#include <algorithm>
#include <cstdint>

namespace et::backends::xnnpack {

struct Pair {
  uint32_t h;
  uint32_t w;
};

/// False for an output that the library would write beside. It splits a transposed convolution whose stride is no
/// larger than its kernel into one product for each place in a stride, and takes for granted that the output has each
/// of these places.
inline bool has_each_place(Pair kernel, Pair stride, Pair dilation, int64_t out_h, int64_t out_w) {
  const bool is_split = std::max(stride.h, stride.w) > 1 && std::max(dilation.h, dilation.w) == 1 &&
                        stride.h <= kernel.h && stride.w <= kernel.w;
  return !is_split || (out_h >= stride.h && out_w >= stride.w);
}

}  // namespace et::backends::xnnpack
