// Activation functions. Computed in float for the 16-bit types, as in ATen.
#include "kernels/portable/op_activation.h"

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/elementwise.h"
#include "kernels/portable/loop_nest.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::portable {
namespace {

template <typename C>
C sigmoid_of(C x) {
  return C(1) / (C(1) + std::exp(-x));
}

template <typename C>
C clamp_to(C x, C low, C high) {
  return is_nan(x) ? x : x < low ? low : x > high ? high : x;
}

// Like same_type_unary, but refuses integers, as ATen does for activations.
template <typename MakeFn>
Error activation(KernelContext& context, const char* op, const Tensor& self, Tensor& out, const MakeFn& make_fn) {
  const ScalarType common = self.scalar_type();
  ET_CHECK_OR_RETURN(is_floating(common), InvalidType, "%s: self is %s, must be floating", op, to_string(common));
  ET_RETURN_IF_ERROR(check_can_cast(op, common, out.scalar_type()));
  return dispatch_float(common, [&](auto zero) {
    using C = decltype(zero);
    return elementwise<C>(context, op, common, out, make_fn(zero), self);
  });
}

}  // namespace

Error hardtanh_out(KernelContext& context, const Tensor& self, const Scalar& min_val, const Scalar& max_val,
                   Tensor& out) {
  const ScalarType common = self.scalar_type();
  ET_RETURN_IF_ERROR(check_can_cast("aten::hardtanh", common, out.scalar_type()));
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    const C low = scalar_to<C>(min_val);
    const C high = scalar_to<C>(max_val);
    return elementwise<C>(context, "aten::hardtanh", common, out, [=](C x) { return clamp_to(x, low, high); }, self);
  });
}

Error hardswish_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return activation(context, "aten::hardswish", self, out, [](auto zero) {
    using C = decltype(zero);
    return [](C x) { return x * clamp_to(x + C(3), C(0), C(6)) / C(6); };
  });
}

Error hardsigmoid_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return activation(context, "aten::hardsigmoid", self, out, [](auto zero) {
    using C = decltype(zero);
    return [](C x) { return clamp_to(x + C(3), C(0), C(6)) / C(6); };
  });
}

Error silu_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return activation(context, "aten::silu", self, out, [](auto zero) {
    using C = decltype(zero);
    return [](C x) { return x / (C(1) + std::exp(-x)); };
  });
}

Error swish_out(KernelContext& context, const Tensor& self, const Scalar& beta, Tensor& out) {
  return activation(context, "et::swish", self, out, [&](auto zero) {
    using C = decltype(zero);
    return [b = scalar_to<C>(beta)](C x) { return x / (C(1) + std::exp(-(b * x))); };
  });
}

Error mish_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return activation(context, "aten::mish", self, out, [](auto zero) {
    using C = decltype(zero);
    return [](C x) { return x * std::tanh(std::log1p(std::exp(x))); };
  });
}

Error softplus_out(KernelContext& context, const Tensor& self, const Scalar& beta, const Scalar& threshold,
                   Tensor& out) {
  return activation(context, "aten::softplus", self, out, [&](auto zero) {
    using C = decltype(zero);
    return [b = scalar_to<C>(beta), t = scalar_to<C>(threshold)](C x) {
      return x * b > t ? x : std::log1p(std::exp(x * b)) / b;
    };
  });
}

// The number is an element of the tensor's type, unlike softshrink's.
Error hardshrink_out(KernelContext& context, const Tensor& self, const Scalar& lambd, Tensor& out) {
  return activation(context, "aten::hardshrink", self, out, [&](auto zero) {
    using C = decltype(zero);
    alignas(8) char element[8] = {};
    store_scalar(self.scalar_type(), lambd, element);
    return [l = load_one<C>(self.scalar_type(), element)](C x) { return x >= -l && x <= l ? C(0) : x; };
  });
}

// NaN stays. (The sign of a zero that is made depends on its place in eager.)
Error softshrink_out(KernelContext& context, const Tensor& self, const Scalar& lambd, Tensor& out) {
  return activation(context, "aten::softshrink", self, out, [&](auto zero) {
    using C = decltype(zero);
    return [l = scalar_to<C>(lambd)](C x) { return x > l ? x - l : x < -l ? x + l : x * C(0); };
  });
}

Error gelu_out(KernelContext& context, const Tensor& self, std::string_view approximate, Tensor& out) {
  ET_CHECK_OR_RETURN(approximate == "none" || approximate == "tanh", InvalidArgument,
                     "aten::gelu: approximate is '%.*s', not 'none' or 'tanh'", static_cast<int>(approximate.size()),
                     approximate.data());
  if (approximate == "tanh") {
    return activation(context, "aten::gelu", self, out, [](auto zero) {
      using C = decltype(zero);
      return [](C x) {
        constexpr C kSqrt2OverPi = C(0.79788456080286535588);
        return C(0.5) * x * (C(1) + std::tanh(kSqrt2OverPi * (x + C(0.044715) * x * x * x)));
      };
    });
  }
  return activation(context, "aten::gelu", self, out, [](auto zero) {
    using C = decltype(zero);
    return [](C x) { return x * C(0.5) * (C(1) + std::erf(x * C(0.70710678118654752440))); };
  });
}

Error leaky_relu_out(KernelContext& context, const Tensor& self, const Scalar& negative_slope, Tensor& out) {
  return activation(context, "aten::leaky_relu", self, out, [&](auto zero) {
    using C = decltype(zero);
    return [slope = scalar_to<C>(negative_slope)](C x) { return x > C(0) ? x : x * slope; };
  });
}

Error elu_out(KernelContext& context, const Tensor& self, const Scalar& alpha, const Scalar& scale,
              const Scalar& input_scale, Tensor& out) {
  return activation(context, "aten::elu", self, out, [&](auto zero) {
    using C = decltype(zero);
    return [a = scalar_to<C>(alpha) * scalar_to<C>(scale), s = scalar_to<C>(scale),
            i = scalar_to<C>(input_scale)](C x) { return x < C(0) ? std::expm1(x * i) * a : x * s; };
  });
}

Error log_sigmoid_forward_output(KernelContext& context, const Tensor& self, Tensor& output, Tensor& buffer) {
  // `buffer` is what the backward pass keeps: exp(-|x|).
  ET_RETURN_IF_ERROR(activation(context, "aten::log_sigmoid_forward", self, buffer, [](auto zero) {
    using C = decltype(zero);
    return [](C x) { return std::exp(-std::fabs(x)); };
  }));
  return activation(context, "aten::log_sigmoid_forward", self, output, [](auto zero) {
    using C = decltype(zero);
    return [](C x) { return minimum(x, C(0)) - std::log1p(std::exp(-std::fabs(x))); };
  });
}

Error logit_out(KernelContext& context, const Tensor& self, std::optional<double> eps, Tensor& out) {
  return float_unary(context, "aten::logit", self, out, [eps](auto x) {
    using C = decltype(x);
    if (eps.has_value()) {
      const C low = static_cast<C>(*eps);
      x = clamp_to(x, low, C(1) - low);
    }
    return static_cast<C>(std::log(x / (C(1) - x)));
  });
}

Error glu_out(KernelContext& context, const Tensor& self, int64_t dim, Tensor& out) {
  constexpr const char* kOp = "aten::glu";
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 1, kMaxRank));
  ET_RETURN_IF_ERROR(normalize_dim(kOp, dim, self.dim(), &dim));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  const ScalarType dtype = self.scalar_type();
  ET_CHECK_OR_RETURN(is_floating(dtype), InvalidType, "%s: self is %s, must be floating", kOp, to_string(dtype));
  ET_CHECK_OR_RETURN(self.size(dim) % 2 == 0, InvalidArgument, "%s: size %" PRId64 " of dim %" PRId64 " is odd", kOp,
                     self.size(dim), dim);
  const int64_t half = self.size(dim) / 2;
  Sizes sizes(self.sizes());
  sizes[dim] = half;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  const Window values = slice_of(self, dim, 0, half);
  const Window gates = slice_of(self, dim, half, half);
  LoopNest nest(sizes);
  nest.add(out.const_data_ptr(), out.strides(), out.element_size());
  nest.add(values.data, values.strides, self.element_size());
  nest.add(gates.data, gates.strides, self.element_size());
  nest.simplify();
  return dispatch_float(dtype, [&](auto zero) {
    using C = decltype(zero);
    nest.for_each_run([&](char* const* pointers, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const C value = load_one<C>(dtype, pointers[1] + i * nest.run_stride(1));
        const C gate = load_one<C>(dtype, pointers[2] + i * nest.run_stride(2));
        store_one(dtype, value * sigmoid_of(gate), pointers[0] + i * nest.run_stride(0));
      }
    });
    return Error::Ok;
  });
}

Error prelu_out(KernelContext& context, const Tensor& self, const Tensor& weight, Tensor& out) {
  const ScalarType common = self.scalar_type();
  ET_CHECK_OR_RETURN(is_floating(common), InvalidType, "aten::_prelu_kernel: self is %s, must be floating",
                     to_string(common));
  return dispatch_float(common, [&](auto zero) {
    using C = decltype(zero);
    return elementwise<C>(
        context, "aten::_prelu_kernel", common, out, [](C x, C w) { return x > C(0) ? x : x * w; }, self, weight);
  });
}

}  // namespace et::kernels::portable
