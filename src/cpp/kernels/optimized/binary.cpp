// Pointwise operators of two tensors with broadcasting: add, sub, mul, div, minimum, maximum; and where.

#include "kernels/optimized/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/binary.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/broadcast.h"
#include "kernels/optimized/fitting.h"
#include "kernels/optimized/tables.h"

#ifndef ET_KERNELS_OPTIMIZED_BINARY_ONCE
#define ET_KERNELS_OPTIMIZED_BINARY_ONCE
namespace et::kernels::optimized {
/// Rows of one block: [rows, columns] outputs, operands by row and column strides (in elements).
struct BinaryBlock {
  const float* a;
  const float* b;
  float* out;
  size_t rows, columns;
  int64_t a_row, a_column, b_row, b_column;
  float alpha;  // factor of b in add and sub
};
/// The same for where: `mask` chooses a or b.
struct WhereBlock {
  const bool* mask;
  const float* a;
  const float* b;
  float* out;
  size_t rows, columns;
  int64_t mask_row, mask_column, a_row, a_column, b_row, b_column;
};
}  // namespace et::kernels::optimized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// `count` vectors' worth of an operand: contiguous, or one element for all.
template <bool kContiguous, class D>
HWY_INLINE hn::Vec<D> take(D d, const float* p, size_t i, hn::Vec<D> splat) {
  if constexpr (kContiguous) {
    return hn::LoadU(d, p + i);
  } else {
    return static_cast<void>(p), static_cast<void>(i), splat;
  }
}

template <bool kA, bool kB, class Fn>
HWY_INLINE void binary_row(const Fn& fn, const float* a, const float* b, float* out, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto splat_a = hn::Set(d, *a);
  const auto splat_b = hn::Set(d, *b);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(fn(d, take<kA>(d, a, i, splat_a), take<kB>(d, b, i, splat_b)), d, out + i);
  }
  if (i < n) {
    const size_t left = n - i;
    const auto x = kA ? hn::LoadN(d, a + i, left) : splat_a;
    const auto y = kB ? hn::LoadN(d, b + i, left) : splat_b;
    hn::StoreN(fn(d, x, y), d, out + i, left);
  }
}

template <class Fn>
HWY_INLINE void over_block(const Fn& fn, const BinaryBlock& block) {
  for (size_t r = 0; r < block.rows; ++r) {
    const float* const a = block.a + static_cast<int64_t>(r) * block.a_row;
    const float* const b = block.b + static_cast<int64_t>(r) * block.b_row;
    float* const out = block.out + r * block.columns;
    if (block.a_column == 1 && block.b_column == 1) {
      binary_row<true, true>(fn, a, b, out, block.columns);
    } else if (block.a_column == 1 && block.b_column == 0) {
      binary_row<true, false>(fn, a, b, out, block.columns);
    } else if (block.a_column == 0 && block.b_column == 1) {
      binary_row<false, true>(fn, a, b, out, block.columns);
    } else {
      // Operands in another dim order than the output: one element at a time.
      const hn::CappedTag<float, 1> one;
      for (size_t c = 0; c < block.columns; ++c) {
        const auto i = static_cast<int64_t>(c);
        const auto x = hn::Set(one, a[i * block.a_column]);
        const auto y = hn::Set(one, b[i * block.b_column]);
        out[c] = hn::GetLane(fn(one, x, y));
      }
    }
  }
}

#define ET_BINARY(NAME, EXPRESSION)                              \
  void NAME(const BinaryBlock& block) {                          \
    over_block(                                                  \
        [alpha = block.alpha](auto d, auto a, auto b) HWY_ATTR { \
          static_cast<void>(d);                                  \
          static_cast<void>(alpha);                              \
          return (EXPRESSION);                                   \
        },                                                       \
        block);                                                  \
  }

ET_BINARY(Add, hn::Add(a, b))
ET_BINARY(AddScaled, hn::Add(a, hn::Mul(b, hn::Set(d, alpha))))
ET_BINARY(Sub, hn::Sub(a, b))
ET_BINARY(Mul, hn::Mul(a, b))
ET_BINARY(Div, hn::Div(a, b))
// Not a number on either side is the result, as in ATen.
ET_BINARY(Maximum, hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b))
ET_BINARY(Minimum, hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b))
#undef ET_BINARY

void Where(const WhereBlock& block) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const hn::RebindToUnsigned<decltype(d)> d32;
  const size_t lanes = hn::Lanes(d);
  const bool vectors = block.mask_column == 1 && block.a_column <= 1 && block.b_column <= 1;
  for (size_t r = 0; r < block.rows; ++r) {
    const auto row = static_cast<int64_t>(r);
    const bool* const mask = block.mask + row * block.mask_row;
    const float* const a = block.a + row * block.a_row;
    const float* const b = block.b + row * block.b_row;
    float* const out = block.out + r * block.columns;
    size_t c = 0;
    if (vectors) {
      const auto splat_a = hn::Set(d, *a);
      const auto splat_b = hn::Set(d, *b);
      for (; c + lanes <= block.columns; c += lanes) {
        const auto bytes = hn::LoadU(d8, reinterpret_cast<const uint8_t*>(mask) + c);
        const auto chosen = hn::RebindMask(d, hn::Ne(hn::PromoteTo(d32, bytes), hn::Zero(d32)));
        const auto x = block.a_column == 1 ? hn::LoadU(d, a + c) : splat_a;
        const auto y = block.b_column == 1 ? hn::LoadU(d, b + c) : splat_b;
        hn::StoreU(hn::IfThenElse(chosen, x, y), d, out + c);
      }
    }
    for (; c < block.columns; ++c) {
      const auto i = static_cast<int64_t>(c);
      out[c] = mask[i * block.mask_column] ? a[i * block.a_column] : b[i * block.b_column];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(Add);
HWY_EXPORT(AddScaled);
HWY_EXPORT(Sub);
HWY_EXPORT(Mul);
HWY_EXPORT(Div);
HWY_EXPORT(Maximum);
HWY_EXPORT(Minimum);
HWY_EXPORT(Where);

namespace {

using BlockFunction = void (*)(const BinaryBlock&);

Error run_binary(KernelContext& context, const char* op, const Tensor& self, const Tensor& other, const Tensor& out,
                 BlockFunction function, float alpha = 1.0f) {
  BroadcastPlan plan;
  const Tensor* const operands[] = {&self, &other};
  ET_RETURN_IF_ERROR(plan_broadcast(context, op, operands, out, &plan));
  const float* const a = self.const_data_ptr<float>();
  const float* const b = other.const_data_ptr<float>();
  float* const to = out.mutable_data_ptr<float>();
  plan.for_each_block(context.pool(), 1, [&](int64_t first, const int64_t* offsets, size_t rows, size_t columns) {
    function({a + offsets[0], b + offsets[1], to + first, rows, columns, plan.row_stride[0], plan.column_stride[0],
              plan.row_stride[1], plan.column_stride[1], alpha});
  });
  return Error::Ok;
}

Error add_out(KernelContext& context, const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  const auto factor = alpha.to<float>();
  return run_binary(context, "aten::add", self, other, out,
                    factor == 1.0f ? HWY_DYNAMIC_POINTER(Add) : HWY_DYNAMIC_POINTER(AddScaled), factor);
}

Error sub_out(KernelContext& context, const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  const auto factor = alpha.to<float>();
  return run_binary(context, "aten::sub", self, other, out,
                    factor == 1.0f ? HWY_DYNAMIC_POINTER(Sub) : HWY_DYNAMIC_POINTER(AddScaled), -factor);
}

Error mul_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  return run_binary(context, "aten::mul", self, other, out, HWY_DYNAMIC_POINTER(Mul));
}

Error div_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  return run_binary(context, "aten::div", self, other, out, HWY_DYNAMIC_POINTER(Div));
}

Error maximum_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  return run_binary(context, "aten::maximum", self, other, out, HWY_DYNAMIC_POINTER(Maximum));
}

Error minimum_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  return run_binary(context, "aten::minimum", self, other, out, HWY_DYNAMIC_POINTER(Minimum));
}

Error where_self_out(KernelContext& context, const Tensor& condition, const Tensor& self, const Tensor& other,
                     Tensor& out) {
  BroadcastPlan plan;
  const Tensor* const operands[] = {&condition, &self, &other};
  ET_RETURN_IF_ERROR(plan_broadcast(context, "aten::where", operands, out, &plan));
  const bool* const mask = condition.const_data_ptr<bool>();
  const float* const a = self.const_data_ptr<float>();
  const float* const b = other.const_data_ptr<float>();
  float* const to = out.mutable_data_ptr<float>();
  const auto function = HWY_DYNAMIC_POINTER(Where);
  plan.for_each_block(context.pool(), 1, [&](int64_t first, const int64_t* offsets, size_t rows, size_t columns) {
    function({mask + offsets[0], a + offsets[1], b + offsets[2], to + first, rows, columns, plan.row_stride[0],
              plan.column_stride[0], plan.row_stride[1], plan.column_stride[1], plan.row_stride[2],
              plan.column_stride[2]});
  });
  return Error::Ok;
}

bool fits_binary(Arguments args) {
  return is_float(*args[0]) && is_float(*args[1]) && is_float(*args[args.size() - 1]);
}

bool fits_where(Arguments args) {
  return args[0]->to_tensor().scalar_type() == ScalarType::Bool && is_float(*args[1]) && is_float(*args[2]) &&
         is_float(*args[3]);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&add_out, &fits_binary>("aten::add.out"),
    make_fitting_kernel<&div_out, &fits_binary>("aten::div.out"),
    make_fitting_kernel<&maximum_out, &fits_binary>("aten::maximum.out"),
    make_fitting_kernel<&minimum_out, &fits_binary>("aten::minimum.out"),
    make_fitting_kernel<&mul_out, &fits_binary>("aten::mul.out"),
    make_fitting_kernel<&sub_out, &fits_binary>("aten::sub.out"),
    make_fitting_kernel<&where_self_out, &fits_where>("aten::where.self_out"),
};

}  // namespace

Span<const Kernel> binary_kernels() { return kKernels; }

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
