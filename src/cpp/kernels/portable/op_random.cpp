#include "kernels/portable/op_random.h"

#include "kernels/portable/convert.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/random.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

namespace et::kernels::portable {
namespace {

// Calls body(i) for i = 0 … n - 1 in turn, until the caller asks to stop.
template <typename Body>
void for_each_draw(const KernelContext& context, int64_t n, const Body& body) {
  constexpr size_t kLook = 1 << 14;  // draws between two looks
  threads::in_pieces(context, static_cast<size_t>(n), kLook, [&](size_t begin, size_t end) {
    for (auto i = static_cast<int64_t>(begin); i < static_cast<int64_t>(end); ++i) {
      body(i);
    }
  });
}

// Fills `out` with draw(philox, zero) in memory order; `zero` has the type to draw in.
template <typename Draw>
void fill_random(KernelContext& context, const Tensor& out, Draw draw) {
  Philox philox(context.random());
  const ScalarType dtype = out.scalar_type();
  for_each_draw(context, out.numel(), [&](int64_t i) {
    if (dtype == ScalarType::Double) {
      store_one<double>(dtype, draw(philox, double{}), out.mutable_data_ptr(), i);
    } else {
      store_one<float>(dtype, draw(philox, float{}), out.mutable_data_ptr(), i);
    }
  });
}

Error check_floating(const char* op, const Tensor& out) {
  ET_CHECK_OR_RETURN(is_floating(out.scalar_type()), InvalidType, "%s: out is %s, takes floating types", op,
                     to_string(out.scalar_type()));
  return Error::Ok;
}

Error uniform(KernelContext& context, const char* op, IntArrayRef sizes, const Tensor& out) {
  ET_RETURN_IF_ERROR(check_floating(op, out));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  fill_random(context, out, [](Philox& philox, auto zero) { return philox.uniform<decltype(zero)>(); });
  return Error::Ok;
}

Error normal(KernelContext& context, const char* op, IntArrayRef sizes, const Tensor& out) {
  ET_RETURN_IF_ERROR(check_floating(op, out));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  fill_random(context, out, [](Philox& philox, auto zero) { return philox.normal<decltype(zero)>(); });
  return Error::Ok;
}

Error integers(KernelContext& context, const char* op, int64_t low, int64_t high, IntArrayRef sizes,
               const Tensor& out) {
  ET_CHECK_OR_RETURN(low < high, InvalidArgument, "%s: low %" PRId64 " is not below high %" PRId64, op, low, high);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  Philox philox(context.random());
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  for_each_draw(context, out.numel(), [&](int64_t i) {
    const int64_t value = static_cast<int64_t>(static_cast<uint64_t>(low) + philox.below(range));
    store_one<int64_t>(out.scalar_type(), value, out.mutable_data_ptr(), i);
  });
  return Error::Ok;
}

}  // namespace

Error rand_out(KernelContext& context, IntArrayRef size, Tensor& out) {
  return uniform(context, "aten::rand", size, out);
}

Error rand_like_out(KernelContext& context, const Tensor& self, std::optional<int64_t>, Tensor& out) {
  return uniform(context, "aten::rand_like", self.sizes(), out);
}

Error randn_out(KernelContext& context, IntArrayRef size, Tensor& out) {
  return normal(context, "aten::randn", size, out);
}

Error randn_like_out(KernelContext& context, const Tensor& self, std::optional<int64_t>, Tensor& out) {
  return normal(context, "aten::randn_like", self.sizes(), out);
}

Error randint_out(KernelContext& context, int64_t high, IntArrayRef size, Tensor& out) {
  return integers(context, "aten::randint", 0, high, size, out);
}

Error randint_low_out(KernelContext& context, int64_t low, int64_t high, IntArrayRef size, Tensor& out) {
  return integers(context, "aten::randint", low, high, size, out);
}

Error randint_like_out(KernelContext& context, const Tensor& self, int64_t high, std::optional<int64_t>, Tensor& out) {
  return integers(context, "aten::randint_like", 0, high, self.sizes(), out);
}

Error randint_like_low_dtype_out(KernelContext& context, const Tensor& self, int64_t low, int64_t high,
                                 std::optional<int64_t>, Tensor& out) {
  return integers(context, "aten::randint_like", low, high, self.sizes(), out);
}

Error randperm_out(KernelContext& context, int64_t n, Tensor& out) {
  ET_CHECK_OR_RETURN(n >= 0, InvalidArgument, "aten::randperm: n is %" PRId64 ", must not be negative", n);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {n}));
  const ScalarType dtype = out.scalar_type();
  void* data = out.mutable_data_ptr();
  for_each_draw(context, n, [&](int64_t i) { store_one<int64_t>(dtype, i, data, i); });
  Philox philox(context.random());
  for_each_draw(context, n > 0 ? n - 1 : 0, [&](int64_t drawn) {  // Fisher and Yates
    const int64_t i = n - 1 - drawn;
    const int64_t j = static_cast<int64_t>(philox.below(static_cast<uint64_t>(i) + 1));
    const int64_t a = load_one<int64_t>(dtype, data, i);
    store_one<int64_t>(dtype, load_one<int64_t>(dtype, data, j), data, i);
    store_one<int64_t>(dtype, a, data, j);
  });
  return Error::Ok;
}

Error bernoulli_float_out(KernelContext& context, const Tensor& self, double p, std::optional<int64_t>, Tensor& out) {
  ET_CHECK_OR_RETURN(p >= 0 && p <= 1, InvalidArgument, "aten::bernoulli: p is %g, must lie in [0, 1]", p);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  fill_random(context, out, [p](Philox& philox, auto zero) {
    using T = decltype(zero);
    return static_cast<T>(philox.uniform<T>() < static_cast<T>(p) ? 1 : 0);
  });
  return Error::Ok;
}

Error bernoulli_out(KernelContext& context, const Tensor& self, std::optional<int64_t>, Tensor& out) {
  constexpr const char* kOp = "aten::bernoulli";
  const ScalarType dtype = self.scalar_type();
  ET_CHECK_OR_RETURN(is_floating(dtype), InvalidType, "%s: self is %s, must be floating", kOp, to_string(dtype));
  for (int64_t i = 0; i < self.numel(); ++i) {
    const double p = load_one<double>(dtype, self.const_data_ptr(), i);
    ET_CHECK_OR_RETURN(p >= 0 && p <= 1, InvalidArgument, "%s: element %" PRId64 " is %g, must lie in [0, 1]", kOp, i,
                       p);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&self, &out}));
  Philox philox(context.random());
  for_each_draw(context, self.numel(), [&](int64_t i) {
    const double p = load_one<double>(dtype, self.const_data_ptr(), i);
    store_one<int64_t>(out.scalar_type(), philox.uniform<double>() < p ? 1 : 0, out.mutable_data_ptr(), i);
  });
  return Error::Ok;
}

Error multinomial_out(KernelContext& context, const Tensor& self, int64_t num_samples, bool replacement,
                      std::optional<int64_t>, Tensor& out) {
  constexpr const char* kOp = "aten::multinomial";
  const ScalarType dtype = self.scalar_type();
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 1, 2));
  ET_CHECK_OR_RETURN(is_floating(dtype) && out.scalar_type() == ScalarType::Long, InvalidType,
                     "%s: self is %s, out is %s", kOp, to_string(dtype), to_string(out.scalar_type()));
  const int64_t n = self.size(-1);
  const int64_t rows = self.dim() == 2 ? self.size(0) : 1;
  ET_CHECK_OR_RETURN(num_samples > 0 && (replacement || num_samples <= n), InvalidArgument,
                     "%s: %" PRId64 " samples of %" PRId64 " categories", kOp, num_samples, n);
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&self}));
  for (int64_t i = 0; i < self.numel(); ++i) {
    const double p = load_one<double>(dtype, self.const_data_ptr(), i);
    ET_CHECK_OR_RETURN(p >= 0 && std::isfinite(p), InvalidArgument, "%s: weight %" PRId64 " is %g", kOp, i, p);
  }
  Sizes sizes(self.sizes());
  sizes[self.dim() - 1] = num_samples;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&out}));
  ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(n) * sizeof(double)));
  double* weights = static_cast<double*>(memory);
  auto* samples = static_cast<int64_t*>(out.mutable_data_ptr());
  Philox philox(context.random());
  for (int64_t r = 0; r < rows; ++r) {
    double total = 0;
    for (int64_t i = 0; i < n; ++i) {
      weights[i] = load_one<double>(dtype, self.const_data_ptr(), r * n + i);
      total += weights[i];
    }
    for (int64_t s = 0; s < num_samples; ++s) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", kOp);
      const double target = philox.uniform<double>() * total;
      double sum = 0;
      int64_t choice = -1;
      for (int64_t i = 0; i < n && (choice < 0 || sum <= target); ++i) {  // the last category with weight at the latest
        sum += weights[i];
        choice = weights[i] > 0 ? i : choice;
      }
      ET_CHECK_OR_RETURN(choice >= 0, InvalidArgument,
                         "%s: row %" PRId64 " has fewer than %" PRId64 " categories of weight", kOp, r, num_samples);
      samples[r * num_samples + s] = choice;
      if (!replacement) {
        total -= weights[choice];
        weights[choice] = 0;
      }
    }
  }
  return Error::Ok;
}

Error native_dropout_out(KernelContext& context, const Tensor& input, double p, std::optional<bool> train, Tensor& out0,
                         Tensor& out1) {
  ET_CHECK_OR_RETURN(p >= 0 && p <= 1, InvalidArgument, "aten::native_dropout: p is %g, must lie in [0, 1]", p);
  ET_RETURN_IF_ERROR(check_same_dtype("aten::native_dropout", "out0", out0, input));
  ET_CHECK_OR_RETURN(out1.scalar_type() == ScalarType::Bool, InvalidType,
                     "aten::native_dropout: out1 is %s, takes torch.bool", to_string(out1.scalar_type()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out0, input.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out1, input.sizes()));
  ET_RETURN_IF_ERROR(check_row_major("aten::native_dropout", {&input, &out0, &out1}));
  const bool drops = train.value_or(true) && p > 0;
  const double scale = p < 1 ? 1 / (1 - p) : 0;
  Philox philox(context.random());
  const ScalarType dtype = input.scalar_type();
  bool* mask = out1.mutable_data_ptr<bool>();
  for_each_draw(context, input.numel(), [&](int64_t i) {
    mask[i] = !drops || philox.uniform<double>() >= p;
    const double value = load_one<double>(dtype, input.const_data_ptr(), i);
    store_one<double>(dtype, !drops ? value : mask[i] ? value * scale : 0.0, out0.mutable_data_ptr(), i);
  });
  return Error::Ok;
}

}  // namespace et::kernels::portable
