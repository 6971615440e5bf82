// Pointwise arithmetic of two operands with broadcasting, tensors or a tensor and a number: add, sub, mul, div, maximum,
// minimum, in float and (but for div) in int64; and choices by a mask: where, masked_fill.

#include "kernels/optimized/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/binary.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/pointwise-inl.h"
#include "kernels/optimized/tables.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {

#define ET_BINARY(NAME, EXPRESSION)                          \
  void NAME(const PointwiseBlock& block) {                   \
    pair_floats(                                             \
        [alpha = block.a](auto d, auto a, auto b) HWY_ATTR { \
          static_cast<void>(d);                              \
          static_cast<void>(alpha);                          \
          return (EXPRESSION);                               \
        },                                                   \
        block);                                              \
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

// Integers wrap around: unsigned arithmetic, the same bits.
#define ET_BINARY_LONG(NAME, TYPE, EXPRESSION)                                                               \
  void NAME(const PointwiseBlock& block) {                                                                   \
    pair_elements<TYPE, TYPE>([](TYPE a, TYPE b) HWY_ATTR { return static_cast<TYPE>(EXPRESSION); }, block); \
  }

ET_BINARY_LONG(AddLong, uint64_t, a + b)
ET_BINARY_LONG(SubLong, uint64_t, a - b)
ET_BINARY_LONG(MulLong, uint64_t, a* b)
ET_BINARY_LONG(MaximumLong, int64_t, a > b ? a : b)
ET_BINARY_LONG(MinimumLong, int64_t, a < b ? a : b)
#undef ET_BINARY_LONG

/// mask ? a : b for elements of four bytes, as bits.
void WhereWords(const PointwiseBlock& block) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const hn::RebindToUnsigned<decltype(d)> d32;
  const size_t lanes = hn::Lanes(d);
  const int64_t mask_column = block.column_stride[0];
  const int64_t a_column = block.column_stride[1];
  const int64_t b_column = block.column_stride[2];
  const bool vectors = mask_column == 1 && (a_column == 0 || a_column == 1) && (b_column == 0 || b_column == 1);
  for (size_t r = 0; r < block.rows; ++r) {
    const auto row = static_cast<int64_t>(r);
    const auto* const mask = static_cast<const uint8_t*>(block.in[0]) + row * block.row_stride[0];
    const auto* const a = static_cast<const float*>(block.in[1]) + row * block.row_stride[1];
    const auto* const b = static_cast<const float*>(block.in[2]) + row * block.row_stride[2];
    auto* const out = static_cast<float*>(block.out) + r * block.columns;
    size_t c = 0;
    if (vectors) {
      const auto splat_a = hn::Set(d, *a);
      const auto splat_b = hn::Set(d, *b);
      for (; c + lanes <= block.columns; c += lanes) {
        const auto bytes = hn::LoadU(d8, mask + c);
        const auto chosen = hn::RebindMask(d, hn::Ne(hn::PromoteTo(d32, bytes), hn::Zero(d32)));
        const auto x = a_column == 1 ? hn::LoadU(d, a + c) : splat_a;
        const auto y = b_column == 1 ? hn::LoadU(d, b + c) : splat_b;
        hn::StoreU(hn::IfThenElse(chosen, x, y), d, out + c);
      }
    }
    for (; c < block.columns; ++c) {
      const auto i = static_cast<int64_t>(c);
      out[c] = mask[i * mask_column] != 0 ? a[i * a_column] : b[i * b_column];
    }
  }
}

void WhereLongs(const PointwiseBlock& block) { choose_elements<uint64_t>(block); }
void WhereBytes(const PointwiseBlock& block) { choose_elements<uint8_t>(block); }

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
HWY_EXPORT(AddLong);
HWY_EXPORT(SubLong);
HWY_EXPORT(MulLong);
HWY_EXPORT(MaximumLong);
HWY_EXPORT(MinimumLong);
HWY_EXPORT(WhereWords);
HWY_EXPORT(WhereLongs);
HWY_EXPORT(WhereBytes);

namespace {

/// The dtype that self, other and out all have; nothing when they differ, which is a matter of promotion.
std::optional<ScalarType> one_dtype(const EValue& self, const EValue& other, const EValue& out) {
  const ScalarType dtype = out.to_tensor().scalar_type();
  const bool same = self.to_tensor().scalar_type() == dtype && other.to_tensor().scalar_type() == dtype;
  return same ? std::optional<ScalarType>(dtype) : std::nullopt;
}

/// The loop for a dtype; nullptr where there is none.
struct Loops {
  BlockFunction on_float;
  BlockFunction on_long;
  BlockFunction of(ScalarType dtype) const {
    return dtype == ScalarType::Float ? on_float : dtype == ScalarType::Long ? on_long : nullptr;
  }
};

// One operator: its name, its loops.
#define ET_OPERATOR(STRUCT, NAME, ON_FLOAT, ON_LONG)         \
  struct STRUCT {                                            \
    static constexpr const char* kName = NAME;               \
    static Loops loops() { return {(ON_FLOAT), (ON_LONG)}; } \
  };
ET_OPERATOR(AddOperator, "aten::add", HWY_DYNAMIC_POINTER(Add), HWY_DYNAMIC_POINTER(AddLong))
ET_OPERATOR(SubOperator, "aten::sub", HWY_DYNAMIC_POINTER(Sub), HWY_DYNAMIC_POINTER(SubLong))
ET_OPERATOR(MulOperator, "aten::mul", HWY_DYNAMIC_POINTER(Mul), HWY_DYNAMIC_POINTER(MulLong))
ET_OPERATOR(DivOperator, "aten::div", HWY_DYNAMIC_POINTER(Div), nullptr)
ET_OPERATOR(MaximumOperator, "aten::maximum", HWY_DYNAMIC_POINTER(Maximum), HWY_DYNAMIC_POINTER(MaximumLong))
ET_OPERATOR(MinimumOperator, "aten::minimum", HWY_DYNAMIC_POINTER(Minimum), HWY_DYNAMIC_POINTER(MinimumLong))
#undef ET_OPERATOR

// fn(self, other, [alpha,] out)
template <class Operator>
Error choose_pair(Arguments args, PointwiseOperation* operation) {
  const auto dtype = one_dtype(*args[0], *args[1], *args[args.size() - 1]);
  operation->name = Operator::kName;
  operation->function = dtype ? Operator::loops().of(*dtype) : nullptr;
  operation->add_tensor(args, 0);
  operation->add_tensor(args, 1);
  return operation->function == nullptr ? Error::NotSupported : Error::Ok;
}

// add(self, other, alpha, out) and sub
template <class Operator>
Error choose_scaled_pair(Arguments args, PointwiseOperation* operation) {
  ET_RETURN_IF_ERROR(choose_pair<Operator>(args, operation));
  const EValue& alpha = *args[2];
  if (alpha.number_as_double() == 1.0 && (is_whole(alpha) || is_float(*args[0]))) {
    return Error::Ok;
  }
  if (!is_float(*args[0])) {
    return Error::NotSupported;
  }
  const auto factor = static_cast<float>(alpha.number_as_double());
  operation->function = HWY_DYNAMIC_POINTER(AddScaled);
  operation->a = std::is_same_v<Operator, SubOperator> ? -factor : factor;
  return Error::Ok;
}

// fn(self, Scalar other, [Scalar alpha,] out): the number, times alpha, as an operand of self's dtype.
template <class Operator, bool kScaled>
Error choose_with_number(Arguments args, PointwiseOperation* operation) {
  const EValue& other = *args[1];
  const auto dtype = one_dtype(*args[0], *args[0], *args[args.size() - 1]);
  operation->name = Operator::kName;
  operation->function = dtype ? Operator::loops().of(*dtype) : nullptr;
  operation->add_tensor(args, 0);
  if (operation->function == nullptr) {
    return Error::NotSupported;
  }
  if (*dtype == ScalarType::Float) {
    operation->add_number(kScaled ? static_cast<float>(other.number_as_double() * args[2]->number_as_double())
                                  : number_as_float(other));
    return Error::Ok;
  }
  if (!is_whole(other) || (kScaled && !is_whole(*args[2]))) {
    return Error::NotSupported;
  }
  const auto factor = static_cast<uint64_t>(kScaled ? args[2]->number_as_int() : 1);
  operation->add_number(static_cast<uint64_t>(other.number_as_int()) * factor);
  return Error::Ok;
}

BlockFunction where_loop(ScalarType dtype) {
  switch (element_size(dtype)) {
    case 1: return HWY_DYNAMIC_POINTER(WhereBytes);
    case 4: return HWY_DYNAMIC_POINTER(WhereWords);
    case 8: return HWY_DYNAMIC_POINTER(WhereLongs);
    default: return nullptr;
  }
}

/// A mask and the dtype of what is chosen from.
bool is_mask(const EValue& value) { return value.to_tensor().scalar_type() == ScalarType::Bool; }

// where(condition, self, other, out)
Error choose_where(Arguments args, PointwiseOperation* operation) {
  const auto dtype = one_dtype(*args[1], *args[2], *args[args.size() - 1]);
  operation->name = "aten::where";
  operation->function = dtype && is_mask(*args[0]) ? where_loop(*dtype) : nullptr;
  for (const size_t i : {0, 1, 2}) {
    operation->add_tensor(args, i);
  }
  return operation->function == nullptr ? Error::NotSupported : Error::Ok;
}

// masked_fill(self, mask, Scalar value, out)
Error choose_masked_fill(Arguments args, PointwiseOperation* operation) {
  if (!is_mask(*args[1]) || !is_float(*args[0]) || !is_float(*args[args.size() - 1])) {
    return Error::NotSupported;
  }
  operation->name = "aten::masked_fill";
  operation->function = where_loop(ScalarType::Float);
  operation->add_tensor(args, 1);
  operation->add_number(number_as_float(*args[2]));
  operation->add_tensor(args, 0);
  return Error::Ok;
}

constexpr Kernel kKernels[] = {
    make_pointwise_kernel<&choose_scaled_pair<AddOperator>>("aten::add.out", "TTno"),
    make_pointwise_kernel<&choose_with_number<AddOperator, true>>("aten::add.Scalar_out", "Tnno"),
    make_pointwise_kernel<&choose_pair<DivOperator>>("aten::div.out", "TTo"),
    make_pointwise_kernel<&choose_with_number<DivOperator, false>>("aten::div.Scalar_out", "Tno"),
    make_pointwise_kernel<&choose_masked_fill>("aten::masked_fill.Scalar_out", "TTno"),
    make_pointwise_kernel<&choose_pair<MaximumOperator>>("aten::maximum.out", "TTo"),
    make_pointwise_kernel<&choose_pair<MinimumOperator>>("aten::minimum.out", "TTo"),
    make_pointwise_kernel<&choose_pair<MulOperator>>("aten::mul.out", "TTo"),
    make_pointwise_kernel<&choose_with_number<MulOperator, false>>("aten::mul.Scalar_out", "Tno"),
    make_pointwise_kernel<&choose_scaled_pair<SubOperator>>("aten::sub.out", "TTno"),
    make_pointwise_kernel<&choose_with_number<SubOperator, true>>("aten::sub.Scalar_out", "Tnno"),
    make_pointwise_kernel<&choose_where>("aten::where.self_out", "TTTo"),
};

}  // namespace

Span<const Kernel> binary_kernels() { return kKernels; }

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
