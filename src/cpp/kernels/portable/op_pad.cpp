// Padding with a constant, by reflection and by replication.
#include "kernels/portable/op_pad.h"

#include <cstring>

#include "base/checked_math.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::portable {
namespace {

enum class Mode { kReflect, kReplicate };

// The size with what is put before and behind it; false where a position in it does not fit 64 bits.
bool padded_size(int64_t size, int64_t low, int64_t high, int64_t* padded) {
  const auto is_small = [](int64_t n) { return n > -INT64_MAX / 4 && n < INT64_MAX / 4; };
  return is_small(low) && is_small(high) && !add_overflow(size, low + high, padded);
}

// Where padded position `i` reads along a dimension of `size`.
int64_t source_position(Mode mode, int64_t i, int64_t size) {
  if (mode == Mode::kReplicate) {
    return i < 0 ? 0 : i >= size ? size - 1 : i;
  }
  return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
}

// One line along the last dimension: elements that are there are copied as they lie, `low` further on.
template <typename T>
void pad_line(Mode mode, const T* from, int64_t from_step, int64_t size, int64_t low, T* to, int64_t to_step,
              int64_t n) {
  const int64_t begin = low < 0 ? 0 : low < n ? low : n;  // a negative number after the line may cut all of it off
  const int64_t there = low + size < n ? low + size : n;
  const int64_t end = there > begin ? there : begin;
  const auto fill = [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      to[i * to_step] = from[source_position(mode, i - low, size) * from_step];
    }
  };
  fill(0, begin);
  if (from_step == 1 && to_step == 1 && begin < end) {
    std::memcpy(to + begin, from + (begin - low), static_cast<size_t>(end - begin) * sizeof(T));
  } else {
    fill(begin, end);
  }
  fill(end, n);
}

// `padding` holds (before, after) pairs from the last dimension backwards; each may be negative in constant_pad_nd
// only.
Error pad(KernelContext& context, const char* op, const Tensor& self, IntArrayRef padding, Mode mode, int64_t spatial,
          Tensor& out) {
  ET_RETURN_IF_ERROR(check_rank(op, "self", self, spatial + 1, spatial + 2));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  ET_CHECK_OR_RETURN(static_cast<int64_t>(padding.size()) == 2 * spatial, InvalidArgument,
                     "%s: padding %s has not two numbers for each of %" PRId64 " dimensions", op,
                     ShapeText(padding).text, spatial);
  const int64_t rank = self.dim();
  Sizes sizes(self.sizes());
  Sizes before;
  before.resize(static_cast<size_t>(rank), 0);
  for (int64_t k = 0; k < spatial; ++k) {
    const int64_t d = rank - 1 - k;
    const int64_t low = padding[static_cast<size_t>(2 * k)];
    const int64_t high = padding[static_cast<size_t>(2 * k + 1)];
    const int64_t size = self.size(d);
    const bool fits = size > 0 && (mode == Mode::kReplicate || (low < size && high < size));
    before[d] = low;
    ET_CHECK_OR_RETURN(fits && padded_size(size, low, high, &sizes[d]) && sizes[d] > 0, InvalidArgument,
                       "%s: padding %s does not fit self %s", op, ShapeText(padding).text,
                       ShapeText(self.sizes()).text);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  const int64_t last = rank - 1;
  return dispatch_by_size(self.element_size(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const source = static_cast<const T*>(self.const_data_ptr());
    T* const target = static_cast<T*>(out.mutable_data_ptr());
    int64_t at[kMaxRank] = {};  // of a line
    for (int64_t count = out.numel() / sizes[last]; count > 0; --count) {
      int64_t from = 0;
      int64_t to = 0;
      for (int64_t d = 0; d < last; ++d) {
        from += source_position(mode, at[d] - before[d], self.size(d)) * self.stride(d);
        to += at[d] * out.stride(d);
      }
      pad_line(mode, source + from, self.stride(last), self.size(last), before[last], target + to, out.stride(last),
               sizes[last]);
      for (int64_t d = last - 1; d >= 0 && ++at[d] == sizes[d]; --d) {
        at[d] = 0;
      }
    }
    return Error::Ok;
  });
}

}  // namespace

Error constant_pad_nd_out(KernelContext& context, const Tensor& self, IntArrayRef pad, const Scalar& value,
                          Tensor& out) {
  constexpr const char* kOp = "aten::constant_pad_nd";
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  ET_CHECK_OR_RETURN(pad.size() % 2 == 0 && static_cast<int64_t>(pad.size()) <= 2 * self.dim(), InvalidArgument,
                     "%s: padding %s does not fit self %s", kOp, ShapeText(pad).text, ShapeText(self.sizes()).text);
  Window from = window_of(self);
  Sizes sizes(self.sizes());
  Sizes start;
  start.resize(sizes.size(), 0);
  for (size_t k = 0; k < pad.size() / 2; ++k) {
    const int64_t d = self.dim() - 1 - static_cast<int64_t>(k);
    const int64_t low = pad[2 * k];
    const int64_t high = pad[2 * k + 1];
    ET_CHECK_OR_RETURN(padded_size(self.size(d), low, high, &sizes[d]) && sizes[d] >= 0, InvalidArgument,
                       "%s: padding %s does not fit self %s", kOp, ShapeText(pad).text, ShapeText(self.sizes()).text);
    // Negative padding cuts elements off.
    const int64_t cut_low = low < 0 ? -low : 0;
    const int64_t length = self.size(d) - cut_low - (high < 0 ? -high : 0);
    if (length > 0) {
      from.advance(d, cut_low);
    }
    from.sizes[d] = length > 0 ? length : 0;
    start[d] = low > 0 ? low : 0;
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  alignas(16) char element[16];
  store_scalar(out.scalar_type(), value, element);
  fill_window(window_of(out), element);
  if (from.sizes.numel() == 0) {
    return Error::Ok;
  }
  Window to = window_of(out);
  for (int64_t d = 0; d < self.dim(); ++d) {
    to.advance(d, start[d]);
    to.sizes[d] = from.sizes[d];
  }
  return copy_window(from, to);
}

#define ET_PAD(name, mode, spatial)                                                                \
  Error name##_out(KernelContext& context, const Tensor& self, IntArrayRef padding, Tensor& out) { \
    return pad(context, "aten::" #name, self, padding, Mode::mode, spatial, out);                  \
  }

ET_PAD(reflection_pad1d, kReflect, 1)
ET_PAD(reflection_pad2d, kReflect, 2)
ET_PAD(reflection_pad3d, kReflect, 3)
ET_PAD(replication_pad1d, kReplicate, 1)
ET_PAD(replication_pad2d, kReplicate, 2)
ET_PAD(replication_pad3d, kReplicate, 3)

}  // namespace et::kernels::portable
