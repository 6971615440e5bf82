#include "bindings/tensor_view.h"

#include <cstdlib>
#include <cstring>

namespace et::bindings {

using runtime::kMaxRank;

namespace {

/// The dimensions with more than one index, those with the closest elements first; their number.
size_t dims_by_distance(const TensorView& view, size_t* order) {
  size_t count = 0;
  for (size_t d = 0; d < view.rank; ++d) {
    if (view.sizes[d] == 1) {
      continue;
    }
    size_t place = count++;
    for (; place > 0 && std::abs(view.byte_strides[order[place - 1]]) > std::abs(view.byte_strides[d]); --place) {
      order[place] = order[place - 1];
    }
    order[place] = d;
  }
  return count;
}

}  // namespace

int64_t TensorView::numel() const {
  int64_t count = 1;
  for (size_t d = 0; d < rank; ++d) {
    count *= sizes[d];
  }
  return count;
}

bool TensorView::is_dense(Span<const uint8_t> dim_order) const {
  const int64_t itemsize = static_cast<int64_t>(element_size(dtype));
  int64_t expected = itemsize;
  for (size_t i = rank; i-- > 0;) {
    const size_t d = dim_order[i];
    if (sizes[d] != 1 && byte_strides[d] != expected) {
      return numel() == 0;
    }
    expected *= sizes[d];
  }
  // Complex numbers are aligned like their parts.
  const size_t alignment = static_cast<size_t>(is_complex(dtype) ? itemsize / 2 : itemsize);
  return reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

bool TensorView::overlaps(const TensorView& other) const {
  const auto extent = [](const TensorView& view, uintptr_t* first, uintptr_t* last) {
    *first = *last = reinterpret_cast<uintptr_t>(view.data);
    for (size_t d = 0; d < view.rank; ++d) {
      const int64_t reach = (view.sizes[d] - 1) * view.byte_strides[d];
      *(reach < 0 ? first : last) += static_cast<uintptr_t>(reach);
    }
    *last += element_size(view.dtype);
  };
  if (numel() == 0 || other.numel() == 0) {
    return false;
  }
  uintptr_t first, last, other_first, other_last;
  extent(*this, &first, &last);
  extent(other, &other_first, &other_last);
  return first < other_last && other_first < last;
}

bool TensorView::elements_share_memory() const {
  if (numel() == 0) {
    return false;
  }
  // From the closest elements on, each dimension must step over everything that the ones before it reach.
  size_t order[kMaxRank];
  const size_t count = dims_by_distance(*this, order);
  int64_t reach = static_cast<int64_t>(element_size(dtype));
  for (size_t i = 0; i < count; ++i) {
    const int64_t distance = std::abs(byte_strides[order[i]]);
    if (distance < reach) {
      return true;
    }
    reach += distance * (sizes[order[i]] - 1);
  }
  return false;
}

bool TensorView::shares_elements(const TensorView& other) const {
  if (!overlaps(other)) {
    return false;
  }
  // Where the outermost dimensions have one stride, both lie on a grid of it, and cover one range of bytes in each
  // cell.
  size_t order[kMaxRank], other_order[kMaxRank];
  const size_t count = dims_by_distance(*this, order);
  const size_t other_count = dims_by_distance(other, other_order);
  if (count == 0 || other_count == 0) {
    return true;
  }
  const int64_t period = byte_strides[order[count - 1]];
  if (period <= 0 || period != other.byte_strides[other_order[other_count - 1]]) {
    return true;
  }
  const auto width = [period](const TensorView& view, const size_t* dims, size_t num_inner) {
    int64_t bytes = static_cast<int64_t>(element_size(view.dtype));
    for (size_t i = 0; i < num_inner; ++i) {
      const int64_t stride = view.byte_strides[dims[i]];
      bytes += stride < 0 ? period : stride * (view.sizes[dims[i]] - 1);  // backwards: the whole cell
    }
    return bytes;
  };
  const int64_t distance = reinterpret_cast<intptr_t>(other.data) - reinterpret_cast<intptr_t>(data);
  const int64_t offset = (distance % period + period) % period;  // of the other's range in a cell that begins with ours
  return offset < width(*this, order, count - 1) || offset + width(other, other_order, other_count - 1) > period;
}

namespace {

/// Copies `count` elements of N bytes; `memcpy` because neither side need be aligned.
template <size_t N>
void copy_row(const char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to, from, N);
    from += from_stride;
    to += to_stride;
  }
}

}  // namespace

void copy_strided(const TensorView& from, const TensorView& to) {
  if (from.numel() == 0) {
    return;
  }
  // The dimensions in the order of the destination's memory, innermost last; writing in order is what the cache likes.
  size_t order[kMaxRank];
  size_t rank = 0;
  for (size_t d = 0; d < from.rank; ++d) {
    if (from.sizes[d] == 1) {
      continue;
    }
    size_t place = rank++;
    for (; place > 0 && to.byte_strides[order[place - 1]] < to.byte_strides[d]; --place) {
      order[place] = order[place - 1];
    }
    order[place] = d;
  }
  const size_t itemsize = element_size(from.dtype);
  const char* source = static_cast<const char*>(from.data);
  char* target = static_cast<char*>(to.data);
  if (rank == 0) {
    std::memcpy(target, source, itemsize);
    return;
  }
  const size_t inner = order[rank - 1];
  const int64_t count = from.sizes[inner];
  const int64_t source_stride = from.byte_strides[inner];
  const int64_t target_stride = to.byte_strides[inner];
  const bool rows_are_dense = source_stride == static_cast<int64_t>(itemsize) && target_stride == source_stride;
  int64_t index[kMaxRank] = {};
  for (;;) {
    if (rows_are_dense) {
      std::memcpy(target, source, static_cast<size_t>(count) * itemsize);
    } else {
      switch (itemsize) {
        case 1: copy_row<1>(source, source_stride, target, target_stride, count); break;
        case 2: copy_row<2>(source, source_stride, target, target_stride, count); break;
        case 4: copy_row<4>(source, source_stride, target, target_stride, count); break;
        case 8: copy_row<8>(source, source_stride, target, target_stride, count); break;
        default: copy_row<16>(source, source_stride, target, target_stride, count);
      }
    }
    size_t i = rank - 1;
    for (; i-- > 0;) {
      const size_t d = order[i];
      source += from.byte_strides[d];
      target += to.byte_strides[d];
      if (++index[i] < from.sizes[d]) {
        break;
      }
      source -= from.byte_strides[d] * from.sizes[d];
      target -= to.byte_strides[d] * from.sizes[d];
      index[i] = 0;
    }
    if (i == static_cast<size_t>(-1)) {
      return;
    }
  }
}

}  // namespace et::bindings
