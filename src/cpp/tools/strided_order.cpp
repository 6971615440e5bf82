#include "tools/strided_order.h"

#include <cstring>

namespace et::tools {
namespace {

/// Calls visit(row-major index, index in dim_order) for every element.
template <typename Visit>
void for_each_element(runtime::IntArrayRef sizes, Span<const uint8_t> dim_order, Visit visit) {
  int64_t strides[runtime::kMaxRank];
  runtime::strides_from_dim_order(sizes, dim_order, strides);
  int64_t numel = 1;
  for (const int64_t size : sizes) {
    numel *= size;
  }
  int64_t index[runtime::kMaxRank] = {};
  for (int64_t i = 0; i < numel; ++i) {
    int64_t offset = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      offset += index[d] * strides[d];
    }
    visit(static_cast<size_t>(i), static_cast<size_t>(offset));
    for (size_t d = sizes.size(); d-- > 0 && ++index[d] == sizes[d];) {
      index[d] = 0;
    }
  }
}

}  // namespace

void to_dim_order(runtime::IntArrayRef sizes, Span<const uint8_t> dim_order, size_t item_size, const uint8_t* row_major,
                  uint8_t* ordered) {
  for_each_element(sizes, dim_order, [&](size_t from, size_t to) {
    std::memcpy(ordered + to * item_size, row_major + from * item_size, item_size);
  });
}

void from_dim_order(runtime::IntArrayRef sizes, Span<const uint8_t> dim_order, size_t item_size, const uint8_t* ordered,
                    uint8_t* row_major) {
  for_each_element(sizes, dim_order, [&](size_t to, size_t from) {
    std::memcpy(row_major + to * item_size, ordered + from * item_size, item_size);
  });
}

}  // namespace et::tools
