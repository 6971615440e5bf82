/// Elements that move: from places in one tensor to places in another, with no regard to what they are.
///
/// For: operators of 8-bit and 32-bit elements that only rearrange, such as cat.cpp and permute_copy.cpp. Not for:
/// conversions, and elements of other sizes, which the plain kernels have.
///
///     Move move(self, out);
///     move.add(out.size(0), self.stride(1), out.stride(0));   // a dimension, in elements
///     move.add(out.size(1), self.stride(0), out.stride(1));
///     move.run(self.const_data_ptr(), out.mutable_data_ptr());
#pragma once

#include "kernels/cortex_m/kernels.h"
#include "kernels/portable/shape.h"

namespace et::kernels::cortex_m {

class Move {
 public:
  explicit Move(const Tensor& like) : element_(static_cast<int32_t>(like.element_size())) {}

  /// A dimension: how many elements, and how far from one to the next in both tensors.
  void add(int64_t size, int64_t from_stride, int64_t to_stride);
  /// All dimensions of `part`, with the strides of `from` and `to`, which have its rank.
  void add_all(IntArrayRef part, IntArrayRef from, IntArrayRef to);
  void run(const void* from, void* to);

 private:
  struct Loop {
    int32_t size, from, to;  ///< steps in bytes
  };
  void merge();
  Loop loops_[runtime::kMaxRank];  ///< the largest step of the target first
  int32_t count_ = 0, element_;
  bool is_empty_ = false;
};

/// Where index `i` of a dimension lies.
inline void* place(const Tensor& tensor, int64_t dim, int64_t i) {
  return static_cast<char*>(tensor.mutable_data_ptr()) +
         i * tensor.stride(dim) * static_cast<int64_t>(tensor.element_size());
}

/// `out` gets these sizes, and of `self` the elements that lie at these strides from `first`.
Error move_view(KernelContext& context, const Tensor& self, const void* first, const portable::Sizes& sizes,
                const portable::Sizes& strides, const Tensor& out);

/// `out` gets the indices [start, start + length) of a dimension of `self`.
Error move_part(KernelContext& context, const Tensor& self, int64_t dim, int64_t start, int64_t length,
                const Tensor& out);

/// True for tensors of one type, of 8 or 32 bits an element, whose bytes are counted in 32 bits.
bool fits_move(const EValue& from, const EValue& to);
/// The same of a tensor and of all tensors of a list. A tensor without dimensions has no parts.
bool fits_parts(const EValue& from, const EValue& list);

}  // namespace et::kernels::cortex_m
