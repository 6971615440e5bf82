#include "kernels/portable/loop_nest.h"

namespace et::kernels::portable {

void LoopNest::add(const void* data, IntArrayRef strides, size_t element_size) {
  ET_DCHECK(operands_ < kMaxOperands && strides.size() <= sizes_.size());
  // One pointer type for inputs and outputs; who added an input only reads through it.
  data_[operands_] = static_cast<char*>(const_cast<void*>(data));
  Sizes& bytes = strides_[operands_++];
  const size_t lead = sizes_.size() - strides.size();
  bytes.resize(sizes_.size(), 0);
  for (size_t i = 0; i < strides.size(); ++i) {
    bytes[static_cast<int64_t>(lead + i)] = strides[i] * static_cast<int64_t>(element_size);
  }
}

void LoopNest::add_broadcast(const Tensor& tensor) {
  Sizes strides(tensor.strides());
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) == 1) {
      strides[i] = 0;
    }
  }
  add(tensor.const_data_ptr(), strides, tensor.element_size());
}

bool LoopNest::empty() const {
  for (size_t i = 0; i < sizes_.size(); ++i) {
    if (sizes_[static_cast<int64_t>(i)] == 0) {
      return true;
    }
  }
  return false;
}

size_t LoopNest::loop_to_share(size_t cost) const {
  size_t longest = 0;
  constexpr size_t kMost = threads::kMostGrains * threads::kGrainElements;
  const auto work = static_cast<size_t>(steps()) * cost;
  // Divisions are what a small call would notice.
  if (work > kMost && work / static_cast<size_t>(loop_size(0)) > kMost) {
    for (size_t i = 1; i < sizes_.size(); ++i) {
      longest = loop_size(i) > loop_size(longest) ? i : longest;
    }
  }
  return longest;
}

LoopNest LoopNest::part(size_t loop, int64_t begin, int64_t end) const {
  LoopNest nest(*this);
  const auto at = static_cast<int64_t>(loop);
  if (sizes_.size() > 0) {
    nest.sizes_[at] = end - begin;
    for (size_t k = 0; k < operands_; ++k) {
      nest.data_[k] += begin * strides_[k][at];
    }
  }
  return nest;
}

void LoopNest::move_loop(size_t from, size_t to) {
  const int64_t size = sizes_[static_cast<int64_t>(from)];
  sizes_.erase(from);
  sizes_.insert(to, size);
  for (size_t k = 0; k < operands_; ++k) {
    const int64_t stride = strides_[k][static_cast<int64_t>(from)];
    strides_[k].erase(from);
    strides_[k].insert(to, stride);
  }
}

void LoopNest::drop_unit_loops() {
  for (size_t i = sizes_.size(); i-- > 0;) {
    if (sizes_[static_cast<int64_t>(i)] == 1) {
      sizes_.erase(i);
      for (size_t k = 0; k < operands_; ++k) {
        strides_[k].erase(i);
      }
    }
  }
}

void LoopNest::simplify() {
  drop_unit_loops();
  // Insertion sort by the first operand's stride, largest outermost; equal strides keep their order.
  for (size_t i = 1; i < sizes_.size(); ++i) {
    const int64_t stride = strides_[0][static_cast<int64_t>(i)];
    size_t to = i;
    while (to > 0 && strides_[0][static_cast<int64_t>(to) - 1] < stride) {
      --to;
    }
    if (to != i) {
      move_loop(i, to);
    }
  }
  merge();
}

void LoopNest::merge() {
  drop_unit_loops();
  for (int64_t i = static_cast<int64_t>(sizes_.size()) - 2; i >= 0; --i) {
    bool merges = true;
    for (size_t k = 0; k < operands_ && merges; ++k) {
      merges = strides_[k][i] == strides_[k][i + 1] * sizes_[i + 1];
    }
    if (merges) {
      sizes_[i] *= sizes_[i + 1];
      sizes_.erase(static_cast<size_t>(i) + 1);
      for (size_t k = 0; k < operands_; ++k) {
        strides_[k].erase(static_cast<size_t>(i));
      }
    }
  }
}

}  // namespace et::kernels::portable
