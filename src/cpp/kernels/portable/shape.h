/// Sizes: the shape that a kernel computes before it resizes its output; and the checks that shapes need.
///
/// For: every kernel. Not for: walking over elements (loop_nest.h).
///
///     Sizes sizes(self.sizes());
///     ET_RETURN_IF_ERROR(normalize_dim("aten::cat", dim, self.dim(), &dim));
///     sizes[dim] = total;
///     ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
#pragma once

#include <initializer_list>

#include "base/checked_math.h"
#include "base/tensor_text.h"
#include "runtime/kernel_types.h"

namespace et::kernels::portable {

using runtime::kMaxRank;

/// Up to kMaxRank numbers, one a dimension; converts to IntArrayRef.
///
/// A file may ask for more (a list of a hundred sizes, one dimension more than there can be). What is more stays one
/// more, kMaxRank + 1 of unspecified numbers, which is no tensor's rank: resize_tensor refuses it.
class Sizes {
 public:
  Sizes() = default;
  explicit Sizes(IntArrayRef sizes) : rank_(sizes.size() < kOverlong ? sizes.size() : kOverlong) {
    for (size_t i = 0; i < rank_; ++i) {
      values_[i] = sizes[i];
    }
  }

  size_t size() const { return rank_; }
  const int64_t* data() const { return values_; }
  int64_t* data() { return values_; }
  int64_t& operator[](int64_t i) { return values_[i]; }
  int64_t operator[](int64_t i) const { return values_[i]; }
  /// Adds a dimension.
  void push_back(int64_t value) {
    if (rank_ < kOverlong) {
      values_[rank_++] = value;
    }
  }
  /// Makes the rank `rank`; new entries are `fill`.
  void resize(size_t rank, int64_t fill = 1) {
    rank = rank < kOverlong ? rank : kOverlong;
    for (size_t i = rank_; i < rank; ++i) {
      values_[i] = fill;
    }
    rank_ = rank;
  }
  void erase(size_t i) {
    if (rank_ == kOverlong) {
      return;
    }
    for (--rank_; i < rank_; ++i) {
      values_[i] = values_[i + 1];
    }
  }
  void insert(size_t i, int64_t value) {
    if (rank_ == kOverlong) {
      return;
    }
    for (size_t k = rank_++; k > i; --k) {
      values_[k] = values_[k - 1];
    }
    values_[i] = value;
  }
  int64_t numel() const;

 private:
  static constexpr size_t kOverlong = kMaxRank + 1;
  int64_t values_[kOverlong] = {};
  size_t rank_ = 0;
};

/// Product of the sizes from `first` up to but without `last`.
int64_t product(IntArrayRef sizes, size_t first, size_t last);

/// Brings `dim` from [-rank, rank) to [0, rank); a scalar counts as rank 1.
/// Errors: InvalidArgument, naming the operator, the dim and the range.
Error normalize_dim(const char* op, int64_t dim, int64_t rank, int64_t* out);

/// The shape two shapes broadcast to. Errors: InvalidArgument naming both.
Error broadcast_sizes(const char* op, IntArrayRef a, IntArrayRef b, Sizes* out);

/// Strides of an image [N, C, spatial…], or [C, spatial…], of `spatial` dimensions, in elements: batch, channel, and
/// three spatial ones, of which those that the image lacks are 0.
void spread_strides(const Tensor& image, int64_t spatial, int64_t (&strides)[5]);

/// How many pairs `n` things have. Errors: InvalidArgument, naming the operator, where that does not fit 63 bits.
Result<int64_t> count_pairs(const char* op, int64_t n);

/// Reads list arguments such as `int[2] stride` that may hold one number for all, or none: item `i` of `count`.
int64_t list_item(IntArrayRef list, size_t i, int64_t when_empty);

/// Errors: InvalidArgument unless `tensor` has the dtype of `like`.
Error check_same_dtype(const char* op, const char* name, const Tensor& tensor, const Tensor& like);

/// Gives `sizes` to the outputs of a selection: values of the dtype of `self`, and where they stood.
/// Errors: InvalidArgument, InvalidType for other dtypes; those of resize_tensor.
Error resize_selection(KernelContext& context, const char* op, const Tensor& self, IntArrayRef sizes,
                       const Tensor& values, const Tensor& indices);

/// Errors: InvalidArgument unless rank is in [low, high].
Error check_rank(const char* op, const char* name, const Tensor& tensor, int64_t low, int64_t high);

/// Errors: NotSupported unless every tensor is row-major: for kernels that do not walk by strides.
Error check_row_major(const char* op, std::initializer_list<const Tensor*> tensors);

/// True when the strides are those of a row-major tensor (size-1 dimensions do not matter).
bool is_contiguous(const Tensor& tensor);

/// True when the strides are those of images with channels innermost (rank 3, 4 or 5; size-1 dimensions do not matter,
/// so that a tensor may be both).
bool is_channels_last(const Tensor& tensor);

/// The product of sizes that a file gives; false where one is negative or it does not fit 63 bits.
inline bool whole_product(std::initializer_list<int64_t> numbers, int64_t* product) {
  *product = 1;
  bool fits = true;
  for (const int64_t number : numbers) {
    fits = fits && number >= 0 && !mul_overflow(*product, number, product);
  }
  return fits;
}

}  // namespace et::kernels::portable
