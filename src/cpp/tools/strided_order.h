/// Between row-major bytes, as files and people have them, and a tensor's own order of dimensions.
#pragma once

#include "runtime/tensor.h"

namespace et::tools {

/// Copies the elements of a dense tensor. `ordered` lies in `dim_order` (outermost first), `row_major` in 0, 1, 2, …
void to_dim_order(runtime::IntArrayRef sizes, Span<const uint8_t> dim_order, size_t item_size, const uint8_t* row_major,
                  uint8_t* ordered);
void from_dim_order(runtime::IntArrayRef sizes, Span<const uint8_t> dim_order, size_t item_size, const uint8_t* ordered,
                    uint8_t* row_major);

}  // namespace et::tools
