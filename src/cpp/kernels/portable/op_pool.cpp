// Pooling over windows, in one to three dimensions.
#include "kernels/portable/op_pool.h"

#include <limits>

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
  int64_t size() const { return size_; }
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
    ET_CHECK_OR_RETURN(p->kernel[d] > 0 && p->stride[d] > 0 && p->dilation[d] > 0 && p->padding[d] >= 0 &&
                           p->padding[d] * 2 <= p->dilation[d] * (p->kernel[d] - 1) + 1,
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

// Calls f(plane, od, oh, ow) for each output.
template <typename F>
void for_each_window(const Windows& p, F&& f) {
  for (int64_t plane = 0; plane < p.planes; ++plane) {
    for (int64_t d = 0; d < p.out[0]; ++d) {
      for (int64_t h = 0; h < p.out[1]; ++h) {
        for (int64_t w = 0; w < p.out[2]; ++w) {
          f(plane, d, h, w);
        }
      }
    }
  }
}

// Largest element of [low, high) x …, with its position in the plane. NaN wins.
template <typename C>
void largest(const Planes& in, ScalarType dtype, int64_t plane, const int64_t* low, const int64_t* high,
             const int64_t* step, const int64_t* size, C* value, int64_t* index) {
  const char* const data = in.plane(plane);
  const int64_t* const strides = in.strides();
  const bool is_direct = dtype == dtype_of<C>;
  bool first = true;
  for (int64_t d = low[0]; d < high[0]; d += step[0]) {
    for (int64_t h = low[1]; h < high[1]; h += step[1]) {
      const char* const row = data + in.size() * (d * strides[0] + h * strides[1]);
      for (int64_t w = low[2]; w < high[2]; w += step[2]) {
        const C x =
            is_direct ? reinterpret_cast<const C*>(row)[w * strides[2]] : load_one<C>(dtype, row, w * strides[2]);
        if (first || x > *value || is_nan(x)) {
          *value = x;
          *index = (d * size[1] + h) * size[2] + w;
          first = false;
        }
      }
    }
  }
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

// Sum of [low, high). Integers wrap.
template <typename C>
C sum_of_window(const Planes& in, ScalarType dtype, int64_t plane, const int64_t* low, const int64_t* high) {
  constexpr int64_t kRow = 128;
  C row[kRow];
  const char* const data = in.plane(plane);
  const int64_t* const strides = in.strides();
  C sum = 0;
  for (int64_t d = low[0]; d < high[0]; ++d) {
    for (int64_t h = low[1]; h < high[1]; ++h) {
      const char* const line = data + in.size() * (d * strides[0] + h * strides[1]);
      if (dtype == dtype_of<C>) {
        sum = wrapping_add(
            sum, sum_of_row(reinterpret_cast<const C*>(line) + low[2] * strides[2], strides[2], high[2] - low[2]));
        continue;
      }
      for (int64_t w = low[2]; w < high[2]; w += kRow) {
        const int64_t n = high[2] - w < kRow ? high[2] - w : kRow;
        load(dtype, line + in.size() * w * strides[2], strides[2], n, row);
        for (int64_t i = 0; i < n; ++i) {
          sum = wrapping_add(sum, row[i]);
        }
      }
    }
  }
  return sum;
}

Error max_pool(KernelContext& context, const char* op, const Tensor& self, int64_t spatial, IntArrayRef kernel_size,
               IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, Tensor& out,
               Tensor* indices) {  // nullptr: nobody asks where the largest elements were
  Windows p;
  Sizes sizes;
  ET_RETURN_IF_ERROR(plan(op, self, spatial, kernel_size, stride, padding, dilation, ceil_mode, &p, &sizes));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (indices != nullptr) {
    ET_CHECK_OR_RETURN(indices->scalar_type() == ScalarType::Long, InvalidType, "%s: indices is %s, must be i64", op,
                       to_string(indices->scalar_type()));
    ET_RETURN_IF_ERROR(resize_tensor(context, *indices, sizes));
  }
  const Planes in(self, spatial, p.channels);
  const Planes values(out, spatial, p.channels);
  const Planes positions(indices == nullptr ? out : *indices, spatial, p.channels);
  const ScalarType dtype = self.scalar_type();
  return dispatch_compute(dtype, [&](auto zero) {
    using C = decltype(zero);
    for_each_window(p, [&](int64_t plane, int64_t od, int64_t oh, int64_t ow) {
      const int64_t position[3] = {od, oh, ow};
      int64_t low[3];
      int64_t high[3];
      for (int d = 0; d < 3; ++d) {
        low[d] = position[d] * p.stride[d] - p.padding[d];
        const int64_t end = low[d] + (p.kernel[d] - 1) * p.dilation[d] + 1;
        high[d] = end < p.in[d] ? end : p.in[d];
        while (low[d] < 0) {
          low[d] += p.dilation[d];
        }
      }
      C value =
          std::numeric_limits<C>::has_infinity ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::lowest();
      int64_t index = (low[0] * p.in[1] + low[1]) * p.in[2] + low[2];
      largest(in, dtype, plane, low, high, p.dilation, p.in, &value, &index);
      store_one(dtype, value, values.at(plane, od, oh, ow));
      if (indices != nullptr) {
        *reinterpret_cast<int64_t*>(positions.at(plane, od, oh, ow)) = index;
      }
    });
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
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  const Planes in(self, spatial, p.channels);
  const Planes means(out, spatial, p.channels);
  const ScalarType dtype = self.scalar_type();
  return dispatch_compute(dtype, [&](auto zero) {
    using C = decltype(zero);
    for_each_window(p, [&](int64_t plane, int64_t od, int64_t oh, int64_t ow) {
      const int64_t position[3] = {od, oh, ow};
      int64_t low[3];
      int64_t high[3];
      int64_t padded = 1;  // elements of the window, padding included
      int64_t real = 1;    // … without
      for (int d = 0; d < 3; ++d) {
        low[d] = position[d] * p.stride[d] - p.padding[d];
        const int64_t limit = p.in[d] + p.padding[d];
        high[d] = low[d] + p.kernel[d] < limit ? low[d] + p.kernel[d] : limit;
        padded *= high[d] - low[d];
        low[d] = low[d] < 0 ? 0 : low[d];
        high[d] = high[d] < p.in[d] ? high[d] : p.in[d];
        real *= high[d] > low[d] ? high[d] - low[d] : 0;
      }
      const C sum = sum_of_window<C>(in, dtype, plane, low, high);
      const int64_t divisor = divisor_override.value_or(count_include_pad ? padded : real);
      store_one(dtype, real > 0 ? static_cast<C>(sum / static_cast<C>(divisor)) : C(0), means.at(plane, od, oh, ow));
    });
    return Error::Ok;
  });
}

// Adaptive pooling: window i of n over `size` elements is [floor(i * size / n), ceil((i + 1) * size / n)).
struct Adaptive {
  Windows p;
  void window(int d, int64_t i, int64_t* low, int64_t* high) const {
    *low = i * p.in[d] / p.out[d];
    *high = ((i + 1) * p.in[d] + p.out[d] - 1) / p.out[d];
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
  const Planes in(self, spatial, a.p.channels);
  const Planes means(out, spatial, a.p.channels);
  const ScalarType dtype = self.scalar_type();
  return dispatch_float(dtype, [&](auto zero) {
    using C = decltype(zero);
    for_each_window(a.p, [&](int64_t plane, int64_t od, int64_t oh, int64_t ow) {
      int64_t low[3];
      int64_t high[3];
      a.window(0, od, &low[0], &high[0]);
      a.window(1, oh, &low[1], &high[1]);
      a.window(2, ow, &low[2], &high[2]);
      const C sum = sum_of_window<C>(in, dtype, plane, low, high);
      const int64_t count = (high[0] - low[0]) * (high[1] - low[1]) * (high[2] - low[2]);
      store_one(dtype, sum / static_cast<C>(count), means.at(plane, od, oh, ow));
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
  ET_CHECK_OR_RETURN(indices.scalar_type() == ScalarType::Long, InvalidType, "%s: indices is %s, must be i64", op,
                     to_string(indices.scalar_type()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  ET_RETURN_IF_ERROR(resize_tensor(context, indices, sizes));
  const Planes in(self, spatial, a.p.channels);
  const Planes values(out, spatial, a.p.channels);
  const Planes positions(indices, spatial, a.p.channels);
  const ScalarType dtype = self.scalar_type();
  return dispatch_compute(dtype, [&](auto zero) {
    using C = decltype(zero);
    const int64_t one[3] = {1, 1, 1};
    for_each_window(a.p, [&](int64_t plane, int64_t od, int64_t oh, int64_t ow) {
      int64_t low[3];
      int64_t high[3];
      a.window(0, od, &low[0], &high[0]);
      a.window(1, oh, &low[1], &high[1]);
      a.window(2, ow, &low[2], &high[2]);
      C value = 0;
      int64_t index = 0;
      largest(in, dtype, plane, low, high, one, a.p.in, &value, &index);
      store_one(dtype, value, values.at(plane, od, oh, ow));
      *reinterpret_cast<int64_t*>(positions.at(plane, od, oh, ow)) = index;
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
