// Pooling over windows, in one to three dimensions.
#include "kernels/portable/op_pool.h"

#include <limits>
#include <type_traits>

#include "base/checked_math.h"
#include "kernels/portable/arithmetic.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {
namespace {

// Pooling in three spatial dimensions; fewer have leading sizes of 1.
struct Windows {
  int64_t planes;  // batch times channels
  int64_t channels;
  int64_t in[3];
  int64_t out[3];
  int64_t kernel[3];
  int64_t stride[3];
  int64_t padding[3];
  int64_t dilation[3];
};

// Addresses of the elements of a [N, C, spatial…] or [C, spatial…] tensor by plane and position.
class Planes {
 public:
  Planes(const Tensor& tensor, int64_t spatial, int64_t channels) : channels_(channels) {
    const int64_t lead = tensor.dim() - spatial;
    data_ = static_cast<char*>(const_cast<void*>(tensor.const_data_ptr()));
    size_ = static_cast<int64_t>(tensor.element_size());
    batch_ = lead == 2 ? tensor.stride(0) : 0;
    channel_ = tensor.stride(lead - 1);
    is_dense_ = lead != 2 || batch_ == channels * channel_;
    for (int64_t d = 0; d < 3; ++d) {
      const int64_t source = d - (3 - spatial);
      strides_[d] = source >= 0 ? tensor.stride(lead + source) : 0;
    }
  }
  char* plane(int64_t plane) const {
    const int64_t offset = is_dense_ ? plane * channel_ : (plane / channels_) * batch_ + (plane % channels_) * channel_;
    return data_ + size_ * offset;
  }
  char* at(int64_t plane, int64_t d, int64_t h, int64_t w) const {
    return this->plane(plane) + size_ * (d * strides_[0] + h * strides_[1] + w * strides_[2]);
  }
  const int64_t* strides() const { return strides_; }

 private:
  char* data_;
  int64_t size_;
  int64_t channels_;
  int64_t batch_;
  int64_t channel_;
  bool is_dense_;  // planes follow each other at one distance
  int64_t strides_[3];
};

Error check_input(const char* op, const Tensor& self, int64_t spatial) {
  ET_RETURN_IF_ERROR(check_rank(op, "self", self, spatial + 1, spatial + 2));
  for (int64_t d = self.dim() == spatial + 2 ? 1 : 0; d < self.dim(); ++d) {
    ET_CHECK_OR_RETURN(self.size(d) > 0, InvalidArgument, "%s: input %s has an empty dimension", op,
                       ShapeText(self.sizes()).text);
  }
  return Error::Ok;
}

int64_t pooled_size(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil_mode) {
  const int64_t room = in + 2 * padding - dilation * (kernel - 1) - 1;
  if (room < 0 && !(ceil_mode && room + stride > 0)) {
    return 0;
  }
  int64_t out = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (out - 1) * stride >= in + padding) {
    --out;  // the last window must begin inside the input or its left padding
  }
  return out;
}

Error plan(const char* op, const Tensor& self, int64_t spatial, IntArrayRef kernel_size, IntArrayRef stride,
           IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, Windows* p, Sizes* sizes) {
  ET_RETURN_IF_ERROR(check_input(op, self, spatial));
  const int64_t lead = self.dim() - spatial;
  *sizes = Sizes(self.sizes());
  p->channels = self.size(lead - 1);
  p->planes = product(self.sizes(), 0, static_cast<size_t>(lead));
  for (int64_t d = 0; d < 3; ++d) {
    const int64_t i = d - (3 - spatial);
    const auto item = static_cast<size_t>(i);
    const bool real = i >= 0;
    p->in[d] = real ? self.size(lead + i) : 1;
    p->kernel[d] = real ? list_item(kernel_size, item, 1) : 1;
    p->stride[d] = real ? list_item(stride, item, p->kernel[d]) : 1;
    p->padding[d] = real ? list_item(padding, item, 0) : 0;
    p->dilation[d] = real ? list_item(dilation, item, 1) : 1;
    constexpr int64_t kMost = INT32_MAX;  // what follows from two of them fits 64 bits
    ET_CHECK_OR_RETURN(p->kernel[d] > 0 && p->kernel[d] <= kMost && p->stride[d] > 0 && p->stride[d] <= kMost &&
                           p->dilation[d] > 0 && p->dilation[d] <= kMost && p->padding[d] >= 0 &&
                           p->padding[d] <= kMost && p->padding[d] * 2 <= p->dilation[d] * (p->kernel[d] - 1) + 1,
                       InvalidArgument,
                       "%s: kernel %" PRId64 ", stride %" PRId64 ", padding %" PRId64
                       " (at most half the kernel), dilation %" PRId64,
                       op, p->kernel[d], p->stride[d], p->padding[d], p->dilation[d]);
    p->out[d] = real ? pooled_size(p->in[d], p->kernel[d], p->stride[d], p->padding[d], p->dilation[d], ceil_mode) : 1;
    ET_CHECK_OR_RETURN(p->out[d] > 0, InvalidArgument, "%s: windows %s do not fit input %s", op,
                       ShapeText(kernel_size).text, ShapeText(self.sizes()).text);
    if (real) {
      (*sizes)[lead + i] = p->out[d];
    }
  }
  return Error::Ok;
}

// The elements of one plane in the type that is computed in: where they lie, or converted once, since windows overlap.
template <typename C>
class PlaneValues {
 public:
  PlaneValues(const Planes& planes, ScalarType dtype, const int64_t* size)
      : planes_(planes), dtype_(dtype), size_(size) {
    for (int d = 0; d < 3; ++d) {
      strides_[d] = planes.strides()[d];
    }
  }
  Error init(KernelContext& context) {
    if (dtype_ == dtype_of<C>) {
      return Error::Ok;
    }
    ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(size_[0] * size_[1] * size_[2]) * sizeof(C)));
    converted_ = static_cast<C*>(memory);
    strides_[0] = size_[1] * size_[2];
    strides_[1] = size_[2];
    strides_[2] = 1;
    return Error::Ok;
  }
  void select(const KernelContext& context, int64_t plane) {
    data_ = reinterpret_cast<const C*>(planes_.plane(plane));
    if (converted_ == nullptr) {
      return;
    }
    C* to = converted_;
    for (int64_t d = 0; d < size_[0]; ++d) {
      for (int64_t h = 0; h < size_[1] && !context.cancelled(); ++h, to += size_[2]) {
        load(dtype_, planes_.at(plane, d, h, 0), planes_.strides()[2], size_[2], to);
      }
    }
    data_ = converted_;
  }
  const C* row(int64_t d, int64_t h) const { return data_ + d * strides_[0] + h * strides_[1]; }
  int64_t step() const { return strides_[2]; }
  const int64_t* size() const { return size_; }

 private:
  const Planes& planes_;
  ScalarType dtype_;
  const int64_t* size_;
  C* converted_ = nullptr;
  const C* data_ = nullptr;
  int64_t strides_[3];
};

// The elements [low, high) that a window has of a plane, and its extent with padding.
struct Window {
  int64_t low[3];
  int64_t high[3];
  int64_t padded[3];
};

// out = value(window, &place) for each window; limits(d, i, &window) sets the window's range along dimension d for
// output i. `places` may be nullptr.
template <typename C, typename Limits, typename Value>
void for_each_window(const KernelContext& context, const Windows& p, PlaneValues<C>& in, ScalarType dtype,
                     const Planes& out, const Planes* places, const Limits& limits, const Value& value) {
  constexpr int64_t kRow = 64;
  C values[kRow];
  int64_t positions[kRow] = {};
  Window window;
  const bool is_empty = p.out[0] == 0 || p.out[1] == 0 || p.out[2] == 0;  // windows in one direction may be many
  for (int64_t plane = 0; !is_empty && plane < p.planes; ++plane) {
    in.select(context, plane);
    for (int64_t d = 0; d < p.out[0]; ++d) {
      limits(0, d, &window);
      for (int64_t h = 0; h < p.out[1]; ++h) {
        limits(1, h, &window);
        for (int64_t first = 0; first < p.out[2] && !context.cancelled(); first += kRow) {
          const int64_t n = p.out[2] - first < kRow ? p.out[2] - first : kRow;
          for (int64_t i = 0; i < n; ++i) {
            limits(2, first + i, &window);
            values[i] = value(window, &positions[i]);
          }
          store(dtype, values, n, out.at(plane, d, h, first), out.strides()[2]);
          for (int64_t i = 0; places != nullptr && i < n; ++i) {
            *reinterpret_cast<int64_t*>(places->at(plane, d, h, first + i)) = positions[i];
          }
        }
      }
    }
  }
}

// For windows that may take long: their rows look whether the caller asked to stop. nullptr for others.
const KernelContext* looking(const KernelContext& context, const int64_t* window) {
  constexpr int64_t kLong = 64;  // 64 x 64 x 64 elements take less than a millisecond
  return window[0] > kLong || window[1] > kLong || window[2] > kLong ? &context : nullptr;
}

bool is_cancelled(const KernelContext* looking) { return looking != nullptr && looking->cancelled(); }

// True when one of n elements is above `value` or not a number: most rows of a window have none, which vectors see
// quickly.
template <typename C>
bool has_larger(const C* x, int64_t n, C value) {
  using Mask = std::conditional_t<sizeof(C) == 4, int32_t, int64_t>;
  Mask found = 0;
  for (int64_t i = 0; i < n; ++i) {
    found |= x[i] <= value ? Mask(0) : Mask(1);
  }
  return found != 0;
}

// Largest element of a window, with its position in the plane. NaN wins; `value` comes in as what an empty window
// gives.
template <typename C>
C largest(const KernelContext* looking, const PlaneValues<C>& in, const Window& window, const int64_t* step, C value,
          int64_t* index) {
  constexpr int64_t kLong = 8, kPiece = 32;
  const int64_t* const size = in.size();
  const int64_t length = window.high[2] - window.low[2];
  const bool skips = step[2] == 1 && in.step() == 1 && length >= kLong;
  const int64_t piece = skips ? kPiece : length;
  bool first = true;
  *index = (window.low[0] * size[1] + window.low[1]) * size[2] + window.low[2];
  for (int64_t d = window.low[0]; d < window.high[0]; d += step[0]) {
    for (int64_t h = window.low[1]; h < window.high[1] && !is_cancelled(looking); h += step[1]) {
      const C* const row = in.row(d, h);
      const int64_t start = (d * size[1] + h) * size[2];
      for (int64_t begin = window.low[2]; begin < window.high[2]; begin += piece) {
        const int64_t end = begin + piece < window.high[2] ? begin + piece : window.high[2];
        if (skips && !first && !has_larger(row + begin, end - begin, value)) {
          continue;
        }
        for (int64_t w = begin; w < end; w += step[2]) {
          const C x = row[w * in.step()];
          if (first || x > value || is_nan(x)) {
            value = x;
            *index = start + w;
            first = false;
          }
        }
      }
    }
  }
  return value;
}

// Sum of n numbers; several partial sums, because each addition waits for the one before.
template <typename C>
C sum_of_row(const C* x, int64_t stride, int64_t n) {
  constexpr int64_t kSums = 8;
  C sum = 0;
  int64_t i = 0;
  if (stride == 1 && n >= 2 * kSums) {
    C sums[kSums] = {};
    for (; i + kSums <= n; i += kSums) {
      for (int64_t k = 0; k < kSums; ++k) {
        sums[k] = wrapping_add(sums[k], x[i + k]);
      }
    }
    for (int64_t k = 0; k < kSums; ++k) {
      sum = wrapping_add(sum, sums[k]);
    }
  }
  for (; i < n; ++i) {
    sum = wrapping_add(sum, x[i * stride]);
  }
  return sum;
}

// Sum of a window. Integers wrap.
template <typename C>
C sum_of_window(const KernelContext* looking, const PlaneValues<C>& in, const Window& window) {
  C sum = 0;
  for (int64_t d = window.low[0]; d < window.high[0]; ++d) {
    for (int64_t h = window.low[1]; h < window.high[1] && !is_cancelled(looking); ++h) {
      sum = wrapping_add(
          sum, sum_of_row(in.row(d, h) + window.low[2] * in.step(), in.step(), window.high[2] - window.low[2]));
    }
  }
  return sum;
}

/// What a window without elements gives.
int64_t least_integer(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Byte: return 0;
    case ScalarType::Char: return INT8_MIN;
    case ScalarType::Short: return INT16_MIN;
    case ScalarType::Int: return INT32_MIN;
    default: return INT64_MIN;
  }
}

Error max_pool(KernelContext& context, const char* op, const Tensor& self, int64_t spatial, IntArrayRef kernel_size,
               IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, Tensor& out,
               Tensor* indices) {  // nullptr: nobody reads where the largest elements were
  Windows p;
  Sizes sizes;
  ET_RETURN_IF_ERROR(plan(op, self, spatial, kernel_size, stride, padding, dilation, ceil_mode, &p, &sizes));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (indices != nullptr) {
    ET_CHECK_OR_RETURN(indices->scalar_type() == ScalarType::Long, InvalidType,
                       "%s: indices is %s, must be torch.int64", op, to_string(indices->scalar_type()));
    ET_RETURN_IF_ERROR(resize_tensor(context, *indices, sizes));
  }
  const Planes elements(self, spatial, p.channels);
  const Planes values(out, spatial, p.channels);
  const Planes positions(indices == nullptr ? out : *indices, spatial, p.channels);
  const ScalarType dtype = self.scalar_type();
  return dispatch_compute(dtype, [&](auto zero) {
    using C = decltype(zero);
    using Limits = std::numeric_limits<C>;
    const C least = Limits::has_infinity ? -Limits::infinity() : static_cast<C>(least_integer(dtype));
    PlaneValues<C> in(elements, dtype, p.in);
    ET_RETURN_IF_ERROR(in.init(context));
    const KernelContext* const looks = looking(context, p.kernel);
    for_each_window(
        context, p, in, dtype, values, indices == nullptr ? nullptr : &positions,
        [&p](int d, int64_t i, Window* window) {
          int64_t low = i * p.stride[d] - p.padding[d];
          const int64_t end = low + (p.kernel[d] - 1) * p.dilation[d] + 1;
          window->high[d] = end < p.in[d] ? end : p.in[d];
          low += low < 0 ? (p.dilation[d] - 1 - low) / p.dilation[d] * p.dilation[d] : 0;
          window->low[d] = low;
        },
        [&](const Window& window, int64_t* place) { return largest<C>(looks, in, window, p.dilation, least, place); });
    return Error::Ok;
  });
}

Error avg_pool(KernelContext& context, const char* op, const Tensor& self, int64_t spatial, IntArrayRef kernel_size,
               IntArrayRef stride, IntArrayRef padding, bool ceil_mode, bool count_include_pad,
               std::optional<int64_t> divisor_override, Tensor& out) {
  Windows p;
  Sizes sizes;
  ET_RETURN_IF_ERROR(plan(op, self, spatial, kernel_size, stride, padding, {}, ceil_mode, &p, &sizes));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  ET_CHECK_OR_RETURN(!divisor_override.has_value() || *divisor_override != 0, InvalidArgument,
                     "%s: divisor_override is 0", op);
  int64_t elements_of_window = 1;  // which sums are divided by
  const bool overflows = mul_overflow(p.kernel[0], p.kernel[1], &elements_of_window) ||
                         mul_overflow(elements_of_window, p.kernel[2], &elements_of_window);
  ET_CHECK_OR_RETURN(!overflows, InvalidArgument, "%s: a window of %s elements does not fit 63 bits", op,
                     ShapeText(kernel_size).text);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  const Planes elements(self, spatial, p.channels);
  const Planes means(out, spatial, p.channels);
  const ScalarType dtype = self.scalar_type();
  return dispatch_compute(dtype, [&](auto zero) {
    using C = decltype(zero);
    PlaneValues<C> in(elements, dtype, p.in);
    ET_RETURN_IF_ERROR(in.init(context));
    const KernelContext* const looks = looking(context, p.kernel);
    for_each_window(
        context, p, in, dtype, means, nullptr,
        [&p](int d, int64_t i, Window* window) {
          const int64_t low = i * p.stride[d] - p.padding[d];
          const int64_t limit = p.in[d] + p.padding[d];
          const int64_t end = low + p.kernel[d] < limit ? low + p.kernel[d] : limit;
          window->padded[d] = end - low;
          window->low[d] = low < 0 ? 0 : low;
          window->high[d] = end < p.in[d] ? end : p.in[d];
        },
        [&](const Window& window, int64_t*) {
          int64_t padded = 1;  // elements of the window, padding included
          int64_t real = 1;    // … without
          for (int d = 0; d < 3; ++d) {
            padded *= window.padded[d];
            real *= window.high[d] > window.low[d] ? window.high[d] - window.low[d] : 0;
          }
          const int64_t divisor = divisor_override.value_or(count_include_pad ? padded : real);
          return real > 0 ? static_cast<C>(sum_of_window(looks, in, window) / static_cast<C>(divisor)) : C(0);
        });
    return Error::Ok;
  });
}

// Adaptive pooling: window i of n over `size` elements is [floor(i * size / n), ceil((i + 1) * size / n)).
struct Adaptive {
  Windows p;
  void operator()(int d, int64_t i, Window* window) const {
    window->low[d] = i * p.in[d] / p.out[d];
    window->high[d] = ((i + 1) * p.in[d] + p.out[d] - 1) / p.out[d];
  }
};

Error plan_adaptive(const char* op, const Tensor& self, int64_t spatial, IntArrayRef output_size, Adaptive* a,
                    Sizes* sizes) {
  ET_RETURN_IF_ERROR(check_input(op, self, spatial));
  ET_CHECK_OR_RETURN(static_cast<int64_t>(output_size.size()) == spatial, InvalidArgument,
                     "%s: output_size %s has not %" PRId64 " numbers", op, ShapeText(output_size).text, spatial);
  const int64_t lead = self.dim() - spatial;
  *sizes = Sizes(self.sizes());
  a->p.channels = self.size(lead - 1);
  a->p.planes = product(self.sizes(), 0, static_cast<size_t>(lead));
  for (int64_t d = 0; d < 3; ++d) {
    const int64_t i = d - (3 - spatial);
    a->p.in[d] = i >= 0 ? self.size(lead + i) : 1;
    a->p.out[d] = i >= 0 ? output_size[static_cast<size_t>(i)] : 1;
    ET_CHECK_OR_RETURN(a->p.out[d] >= 0, InvalidArgument, "%s: negative output_size %s", op,
                       ShapeText(output_size).text);
    a->p.kernel[d] = a->p.out[d] > 0 ? a->p.in[d] / a->p.out[d] + 2 : 0;  // of the largest window, at most
    if (i >= 0) {
      (*sizes)[lead + i] = a->p.out[d];
    }
  }
  return Error::Ok;
}

Error adaptive_avg_pool(KernelContext& context, const char* op, const Tensor& self, int64_t spatial,
                        IntArrayRef output_size, Tensor& out) {
  Adaptive a;
  Sizes sizes;
  ET_RETURN_IF_ERROR(plan_adaptive(op, self, spatial, output_size, &a, &sizes));
  ET_CHECK_OR_RETURN(is_floating(self.scalar_type()), InvalidType, "%s: self is %s, must be floating", op,
                     to_string(self.scalar_type()));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  const Planes elements(self, spatial, a.p.channels);
  const Planes means(out, spatial, a.p.channels);
  const ScalarType dtype = self.scalar_type();
  return dispatch_float(dtype, [&](auto zero) {
    using C = decltype(zero);
    PlaneValues<C> in(elements, dtype, a.p.in);
    ET_RETURN_IF_ERROR(in.init(context));
    const KernelContext* const looks = looking(context, a.p.kernel);
    for_each_window(context, a.p, in, dtype, means, nullptr, a, [&](const Window& window, int64_t*) {
      int64_t count = 1;
      for (int d = 0; d < 3; ++d) {
        count *= window.high[d] - window.low[d];
      }
      return sum_of_window(looks, in, window) / static_cast<C>(count);
    });
    return Error::Ok;
  });
}

Error adaptive_max_pool(KernelContext& context, const char* op, const Tensor& self, int64_t spatial,
                        IntArrayRef output_size, Tensor& out, Tensor& indices) {
  Adaptive a;
  Sizes sizes;
  ET_RETURN_IF_ERROR(plan_adaptive(op, self, spatial, output_size, &a, &sizes));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  ET_CHECK_OR_RETURN(indices.scalar_type() == ScalarType::Long, InvalidType, "%s: indices is %s, must be torch.int64",
                     op, to_string(indices.scalar_type()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  ET_RETURN_IF_ERROR(resize_tensor(context, indices, sizes));
  const Planes elements(self, spatial, a.p.channels);
  const Planes values(out, spatial, a.p.channels);
  const Planes positions(indices, spatial, a.p.channels);
  const ScalarType dtype = self.scalar_type();
  return dispatch_compute(dtype, [&](auto zero) {
    using C = decltype(zero);
    constexpr int64_t kOne[3] = {1, 1, 1};
    PlaneValues<C> in(elements, dtype, a.p.in);
    ET_RETURN_IF_ERROR(in.init(context));
    const KernelContext* const looks = looking(context, a.p.kernel);
    for_each_window(context, a.p, in, dtype, values, &positions, a, [&](const Window& window, int64_t* place) {
      return largest<C>(looks, in, window, kOne, C(0), place);
    });
    return Error::Ok;
  });
}

}  // namespace

Error max_pool2d_with_indices_out(KernelContext& context, const Tensor& self, IntArrayRef kernel_size,
                                  IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode,
                                  Tensor& out, Tensor& indices) {
  return max_pool(context, "aten::max_pool2d", self, 2, kernel_size, stride, padding, dilation, ceil_mode, out,
                  &indices);
}

Error max_pool2d_out(KernelContext& context, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                     IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, Tensor& out) {
  return max_pool(context, "aten::max_pool2d", self, 2, kernel_size, stride, padding, dilation, ceil_mode, out,
                  nullptr);
}

Error max_pool3d_out(KernelContext& context, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                     IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, Tensor& out) {
  return max_pool(context, "aten::max_pool3d", self, 3, kernel_size, stride, padding, dilation, ceil_mode, out,
                  nullptr);
}

Error max_pool3d_with_indices_out(KernelContext& context, const Tensor& self, IntArrayRef kernel_size,
                                  IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode,
                                  Tensor& out, Tensor& indices) {
  return max_pool(context, "aten::max_pool3d", self, 3, kernel_size, stride, padding, dilation, ceil_mode, out,
                  &indices);
}

Error avg_pool1d_out(KernelContext& context, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                     IntArrayRef padding, bool ceil_mode, bool count_include_pad, Tensor& out) {
  return avg_pool(context, "aten::avg_pool1d", self, 1, kernel_size, stride, padding, ceil_mode, count_include_pad,
                  std::nullopt, out);
}

Error avg_pool2d_out(KernelContext& context, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                     IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                     std::optional<int64_t> divisor_override, Tensor& out) {
  return avg_pool(context, "aten::avg_pool2d", self, 2, kernel_size, stride, padding, ceil_mode, count_include_pad,
                  divisor_override, out);
}

Error avg_pool3d_out(KernelContext& context, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                     IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                     std::optional<int64_t> divisor_override, Tensor& out) {
  return avg_pool(context, "aten::avg_pool3d", self, 3, kernel_size, stride, padding, ceil_mode, count_include_pad,
                  divisor_override, out);
}

Error adaptive_avg_pool1d_out(KernelContext& context, const Tensor& self, IntArrayRef output_size, Tensor& out) {
  return adaptive_avg_pool(context, "aten::adaptive_avg_pool1d", self, 1, output_size, out);
}

Error adaptive_avg_pool2d_out(KernelContext& context, const Tensor& self, IntArrayRef output_size, Tensor& out) {
  return adaptive_avg_pool(context, "aten::_adaptive_avg_pool2d", self, 2, output_size, out);
}

Error adaptive_avg_pool3d_out(KernelContext& context, const Tensor& self, IntArrayRef output_size, Tensor& out) {
  return adaptive_avg_pool(context, "aten::_adaptive_avg_pool3d", self, 3, output_size, out);
}

Error adaptive_max_pool2d_out(KernelContext& context, const Tensor& self, IntArrayRef output_size, Tensor& out,
                              Tensor& indices) {
  return adaptive_max_pool(context, "aten::adaptive_max_pool2d", self, 2, output_size, out, indices);
}

Error adaptive_max_pool3d_out(KernelContext& context, const Tensor& self, IntArrayRef output_size, Tensor& out,
                              Tensor& indices) {
  return adaptive_max_pool(context, "aten::adaptive_max_pool3d", self, 3, output_size, out, indices);
}

}  // namespace et::kernels::portable
