/// What a tensor is cut into must be all of it, one output a part.
///
/// For: kernels of aten::split and aten::split_with_sizes, portable ones and a processor's own.
///
///     ET_RETURN_IF_ERROR(check_split(kOp, self.size(dim), split_size, dim, out.size()));
#pragma once

#include "kernels/portable/shape.h"

namespace et::kernels::portable {

inline Error check_part_count(const char* op, size_t outputs, size_t parts) {
  ET_CHECK_OR_RETURN(outputs == parts, InvalidArgument, "%s: %zu outputs for %zu parts", op, outputs, parts);
  return Error::Ok;
}

/// `size`: of dimension `dim`, which is cut into parts of `split_size`; the last may be smaller.
inline Error check_split(const char* op, int64_t size, int64_t split_size, int64_t dim, size_t outputs) {
  ET_CHECK_OR_RETURN(split_size > 0 || (split_size == 0 && size == 0), InvalidArgument,
                     "%s: split_size %" PRId64 " cannot cut dim %" PRId64 " of size %" PRId64, op, split_size, dim,
                     size);
  return check_part_count(op, outputs, static_cast<size_t>(size == 0 ? 1 : (size - 1) / split_size + 1));
}

/// `size`: of dimension `dim`, which the sizes of the parts add up to.
inline Error check_split_sizes(const char* op, int64_t size, IntArrayRef split_sizes, int64_t dim) {
  int64_t left = size;
  for (const int64_t part : split_sizes) {
    ET_CHECK_OR_RETURN(part >= 0 && part <= left, InvalidArgument,
                       "%s: %s has a negative size, or exceeds %" PRId64 ", the size of dim %" PRId64, op,
                       ShapeText(split_sizes).text, size, dim);
    left -= part;
  }
  ET_CHECK_OR_RETURN(left == 0, InvalidArgument, "%s: %s does not add up to %" PRId64 ", the size of dim %" PRId64, op,
                     ShapeText(split_sizes).text, size, dim);
  return Error::Ok;
}

}  // namespace et::kernels::portable
