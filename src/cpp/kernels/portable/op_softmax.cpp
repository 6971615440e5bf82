#include "kernels/portable/op_softmax.h"

#include <cmath>

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/reduce.h"
#include "kernels/portable/strided_copy.h"
#include "threads/parallel.h"

namespace et::kernels::portable {
namespace {

// softmax: out = exp(x - m) / sum exp(x - m); log_softmax: out = x - m - log(sum exp(x - m)); m = max of the lane.
template <typename C>
void softmax_lane(const KernelContext& context, C* values, int64_t n, bool log) {
  constexpr size_t kLook = 1 << 14;  // exponential functions between two looks at whether the caller asked to stop
  C largest = values[0];
  for (int64_t i = 1; i < n; ++i) {
    largest = maximum(largest, values[i]);
  }
  C sum = 0;
  if (log) {
    double total = 0;
    threads::in_pieces(context, static_cast<size_t>(n), kLook, [&](size_t i, size_t end) {
      for (; i < end; ++i) {
        total += static_cast<double>(std::exp(values[i] - largest));
      }
    });
    const C shift = static_cast<C>(std::log(total));
    for (int64_t i = 0; i < n; ++i) {
      values[i] = values[i] - largest - shift;
    }
    return;
  }
  threads::in_pieces(context, static_cast<size_t>(n), kLook, [&](size_t i, size_t end) {
    for (; i < end; ++i) {
      values[i] = std::exp(values[i] - largest);
    }
  });
  add_run(sum, values, n);
  for (int64_t i = 0; i < n; ++i) {
    values[i] /= sum;
  }
}

Error softmax(KernelContext& context, const char* op, const Tensor& self, int64_t dim, bool half_to_float, bool log,
              Tensor& out) {
  ET_RETURN_IF_ERROR(normalize_dim(op, dim, self.dim(), &dim));
  const ScalarType dtype = self.scalar_type();
  ET_CHECK_OR_RETURN(is_floating(dtype), InvalidType, "%s: self is %s, must be floating", op, to_string(dtype));
  ET_CHECK_OR_RETURN(out.scalar_type() == (half_to_float ? ScalarType::Float : dtype), InvalidType, "%s: out is %s", op,
                     to_string(out.scalar_type()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  if (self.numel() == 0) {
    return Error::Ok;
  }
  const int64_t length = self.dim() == 0 ? 1 : self.size(dim);
  const int64_t in_stride = self.dim() == 0 ? 1 : self.stride(dim);
  const int64_t out_stride = self.dim() == 0 ? 1 : out.stride(dim);
  Window from = self.dim() == 0 ? window_of(self) : select_of(self, dim, 0);
  Window to = self.dim() == 0 ? window_of(out) : select_of(out, dim, 0);
  LoopNest lanes(from.sizes);
  lanes.add(to.data, to.strides, out.element_size());
  lanes.add(from.data, from.strides, self.element_size());
  lanes.simplify();
  return dispatch_float(dtype, [&](auto zero) {
    using C = decltype(zero);
    ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(length) * sizeof(C)));
    C* lane = static_cast<C*>(memory);
    lanes.for_each_run([&](char* const* pointers, int64_t n) {
      for (int64_t i = 0; i < n && !context.cancelled(); ++i) {
        load(dtype, pointers[1] + i * lanes.run_stride(1), in_stride, length, lane);
        softmax_lane(context, lane, length, log);
        store(out.scalar_type(), lane, length, pointers[0] + i * lanes.run_stride(0), out_stride);
      }
    });
    return Error::Ok;
  });
}

}  // namespace

Error softmax_out(KernelContext& context, const Tensor& self, int64_t dim, bool half_to_float, Tensor& out) {
  return softmax(context, "aten::_softmax", self, dim, half_to_float, false, out);
}

Error log_softmax_out(KernelContext& context, const Tensor& self, int64_t dim, bool half_to_float, Tensor& out) {
  return softmax(context, "aten::_log_softmax", self, dim, half_to_float, true, out);
}

namespace {

// The composite forms take a dtype: the input is seen in it.
Error softmax_as(KernelContext& context, const char* op, const Tensor& self, int64_t dim, bool log, Tensor& out) {
  ET_CHECK_OR_RETURN(self.scalar_type() == out.scalar_type(), NotSupported,
                     "%s: self is %s, out is %s; cast before the operator", op, to_string(self.scalar_type()),
                     to_string(out.scalar_type()));
  return softmax(context, op, self, dim, false, log, out);
}

}  // namespace

Error softmax_int_out(KernelContext& context, const Tensor& self, int64_t dim, std::optional<ScalarType>, Tensor& out) {
  return softmax_as(context, "aten::softmax", self, dim, false, out);
}

Error log_softmax_int_out(KernelContext& context, const Tensor& self, int64_t dim, std::optional<ScalarType>,
                          Tensor& out) {
  return softmax_as(context, "aten::log_softmax", self, dim, true, out);
}

}  // namespace et::kernels::portable
