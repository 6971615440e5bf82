// Losses of two tensors of one shape (huber_loss, mse_loss, smooth_l1_loss) in one pass, whatever becomes of them: the
// losses themselves, their mean or their sum.
//
// 16-bit floats are converted a chunk at a time. Sums of a chunk are of the type computed in, those of chunks doubles;
// which parts a tensor is summed in depends on its size only, not on the number of threads.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>

#include "base/rounding.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/float_runs.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "kernels/portable/loss_reduction.h"
#include "kernels/portable/op_loss.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::reduce::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

/// out[i] = fn(a[i], b[i]).
template <class T, class Fn>
HWY_INLINE void each_pair(const Fn& fn, const T* a, const T* b, T* out, size_t n) {
  const hn::ScalableTag<T> d;
  over_vectors<T>(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    store(d, whole, fn(load(d, whole, a + i, left), load(d, whole, b + i, left)), out + i, left);
  });
}

/// Losses that are half a square as long as z, the distance of a pair, is below `number`, and go on as a line from
/// there. near(z * z / 2, number) and far(z - number / 2, number) give both parts.
template <class T, class Near, class Far>
HWY_INLINE void piecewise(const Near& near, const Far& far, const T* a, const T* b, T* out, size_t n, T number) {
  const hn::ScalableTag<T> d;
  const auto limit = hn::Set(d, number);
  const auto half = hn::Set(d, T(0.5));
  const auto offset = hn::Set(d, T(0.5) * number);
  each_pair(
      [=](auto x, auto y) HWY_ATTR {
        const auto z = hn::Abs(hn::Sub(x, y));
        return hn::IfThenElse(hn::Lt(z, limit), near(hn::Mul(hn::Mul(half, z), z), limit),
                              far(hn::Sub(z, offset), limit));
      },
      a, b, out, n);
}

template <class T>
void Huber(const T* a, const T* b, T* out, size_t n, T delta) {
  piecewise([](auto square, auto) HWY_ATTR { return square; },
            [](auto line, auto limit) HWY_ATTR { return hn::Mul(limit, line); }, a, b, out, n, delta);
}

template <class T>
void SmoothL1(const T* a, const T* b, T* out, size_t n, T beta) {
  piecewise([](auto square, auto limit) HWY_ATTR { return hn::Div(square, limit); },
            [](auto line, auto) HWY_ATTR { return line; }, a, b, out, n, beta);
}

template <class T>
void Squares(const T* a, const T* b, T* out, size_t n, T /*unused*/) {
  each_pair(
      [](auto x, auto y) HWY_ATTR {
        const auto z = hn::Sub(x, y);
        return hn::Mul(z, z);
      },
      a, b, out, n);
}

template <class T>
T Sum(const T* x, size_t n) {
  return sum_of([](auto v) HWY_ATTR { return v; }, x, n);
}

}  // namespace et::kernels::optimized::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::reduce {

enum class Loss { kHuber, kSquares, kSmoothL1 };

/// The compiled functions for elements of type T.
template <typename T>
struct LossFunctions {
  void (*losses)(const T* a, const T* b, T* out, size_t n, T number);
  T (*sum)(const T* x, size_t n);
};
template <typename T>
LossFunctions<T> loss_functions(Loss loss) {
  HWY_EXPORT_T(HuberOf, Huber<T>);
  HWY_EXPORT_T(SquaresOf, Squares<T>);
  HWY_EXPORT_T(SmoothL1Of, SmoothL1<T>);
  HWY_EXPORT_T(SumOf, Sum<T>);
  const auto sum = HWY_DYNAMIC_POINTER_T(SumOf);
  switch (loss) {
    case Loss::kHuber: return {HWY_DYNAMIC_POINTER_T(HuberOf), sum};
    case Loss::kSquares: return {HWY_DYNAMIC_POINTER_T(SquaresOf), sum};
    default: return {HWY_DYNAMIC_POINTER_T(SmoothL1Of), sum};
  }
}

namespace {

constexpr size_t kChunk = 512;  // elements at a time: what is converted, and the losses that are summed
constexpr size_t kParts = 64;   // sums at most that a tensor's is made of
constexpr size_t kCost = 2;     // of an element, next to a copy

/// The losses of elements [begin, end) to `out`.
template <typename T>
void write_losses(const LossFunctions<T>& functions, T number, const Tensor& self, const Tensor& target,
                  const Tensor& out, size_t begin, size_t end) {
  T a[kChunk], b[kChunk], losses[kChunk];
  for (size_t at = begin; at < end; at += kChunk) {
    const size_t n = std::min(kChunk, end - at);
    T* const to = elements_for(out, at, losses);
    functions.losses(elements_of(self, at, n, a), elements_of(target, at, n, b), to, n, number);
    write_elements(out, at, n, to);
  }
}

/// The sum of the losses of elements [begin, end), each rounded to the tensors' type, as a tensor of them would be.
template <typename T>
double sum_losses(const LossFunctions<T>& functions, T number, const Tensor& self, const Tensor& target, size_t begin,
                  size_t end) {
  T a[kChunk], b[kChunk], losses[kChunk];
  double total = 0;
  for (size_t at = begin; at < end; at += kChunk) {
    const size_t n = std::min(kChunk, end - at);
    functions.losses(elements_of(self, at, n, a), elements_of(target, at, n, b), losses, n, number);
    if constexpr (std::is_same_v<T, float>) {
      if (self.scalar_type() != ScalarType::Float) {
        uint16_t rounded[kChunk];
        floats_to(self.scalar_type(), losses, n, rounded);
        floats_from(self.scalar_type(), rounded, 1, n, losses);
      }
    }
    total += static_cast<double>(functions.sum(losses, n));
  }
  return total;
}

/// Tensors whose elements lie side by side, pair by pair.
template <typename T>
Error run(KernelContext& context, Loss loss, double number_given, const Tensor& self, const Tensor& target,
          int64_t reduction, const Tensor& out) {
  const LossFunctions<T> functions = loss_functions<T>(loss);
  const T number = static_cast<T>(number_given);
  const auto count = static_cast<size_t>(self.numel());
  if (reduction == portable::kEachLoss) {
    ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
    threads::parallel_for(context, count, threads::grain_for(kCost), [&](size_t begin, size_t end) {
      write_losses(functions, number, self, target, out, begin, end);
    });
    return Error::Ok;
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {}));
  const size_t chunks = divide_up(count, kChunk);
  const size_t length = std::max<size_t>(1, divide_up(chunks, kParts)) * kChunk;
  const size_t parts = divide_up(count, length);
  double sums[kParts] = {};
  threads::parallel_for(context, parts, threads::grain_for(kCost * length), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      sums[i] = sum_losses(functions, number, self, target, i * length, std::min(count, (i + 1) * length));
    }
  });
  double total = 0;
  for (size_t i = 0; i < parts; ++i) {
    total += sums[i];
  }
  portable::store_loss(total, self.numel(), reduction, out);
  return Error::Ok;
}

/// What the portable kernel takes or refuses otherwise: other reductions, shapes that broadcast, orders that differ.
bool is_plain(const Tensor& self, const Tensor& target, int64_t reduction, const Tensor& out) {
  const auto in_order = [&](const Tensor& tensor) {
    return equal(runtime::dim_order(tensor), runtime::dim_order(self));
  };
  return reduction >= portable::kEachLoss && reduction <= portable::kSumOfLosses &&
         equal(self.sizes(), target.sizes()) && in_order(target) && (reduction != portable::kEachLoss || in_order(out));
}

Error run_loss(KernelContext& context, Loss loss, double number, const Tensor& self, const Tensor& target,
               int64_t reduction, const Tensor& out) {
  return self.scalar_type() == ScalarType::Double ? run<double>(context, loss, number, self, target, reduction, out)
                                                  : run<float>(context, loss, number, self, target, reduction, out);
}

Error huber_loss_out(KernelContext& context, const Tensor& self, const Tensor& target, int64_t reduction, double delta,
                     Tensor& out) {
  return delta > 0 && is_plain(self, target, reduction, out)
             ? run_loss(context, Loss::kHuber, delta, self, target, reduction, out)
             : portable::huber_loss_out(context, self, target, reduction, delta, out);
}

Error mse_loss_out(KernelContext& context, const Tensor& self, const Tensor& target, int64_t reduction, Tensor& out) {
  return is_plain(self, target, reduction, out) ? run_loss(context, Loss::kSquares, 0, self, target, reduction, out)
                                                : portable::mse_loss_out(context, self, target, reduction, out);
}

Error smooth_l1_loss_out(KernelContext& context, const Tensor& self, const Tensor& target, int64_t reduction,
                         double beta, Tensor& out) {
  return beta >= 0 && is_plain(self, target, reduction, out)
             ? run_loss(context, Loss::kSmoothL1, beta, self, target, reduction, out)
             : portable::smooth_l1_loss_out(context, self, target, reduction, beta, out);
}

/// loss(self, target, reduction, [number,] out): floats or doubles of one type.
bool fits_loss(Arguments args) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  return (is_up_to_float(dtype) || dtype == ScalarType::Double) && args[1]->to_tensor().scalar_type() == dtype &&
         args[args.size() - 1]->to_tensor().scalar_type() == dtype;
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&huber_loss_out, &fits_loss>("aten::huber_loss.out"),
    make_fitting_kernel<&mse_loss_out, &fits_loss>("aten::mse_loss.out"),
    make_fitting_kernel<&smooth_l1_loss_out, &fits_loss>("aten::smooth_l1_loss.out"),
};

}  // namespace

ET_KERNEL_TABLE(losses, kKernels)

}  // namespace et::kernels::optimized::reduce
#endif  // HWY_ONCE
