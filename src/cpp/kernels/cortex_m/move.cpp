#include "kernels/cortex_m/move.h"

#include <algorithm>

#include "kernels/cortex_m/primitives.h"

namespace et::kernels::cortex_m {
namespace {

template <typename T>
void move_line(const char* from, int32_t from_step, char* to, int32_t to_step, int32_t n) {
  const auto* in = reinterpret_cast<const T*>(from);
  auto* out = reinterpret_cast<T*>(to);
  from_step /= static_cast<int32_t>(sizeof(T));
  to_step /= static_cast<int32_t>(sizeof(T));
  for (; n >= 4; n -= 4) {
    const T a = in[0], b = in[from_step], c = in[2 * from_step], d = in[3 * from_step];
    in += 4 * from_step;
    out[0] = a, out[to_step] = b, out[2 * to_step] = c, out[3 * to_step] = d;
    out += 4 * to_step;
  }
  for (; n > 0; --n, in += from_step, out += to_step) {
    *out = *in;
  }
}

}  // namespace

void Move::add(int64_t size, int64_t from_stride, int64_t to_stride) {
  is_empty_ = is_empty_ || size == 0;
  if (size <= 1 || is_empty_) {
    return;  // strides of what has one element are any number
  }
  const Loop loop{static_cast<int32_t>(size), static_cast<int32_t>(from_stride) * element_,
                  static_cast<int32_t>(to_stride) * element_};
  int32_t at = count_++;
  for (; at > 0 && loops_[at - 1].to < loop.to; --at) {
    loops_[at] = loops_[at - 1];
  }
  loops_[at] = loop;
}

void Move::add_all(IntArrayRef part, IntArrayRef from, IntArrayRef to) {
  for (size_t d = 0; d < part.size(); ++d) {
    add(part[d], from[d], to[d]);
  }
}

/// Makes one loop of two where the outer one goes on where the inner one ends.
void Move::merge() {
  int32_t kept = 0;
  for (int32_t i = 1; i < count_; ++i) {
    Loop& outer = loops_[kept];
    const Loop& inner = loops_[i];
    if (outer.to == inner.to * inner.size && outer.from == inner.from * inner.size) {
      outer = {outer.size * inner.size, inner.from, inner.to};
    } else {
      loops_[++kept] = inner;
    }
  }
  count_ = count_ == 0 ? 0 : kept + 1;
}

void Move::run(const void* from, void* to) {
  if (is_empty_) {
    return;
  }
  merge();
  Loop line{1, element_, element_};
  if (count_ > 0) {
    line = loops_[--count_];
  }
  const bool is_run = line.from == element_ && line.to == element_;
  if (!is_run && count_ > 0 && loops_[count_ - 1].size > line.size) {
    const Loop longer = loops_[count_ - 1];  // few channels of many pixels: pixels inside
    loops_[count_ - 1] = line;
    line = longer;
  }
  const auto* in = static_cast<const char*>(from);
  auto* out = static_cast<char*>(to);
  const auto nbytes = line.size * element_;
  int32_t left[runtime::kMaxRank];
  for (int32_t i = 0; i < count_; ++i) {
    left[i] = loops_[i].size;
  }
  for (int32_t i = 0; i >= 0;) {
    if (!is_run) {
      const auto line_of = element_ == 1 ? &move_line<int8_t> : &move_line<int32_t>;
      line_of(in, line.from, out, line.to, line.size);
    } else if (nbytes < 32) {
      copy_bytes(reinterpret_cast<const int8_t*>(in), nbytes, reinterpret_cast<int8_t*>(out));
    } else {
      std::memcpy(out, in, static_cast<size_t>(nbytes));
    }
    for (i = count_ - 1; i >= 0; --i) {
      const Loop& loop = loops_[i];
      in += loop.from, out += loop.to;
      if (--left[i] > 0) {
        break;
      }
      left[i] = loop.size;
      in -= loop.from * loop.size, out -= loop.to * loop.size;
    }
  }
}

Error move_view(KernelContext& context, const Tensor& self, const void* first, const portable::Sizes& sizes,
                const portable::Sizes& strides, const Tensor& out) {
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes.data(), sizes.size()}));
  Move move(self);
  move.add_all(out.sizes(), {strides.data(), strides.size()}, out.strides());
  move.run(first, out.mutable_data_ptr());
  return Error::Ok;
}

Error move_part(KernelContext& context, const Tensor& self, int64_t dim, int64_t start, int64_t length,
                const Tensor& out) {
  portable::Sizes sizes(self.sizes());
  sizes[dim] = length;
  const void* const first = length > 0 ? place(self, dim, start) : nullptr;
  return move_view(context, self, first, sizes, portable::Sizes(self.strides()), out);
}

bool fits_move(const EValue& from, const EValue& to) {
  if (!from.is_tensor() || !to.is_tensor()) {
    return false;
  }
  const Tensor self = from.to_tensor(), out = to.to_tensor();
  const size_t element = self.element_size();
  return self.scalar_type() == out.scalar_type() && (element == 1 || element == 4) &&
         self.nbytes() <= static_cast<size_t>(INT32_MAX) && out.nbytes() <= static_cast<size_t>(INT32_MAX);
}

bool fits_parts(const EValue& from, const EValue& list) {
  if (!list.is_tensor_list() || !from.is_tensor() || from.to_tensor().dim() == 0) {
    return false;
  }
  const auto& parts = list.tensor_list_items();
  return std::all_of(parts.items, parts.items + parts.size, [&](const EValue* part) { return fits_move(from, *part); });
}

}  // namespace et::kernels::cortex_m
