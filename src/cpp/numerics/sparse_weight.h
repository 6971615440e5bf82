/// Weights that are mostly zero, as files hold them: a bit for each element, and the elements whose bit is set.
///
/// For: the compiler that packs them, kernels that run on them (et::sparse_linear, et::sparse_convolution), and
/// libraries that unpack them once at load. Not for: arithmetic on them.
///
///     SparseWeight weight;
///     ET_RETURN_IF_ERROR(check_sparse_weight("et::sparse_linear", values, mask, weight_size, &weight));
///     const float* from = static_cast<const float*>(weight.values);
///     for (size_t row = 0; row < weight.rows; ++row) {
///       from = unpack_row(weight, row, from, dense + row * weight.columns);
///     }
///
/// Bits cost as much at every density: 1/8 byte an element, so that a float weight with half of its elements takes 53 %
/// of its bytes and one with a tenth 13 %. Column numbers would be smaller only below a density of 6 %, and each needs
/// a check. Here only the number of set bits and the bits behind each row's end can be wrong.
#pragma once

#include "base/span.h"

namespace et {

/// A matrix [rows, columns] that was checked: as many values as bits are set, none set behind a row's end.
struct SparseWeight {
  const uint64_t* mask = nullptr;  ///< [rows, words]: bit i of word j is element 64 j + i of the row
  const void* values = nullptr;    ///< [num_values]: row by row, columns ascending
  size_t rows = 0;                 ///< first size of the weight
  size_t columns = 0;              ///< product of its other sizes
  size_t words = 0;                ///< of a row: ceil(columns / 64)
  size_t num_values = 0;
};

/// Words of mask for a row.
constexpr size_t sparse_words(size_t columns) { return columns / 64 + (columns % 64 != 0); }

constexpr size_t count_ones(uint64_t bits) { return static_cast<size_t>(__builtin_popcountll(bits)); }

/// What a call gives of a sparse weight.
struct SparseParts {
  Span<const int64_t> weight_size;  ///< sizes of the weight, two or more
  Span<const int64_t> mask_size;
  Span<const int64_t> values_size;
  const void* mask;  ///< int64, row-major
  const void* values;
};

/// Fills `out` after everything was checked that is used as an address later.
/// Errors: InvalidArgument, naming `op` and what does not fit. Cost: a look at each word of the mask.
Error check_sparse_weight(const char* op, const SparseParts& parts, SparseWeight* out);

/// The same for tensors of the runtime or of ATen; the dtype of the values is the caller's to check.
template <typename Tensor, typename Sizes>
Error check_sparse_weight(const char* op, const Tensor& values, const Tensor& mask, const Sizes& weight_size,
                          SparseWeight* out) {
  constexpr int kLong = 4;
  ET_CHECK_OR_RETURN(static_cast<int>(mask.scalar_type()) == kLong, InvalidArgument,
                     "%s: the mask has dtype %d, not int64", op, static_cast<int>(mask.scalar_type()));
  ET_CHECK_OR_RETURN(values.dim() == 1 && mask.dim() == 2, InvalidArgument,
                     "%s: values of rank %d and a mask of rank %d; they have 1 and 2", op,
                     static_cast<int>(values.dim()), static_cast<int>(mask.dim()));
  const bool is_row_major = (values.size(0) <= 1 || values.stride(0) == 1) &&
                            (mask.size(1) <= 1 || mask.stride(1) == 1) &&
                            (mask.size(0) <= 1 || mask.stride(0) == mask.size(1));
  ET_CHECK_OR_RETURN(is_row_major, InvalidArgument, "%s: values or mask are not row-major", op);
  const int64_t mask_size[2] = {mask.size(0), mask.size(1)};
  const int64_t values_size[1] = {values.size(0)};
  return check_sparse_weight(op,
                             SparseParts{{weight_size.data(), weight_size.size()},
                                         mask_size,
                                         values_size,
                                         mask.const_data_ptr(),
                                         values.const_data_ptr()},
                             out);
}

/// Writes a row with its zeros to out[columns]. `values`: the row's first value; returns the next row's.
template <typename T>
const T* unpack_row(const SparseWeight& weight, size_t row, const T* values, T* out) {
  const uint64_t* const mask = weight.mask + row * weight.words;
  for (size_t i = 0; i < weight.columns; ++i) {
    out[i] = T(0);
  }
  for (size_t j = 0; j < weight.words; ++j) {
    for (uint64_t bits = mask[j]; bits != 0; bits &= bits - 1) {
      out[64 * j + static_cast<size_t>(__builtin_ctzll(bits))] = *values++;
    }
  }
  return values;
}

}  // namespace et
