#include "numerics/sparse_weight.h"

#include "base/checked_math.h"

namespace et {

Error check_sparse_weight(const char* op, const SparseParts& parts, SparseWeight* out) {
  const Span<const int64_t> size = parts.weight_size;
  ET_CHECK_OR_RETURN(size.size() >= 2, InvalidArgument, "%s: a weight of rank %zu; it has two dimensions or more", op,
                     size.size());
  size_t columns = 1;
  for (size_t i = 0; i < size.size(); ++i) {
    size_t extent = 0;
    const bool fits =
        size[i] > 0 && !narrow_overflow(size[i], &extent) && (i == 0 || !mul_overflow(columns, extent, &columns));
    ET_CHECK_OR_RETURN(fits && columns <= UINT32_MAX, InvalidArgument, "%s: size %zu of the weight is %" PRId64, op, i,
                       size[i]);
  }
  const auto rows = static_cast<size_t>(size[0]);
  const size_t words = sparse_words(columns);
  const bool mask_fits =
      parts.mask_size.size() == 2 && parts.mask_size[0] == size[0] && parts.mask_size[1] == static_cast<int64_t>(words);
  ET_CHECK_OR_RETURN(mask_fits, InvalidArgument,
                     "%s: a mask of (%" PRId64 ", %" PRId64 ") for a weight of (%zu, %zu); it has (%zu, %zu)", op,
                     parts.mask_size[0], parts.mask_size[1], rows, columns, rows, words);
  const auto* const mask = static_cast<const uint64_t*>(parts.mask);
  const uint64_t behind = columns % 64 == 0 ? 0 : ~uint64_t{0} << columns % 64;
  uint64_t ones = 0;
  uint64_t stray = 0;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t j = 0; j < words; ++j) {
      ones += count_ones(mask[row * words + j]);
    }
    stray |= mask[row * words + words - 1] & behind;
  }
  ET_CHECK_OR_RETURN(stray == 0, InvalidArgument, "%s: bits of the mask are set behind the end of a row of %zu", op,
                     columns);
  ET_CHECK_OR_RETURN(ones == static_cast<uint64_t>(parts.values_size[0]), InvalidArgument,
                     "%s: %" PRIu64 " bits of the mask are set, but there are %" PRId64 " values", op, ones,
                     parts.values_size[0]);
  ET_CHECK_OR_RETURN(ones <= UINT32_MAX, InvalidArgument, "%s: %" PRIu64 " values are too many", op, ones);
  *out = {mask, parts.values, rows, columns, words, static_cast<size_t>(ones)};
  return Error::Ok;
}

}  // namespace et
