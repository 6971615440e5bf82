// Reductions without positions: sum, mean, products, extremes, variance, any and all.
#include "kernels/portable/op_reduce.h"

#include <cmath>
#include <limits>

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/elementwise.h"
#include "kernels/portable/promote.h"
#include "kernels/portable/reduce.h"

namespace et::kernels::portable {
namespace {

using OptionalDims = std::optional<IntArrayRef>;
using OptionalType = std::optional<ScalarType>;

IntArrayRef dims_or_all(const OptionalDims& dims) { return dims.has_value() ? *dims : IntArrayRef(); }

Error check_result_type(const char* op, OptionalType dtype, const Tensor& out) {
  ET_CHECK_OR_RETURN(!dtype.has_value() || *dtype == out.scalar_type(), InvalidType, "%s: dtype is %s, out is %s", op,
                     to_string(*dtype), to_string(out.scalar_type()));
  return Error::Ok;
}

// Sums of complex numbers, in double.
Error complex_sum(KernelContext& context, const char* op, const Tensor& self, IntArrayRef dims, bool keepdim, bool mean,
                  Tensor& out) {
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  Reduction reduction;
  ET_RETURN_IF_ERROR(reduction.plan(context, op, self, dims, keepdim, {&out}));
  const double divisor = mean ? static_cast<double>(reduction.count()) : 1.0;
  const ScalarType part = self.scalar_type() == ScalarType::ComplexDouble ? ScalarType::Double : ScalarType::Float;
  for (int i = 0; i < 2; ++i) {
    reduction.take_part(i);
    reduction.run<double>(
        0.0, [](double& total, const double* values, int64_t n) { add_run(total, values, n); },
        [&](double total, char* const* outs) { store_one<double>(part, total / divisor, outs[0]); });
  }
  return Error::Ok;
}

// Sums in the type of `out`; floats in double.
Error sum(KernelContext& context, const char* op, const Tensor& self, IntArrayRef dims, bool keepdim, bool mean,
          Tensor& out) {
  const ScalarType dtype = out.scalar_type();
  if (is_complex(self.scalar_type())) {
    return complex_sum(context, op, self, dims, keepdim, mean, out);
  }
  ET_CHECK_OR_RETURN(!mean || is_floating(dtype), InvalidType, "%s: out is %s, must be floating", op, to_string(dtype));
  Reduction reduction;
  ET_RETURN_IF_ERROR(reduction.plan(context, op, self, dims, keepdim, {&out}));
  return dispatch_compute(dtype, [&](auto zero) {
    using C = decltype(zero);
    using Total = std::conditional_t<std::is_integral_v<C>, int64_t, double>;
    const Total divisor = mean ? static_cast<Total>(reduction.count()) : Total(1);
    reduction.run<C>(
        Total(0), [](Total& total, const C* values, int64_t n) { add_run(total, values, n); },
        [&](Total total, char* const* outs) {
          if constexpr (std::is_integral_v<C>) {
            store_one<int64_t>(dtype, total, outs[0]);
          } else {
            store_one<double>(dtype, mean ? total / divisor : total, outs[0]);
          }
        });
    return Error::Ok;
  });
}

Error prod(KernelContext& context, const Tensor& self, IntArrayRef dims, bool keepdim, Tensor& out) {
  Reduction reduction;
  ET_RETURN_IF_ERROR(reduction.plan(context, "aten::prod", self, dims, keepdim, {&out}));
  return dispatch_compute(out.scalar_type(), [&](auto zero) {
    using C = decltype(zero);
    reduction.run<C>(
        C(1),
        [](C& total, const C* values, int64_t n) {
          for (int64_t i = 0; i < n; ++i) {
            total = wrapping_mul(total, values[i]);
          }
        },
        [&](C total, char* const* outs) { store_one(out.scalar_type(), total, outs[0]); });
    return Error::Ok;
  });
}

Error extreme(KernelContext& context, const char* op, const Tensor& self, IntArrayRef dims, bool keepdim, bool largest,
              Tensor& out) {
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  Reduction reduction;
  ET_RETURN_IF_ERROR(reduction.plan(context, op, self, dims, keepdim, {&out}));
  ET_CHECK_OR_RETURN(reduction.count() > 0 || out.numel() == 0, InvalidArgument, "%s: no elements to choose from", op);
  return dispatch_compute(self.scalar_type(), [&](auto zero) {
    using C = decltype(zero);
    using Limits = std::numeric_limits<C>;
    const C top = Limits::has_infinity ? Limits::infinity() : Limits::max();
    const C bottom = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    reduction.run<C>(
        largest ? bottom : top,
        [largest](C& best, const C* values, int64_t n) {
          for (int64_t i = 0; i < n; ++i) {
            best = largest ? maximum(best, values[i]) : minimum(best, values[i]);
          }
        },
        [&](C best, char* const* outs) { store_one(out.scalar_type(), best, outs[0]); });
    return Error::Ok;
  });
}

// any: true when one element is; all: when no element is false.
Error truth(KernelContext& context, const char* op, const Tensor& self, IntArrayRef dims, bool keepdim, bool any,
            Tensor& out) {
  Reduction reduction;
  ET_RETURN_IF_ERROR(reduction.plan(context, op, self, dims, keepdim, {&out}));
  return dispatch_compute(self.scalar_type(), [&](auto zero) {
    using C = decltype(zero);
    reduction.run<C>(
        !any,
        [any](bool& result, const C* values, int64_t n) {
          bool found = false;  // an element that decides
          for (int64_t i = 0; i < n; ++i) {
            found |= is_true(values[i]) == any;
          }
          result = found ? any : result;
        },
        [&](bool result, char* const* outs) { store_one(out.scalar_type(), result, outs[0]); });
    return Error::Ok;
  });
}

// any and all over a list of dimensions: none means all of them, an empty list that each element stands alone.
Error truth_over(KernelContext& context, const char* op, const Tensor& self, const OptionalDims& dims, bool keepdim,
                 bool any, Tensor& out) {
  if (!dims.has_value() || !dims->empty()) {
    return truth(context, op, self, dims_or_all(dims), keepdim, any, out);
  }
  return dispatch_compute(self.scalar_type(), [&](auto zero) {
    using C = decltype(zero);
    return elementwise<C, bool>(context, op, self.scalar_type(), out, [](C value) { return is_true(value); }, self);
  });
}

// Count, mean and sum of squared deviations of what has been seen. A block of values is treated in two passes and then
// joined, so that mean and variance come from one walk over the input.
// Source: T. Chan, G. Golub, R. LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
// 1979.
struct Moments {
  double count = 0;
  double mean = 0;
  double squares = 0;

  template <typename C>
  void add(const C* values, int64_t n) {
    constexpr int64_t kBlock = 512;
    for (int64_t start = 0; start < n; start += kBlock) {
      join(values + start, n - start < kBlock ? n - start : kBlock);
    }
  }

  template <typename C>
  void join(const C* values, int64_t n) {
    // Around the first value, so that a constant far from 0 leaves no error.
    const double shift = static_cast<double>(values[0]);
    const auto size = static_cast<double>(n);
    const double block_mean = shift + sum_of(values, n, [shift](double x) { return x - shift; }) / size;
    const double block_squares =
        sum_of(values, n, [block_mean](double x) { return (x - block_mean) * (x - block_mean); });
    if (count == 0) {
      *this = {size, block_mean, block_squares};
      return;
    }
    const double total = count + size;
    const double delta = block_mean - mean;
    squares += block_squares + delta * delta * count * size / total;
    mean += delta * size / total;
    count = total;
  }

  template <typename C, typename Fn>
  static double sum_of(const C* values, int64_t n, const Fn& fn) {
    double lanes[4] = {};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
      for (int64_t k = 0; k < 4; ++k) {
        lanes[k] += fn(static_cast<double>(values[i + k]));
      }
    }
    for (; i < n; ++i) {
      lanes[0] += fn(static_cast<double>(values[i]));
    }
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  }
};

Error variance(KernelContext& context, const char* op, const Tensor& self, IntArrayRef dims, double correction,
               bool keepdim, bool root, Tensor& out, Tensor* mean) {
  ET_CHECK_OR_RETURN(is_floating(self.scalar_type()), InvalidType, "%s: self is %s, must be floating", op,
                     to_string(self.scalar_type()));
  ET_RETURN_IF_ERROR(check_can_cast(op, self.scalar_type(), out.scalar_type()));
  Reduction reduction;
  if (mean != nullptr) {
    ET_RETURN_IF_ERROR(reduction.plan(context, op, self, dims, keepdim, {&out, mean}));
  } else {
    ET_RETURN_IF_ERROR(reduction.plan(context, op, self, dims, keepdim, {&out}));
  }
  const double divisor = static_cast<double>(reduction.count()) - correction;
  return dispatch_float(self.scalar_type(), [&](auto zero) {
    using C = decltype(zero);
    reduction.run<C>(
        Moments{}, [](Moments& m, const C* values, int64_t n) { m.add(values, n); },
        [&](const Moments& m, char* const* outs) {
          const double nan = std::numeric_limits<double>::quiet_NaN();
          const double value = m.count == 0 ? nan : m.squares / (divisor > 0 ? divisor : 0.0);
          store_one(out.scalar_type(), root ? std::sqrt(value) : value, outs[0]);
          if (mean != nullptr) {
            store_one(mean->scalar_type(), m.count == 0 ? nan : m.mean, outs[1]);
          }
        });
    return Error::Ok;
  });
}

// Running maximum and sum of exp(x - maximum), so that one pass serves.
struct ExpSum {
  double largest = -std::numeric_limits<double>::infinity();
  double sum = 0;
};

double correction_or_one(const std::optional<Scalar>& correction) {
  return correction.has_value() ? correction->to<double>() : 1.0;
}

}  // namespace

Error sum_out(KernelContext& context, const Tensor& self, OptionalType dtype, Tensor& out) {
  ET_RETURN_IF_ERROR(check_result_type("aten::sum", dtype, out));
  return sum(context, "aten::sum", self, {}, false, false, out);
}

Error sum_intlist_out(KernelContext& context, const Tensor& self, OptionalDims dim, bool keepdim, OptionalType dtype,
                      Tensor& out) {
  ET_RETURN_IF_ERROR(check_result_type("aten::sum", dtype, out));
  return sum(context, "aten::sum", self, dims_or_all(dim), keepdim, false, out);
}

Error mean_out(KernelContext& context, const Tensor& self, OptionalDims dim, bool keepdim, OptionalType dtype,
               Tensor& out) {
  ET_RETURN_IF_ERROR(check_result_type("aten::mean", dtype, out));
  return sum(context, "aten::mean", self, dims_or_all(dim), keepdim, true, out);
}

Error mean_dtype_out(KernelContext& context, const Tensor& self, OptionalType dtype, Tensor& out) {
  return mean_out(context, self, std::nullopt, false, dtype, out);
}

Error prod_out(KernelContext& context, const Tensor& self, OptionalType dtype, Tensor& out) {
  ET_RETURN_IF_ERROR(check_result_type("aten::prod", dtype, out));
  return prod(context, self, {}, false, out);
}

Error prod_int_out(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, OptionalType dtype,
                   Tensor& out) {
  ET_RETURN_IF_ERROR(check_result_type("aten::prod", dtype, out));
  return prod(context, self, {dim}, keepdim, out);
}

Error amax_out(KernelContext& context, const Tensor& self, IntArrayRef dim, bool keepdim, Tensor& out) {
  return extreme(context, "aten::amax", self, dim, keepdim, true, out);
}

Error amin_out(KernelContext& context, const Tensor& self, IntArrayRef dim, bool keepdim, Tensor& out) {
  return extreme(context, "aten::amin", self, dim, keepdim, false, out);
}

Error max_unary_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return extreme(context, "aten::max", self, {}, false, true, out);
}

Error min_unary_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return extreme(context, "aten::min", self, {}, false, false, out);
}

Error any_all_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return truth(context, "aten::any", self, {}, false, true, out);
}

Error any_out(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, Tensor& out) {
  return truth(context, "aten::any", self, {dim}, keepdim, true, out);
}

Error any_dims_out(KernelContext& context, const Tensor& self, OptionalDims dim, bool keepdim, Tensor& out) {
  return truth_over(context, "aten::any", self, dim, keepdim, true, out);
}

Error all_all_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return truth(context, "aten::all", self, {}, false, false, out);
}

Error all_out(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, Tensor& out) {
  return truth(context, "aten::all", self, {dim}, keepdim, false, out);
}

Error all_dims_out(KernelContext& context, const Tensor& self, OptionalDims dim, bool keepdim, Tensor& out) {
  return truth_over(context, "aten::all", self, dim, keepdim, false, out);
}

Error var_out(KernelContext& context, const Tensor& self, OptionalDims dim, bool unbiased, bool keepdim, Tensor& out) {
  return variance(context, "aten::var", self, dims_or_all(dim), unbiased ? 1.0 : 0.0, keepdim, false, out, nullptr);
}

Error var_correction_out(KernelContext& context, const Tensor& self, OptionalDims dim,
                         const std::optional<Scalar>& correction, bool keepdim, Tensor& out) {
  return variance(context, "aten::var", self, dims_or_all(dim), correction_or_one(correction), keepdim, false, out,
                  nullptr);
}

Error std_correction_out(KernelContext& context, const Tensor& self, OptionalDims dim,
                         const std::optional<Scalar>& correction, bool keepdim, Tensor& out) {
  return variance(context, "aten::std", self, dims_or_all(dim), correction_or_one(correction), keepdim, true, out,
                  nullptr);
}

Error var_mean_correction_out(KernelContext& context, const Tensor& self, OptionalDims dim,
                              const std::optional<Scalar>& correction, bool keepdim, Tensor& out0, Tensor& out1) {
  return variance(context, "aten::var_mean", self, dims_or_all(dim), correction_or_one(correction), keepdim, false,
                  out0, &out1);
}

Error logsumexp_out(KernelContext& context, const Tensor& self, IntArrayRef dim, bool keepdim, Tensor& out) {
  constexpr const char* kOp = "aten::logsumexp";
  ET_RETURN_IF_ERROR(check_can_cast(kOp, to_floating(self.scalar_type()), out.scalar_type()));
  Reduction reduction;
  ET_RETURN_IF_ERROR(reduction.plan(context, kOp, self, dim, keepdim, {&out}));
  reduction.run<double>(
      ExpSum{},
      [](ExpSum& s, const double* values, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          if (values[i] > s.largest || is_nan(values[i])) {
            s.sum = s.sum * std::exp(s.largest - values[i]) + 1;
            s.largest = values[i];
          } else if (std::isfinite(s.largest) || values[i] != s.largest) {
            s.sum += std::exp(values[i] - s.largest);
          }
        }
      },
      [&](const ExpSum& s, char* const* outs) {
        const double value = std::isinf(s.largest) ? s.largest : s.largest + std::log(s.sum);
        store_one(out.scalar_type(), value, outs[0]);
      });
  return Error::Ok;
}

Error linalg_vector_norm_out(KernelContext& context, const Tensor& self, const Scalar& ord, OptionalDims dim,
                             bool keepdim, std::optional<ScalarType>, Tensor& out) {
  constexpr const char* kOp = "aten::linalg_vector_norm";
  ET_CHECK_OR_RETURN(is_floating(self.scalar_type()) && is_floating(out.scalar_type()), InvalidType,
                     "%s: self is %s, out is %s, must be floating", kOp, to_string(self.scalar_type()),
                     to_string(out.scalar_type()));
  Reduction reduction;
  ET_RETURN_IF_ERROR(reduction.plan(context, kOp, self, dims_or_all(dim), keepdim, {&out}));
  const double p = ord.to<double>();
  const double infinity = std::numeric_limits<double>::infinity();
  ET_CHECK_OR_RETURN(reduction.count() > 0 || (p >= 0 && p != infinity), InvalidArgument,
                     "%s: order %g of no elements is not defined", kOp, p);
  reduction.run<double>(
      p == -infinity ? infinity : 0.0,
      [p, infinity](double& total, const double* values, int64_t n) {
        const auto fold = [&](auto fn) {
          double result = total;
          for (int64_t i = 0; i < n; ++i) {
            result = fn(result, std::fabs(values[i]));
          }
          total = result;
        };
        if (p == 2) {
          fold([](double sum, double x) { return sum + x * x; });
        } else if (p == 1) {
          fold([](double sum, double x) { return sum + x; });
        } else if (p == infinity) {
          fold([](double best, double x) { return maximum(best, x); });
        } else if (p == -infinity) {
          fold([](double best, double x) { return minimum(best, x); });
        } else if (p == 0) {
          fold([](double count, double x) { return count + (x != 0 ? 1 : 0); });
        } else {
          fold([p](double sum, double x) { return sum + std::pow(x, p); });
        }
      },
      [&](double total, char* const* outs) {
        const bool as_is = std::isinf(p) || p == 0 || p == 1;
        store_one(out.scalar_type(), as_is ? total : p == 2 ? std::sqrt(total) : std::pow(total, 1 / p), outs[0]);
      });
  return Error::Ok;
}

}  // namespace et::kernels::portable
