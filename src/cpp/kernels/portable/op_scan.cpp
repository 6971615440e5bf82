// Scans: running sums, products and extremes along one dimension.
#include "kernels/portable/op_scan.h"

#include <cmath>

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/loop_nest.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::portable {
namespace {

// Calls f(address in self, self stride in elements, addresses in outs, out stride, length) for each lane along `dim`.
template <typename F>
void for_each_lane(const Tensor& self, int64_t dim, std::initializer_list<const Tensor*> outs, F&& f) {
  if (self.numel() == 0) {
    return;
  }
  const bool scalar = self.dim() == 0;
  const Window from = scalar ? window_of(self) : select_of(self, dim, 0);
  LoopNest lanes(from.sizes);
  lanes.add(from.data, from.strides, self.element_size());
  for (const Tensor* out : outs) {
    const Window to = scalar ? window_of(*out) : select_of(*out, dim, 0);
    lanes.add(to.data, to.strides, out->element_size());
  }
  lanes.simplify();
  const int64_t length = scalar ? 1 : self.size(dim);
  const int64_t stride = scalar ? 1 : self.stride(dim);
  const int64_t out_stride = scalar ? 1 : (*outs.begin())->stride(dim);
  lanes.for_each_run([&](char* const* pointers, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      char* addresses[LoopNest::kMaxOperands];
      for (size_t k = 0; k <= outs.size(); ++k) {
        addresses[k] = pointers[k] + i * lanes.run_stride(k);
      }
      f(addresses[0], stride, addresses + 1, out_stride, length);
    }
  });
}

/// Elements between two looks at whether the caller asked to stop.
constexpr int64_t kLook = 1024;

// Element i of a lane becomes fn(… fn(fn(first, x[0]), x[1]) …, x[i]).
template <typename Fn>
Error accumulate(KernelContext& context, const char* op, const Tensor& self, int64_t dim, Tensor& out, double first,
                 const Fn& fn) {
  ET_RETURN_IF_ERROR(normalize_dim(op, dim, self.dim(), &dim));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  const ScalarType dtype = self.scalar_type();
  const ScalarType out_dtype = out.scalar_type();
  const auto element_bytes = static_cast<int64_t>(self.element_size());
  const auto out_bytes = static_cast<int64_t>(out.element_size());
  return dispatch_compute(out_dtype, [&](auto zero) {
    using C = decltype(zero);
    // Floats add up in double, as in ATen.
    using Total = std::conditional_t<std::is_integral_v<C>, int64_t, double>;
    for_each_lane(self, dim, {&out}, [&](const char* from, int64_t step, char* const* to, int64_t out_step, int64_t n) {
      constexpr int64_t kChunk = 128;
      Total values[kChunk];
      Total total = convert<Total>(first);
      for (int64_t start = 0; start < n && !context.cancelled(); start += kChunk) {
        const int64_t count = n - start < kChunk ? n - start : kChunk;
        load(dtype, from + start * step * element_bytes, step, count, values);
        for (int64_t i = 0; i < count; ++i) {
          total = fn(total, values[i]);
          values[i] = total;
        }
        store(out_dtype, values, count, to[0] + start * out_step * out_bytes, out_step);
      }
    });
    return Error::Ok;
  });
}

Error extremes(KernelContext& context, const char* op, const Tensor& self, int64_t dim, bool largest, Tensor& values,
               Tensor& indices) {
  ET_RETURN_IF_ERROR(normalize_dim(op, dim, self.dim(), &dim));
  ET_RETURN_IF_ERROR(resize_selection(context, op, self, self.sizes(), values, indices));
  const ScalarType dtype = self.scalar_type();
  return dispatch_compute(dtype, [&](auto zero) {
    using C = decltype(zero);
    for_each_lane(self, dim, {&values, &indices},
                  [&](const char* from, int64_t step, char* const* to, int64_t out_step, int64_t n) {
                    C best = load_one<C>(dtype, from);
                    int64_t position = 0;
                    for (int64_t i = 0; i < n && (i % kLook != 0 || !context.cancelled()); ++i) {
                      const C x = load_one<C>(dtype, from, i * step);
                      if (is_nan(x) || (!is_nan(best) && (largest ? x >= best : x <= best))) {
                        best = x;
                        position = i;
                      }
                      store_one(dtype, best, to[0], i * out_step);
                      reinterpret_cast<int64_t*>(to[1])[i * out_step] = position;
                    }
                  });
    return Error::Ok;
  });
}

}  // namespace

Error cumsum_out(KernelContext& context, const Tensor& self, int64_t dim, std::optional<ScalarType>, Tensor& out) {
  return accumulate(context, "aten::cumsum", self, dim, out, 0.0, [](auto a, auto b) { return wrapping_add(a, b); });
}

Error cumprod_out(KernelContext& context, const Tensor& self, int64_t dim, std::optional<ScalarType>, Tensor& out) {
  return accumulate(context, "aten::cumprod", self, dim, out, 1.0, [](auto a, auto b) { return wrapping_mul(a, b); });
}

Error logcumsumexp_out(KernelContext& context, const Tensor& self, int64_t dim, Tensor& out) {
  return accumulate(context, "aten::logcumsumexp", self, dim, out, -HUGE_VAL, [](auto a, auto b) {
    using Total = decltype(a);
    if constexpr (std::is_integral_v<Total>) {
      return a;  // floating types only: the output's type is checked when the program is made
    } else {
      const Total high = maximum(a, b);
      return std::isinf(high) ? high : high + std::log1p(std::exp(minimum(a, b) - high));
    }
  });
}

Error cummax_out(KernelContext& context, const Tensor& self, int64_t dim, Tensor& values, Tensor& indices) {
  return extremes(context, "aten::cummax", self, dim, true, values, indices);
}

Error cummin_out(KernelContext& context, const Tensor& self, int64_t dim, Tensor& values, Tensor& indices) {
  return extremes(context, "aten::cummin", self, dim, false, values, indices);
}

}  // namespace et::kernels::portable
