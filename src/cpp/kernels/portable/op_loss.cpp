// Losses of two tensors: a number for each pair of elements, or the mean or sum of these.
#include "kernels/portable/op_loss.h"

#include <cmath>

#include "kernels/portable/elementwise.h"
#include "kernels/portable/loop_nest.h"
#include "kernels/portable/loss_reduction.h"
#include "kernels/portable/reduce.h"

namespace et::kernels::portable {
namespace {

constexpr int64_t kChunk = 128;  // elements that are converted at a time

// The sum in double of fn over all pairs, each rounded to `common`, as a tensor of them would be.
// Errors: Cancelled; there may be far more pairs than elements.
template <typename C, typename Fn>
Error sum_losses(KernelContext& context, const char* op, ScalarType common, const Tensor& self, const Tensor& target,
                 const Sizes& sizes, const Fn& fn, double* total) {
  LoopNest nest(sizes);
  nest.add_broadcast(self);
  nest.add_broadcast(target);
  nest.simplify();
  const auto read = [&](const Tensor& tensor, size_t operand, char* const* pointers, int64_t start, int64_t n, C* to) {
    const int64_t stride = nest.run_stride(operand);
    load(tensor.scalar_type(), pointers[operand] + start * stride, stride / static_cast<int64_t>(tensor.element_size()),
         n, to);
  };
  *total = 0;
  nest.for_each_run([&](char* const* pointers, int64_t n) {
    C a[kChunk];
    C b[kChunk];
    for (int64_t start = 0; start < n && !context.cancelled(); start += kChunk) {
      const int64_t count = n - start < kChunk ? n - start : kChunk;
      read(self, 0, pointers, start, count, a);
      read(target, 1, pointers, start, count, b);
      for (int64_t i = 0; i < count; ++i) {
        a[i] = fn(a[i], b[i]);
      }
      if (common != dtype_of<C>) {
        alignas(8) char rounded[kChunk * sizeof(C)];
        store(common, static_cast<const C*>(a), count, rounded, 1);
        load(common, rounded, 1, count, a);
      }
      add_run(*total, static_cast<const C*>(a), count);
    }
  });
  ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", op);
  return Error::Ok;
}

// `make` gives the function of two numbers of the type of its argument.
template <typename Make>
Error loss(KernelContext& context, const char* op, const Tensor& self, const Tensor& target, int64_t reduction,
           Tensor& out, const Make& make) {
  const ScalarType common = result_type({&self, &target});
  ET_CHECK_OR_RETURN(is_floating(common), InvalidType, "%s: self and target are %s, must be floating", op,
                     to_string(common));
  ET_CHECK_OR_RETURN(reduction >= kEachLoss && reduction <= kSumOfLosses, InvalidArgument, "%s: reduction is %" PRId64,
                     op, reduction);
  ET_RETURN_IF_ERROR(check_can_cast(op, common, out.scalar_type()));
  return dispatch_float(common, [&](auto zero) -> Error {
    using C = decltype(zero);
    const auto fn = make(zero);
    if (reduction == kEachLoss) {
      return elementwise<C>(context, op, common, out, fn, self, target);
    }
    Sizes sizes;
    ET_RETURN_IF_ERROR(broadcast_sizes(op, self.sizes(), target.sizes(), &sizes));
    ET_RETURN_IF_ERROR(resize_tensor(context, out, {}));
    double total = 0;
    ET_RETURN_IF_ERROR(sum_losses<C>(context, op, common, self, target, sizes, fn, &total));
    store_loss(total, sizes.numel(), reduction, out);
    return Error::Ok;
  });
}

}  // namespace

Error huber_loss_out(KernelContext& context, const Tensor& self, const Tensor& target, int64_t reduction, double delta,
                     Tensor& out) {
  ET_CHECK_OR_RETURN(delta > 0, InvalidArgument, "aten::huber_loss: delta is %g, must be positive", delta);
  return loss(context, "aten::huber_loss", self, target, reduction, out, [delta](auto zero) {
    using C = decltype(zero);
    return [d = static_cast<C>(delta)](C a, C b) {
      const C z = std::fabs(a - b);
      return z < d ? C(0.5) * z * z : d * (z - C(0.5) * d);
    };
  });
}

Error mse_loss_out(KernelContext& context, const Tensor& self, const Tensor& target, int64_t reduction, Tensor& out) {
  return loss(context, "aten::mse_loss", self, target, reduction, out, [](auto zero) {
    using C = decltype(zero);
    return [](C a, C b) { return (a - b) * (a - b); };
  });
}

Error smooth_l1_loss_out(KernelContext& context, const Tensor& self, const Tensor& target, int64_t reduction,
                         double beta, Tensor& out) {
  ET_CHECK_OR_RETURN(beta >= 0, InvalidArgument, "aten::smooth_l1_loss: beta is %g, must not be negative", beta);
  return loss(context, "aten::smooth_l1_loss", self, target, reduction, out, [beta](auto zero) {
    using C = decltype(zero);
    return [d = static_cast<C>(beta)](C a, C b) {
      const C z = std::fabs(a - b);
      return z < d ? C(0.5) * z * z / d : z - C(0.5) * d;
    };
  });
}

}  // namespace et::kernels::portable
