// Pointwise arithmetic of two operands with broadcasting, tensors or a tensor and a number, in every element type. The
// operators are add, sub, mul, div, maximum, minimum and the bitwise ones, and the choices by a mask: where,
// masked_fill.

#include "kernels/optimized/vec/every_target-inl.h"

#include <type_traits>

#include "kernels/optimized/pointwise/pair_loops-inl.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_add_sub.h"
#include "ops/signatures/portable/op_binary.h"
#include "ops/signatures/portable/op_div.h"
#include "ops/signatures/portable/op_logical.h"
#include "ops/signatures/portable/op_mul.h"
#include "ops/signatures/portable/op_where.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

// Integers wrap around: unsigned arithmetic, the same bits for both signs. Narrow ones are unsigned before they are
// promoted.
#define ET_WRAPPING(NAME, OPERATION)                                              \
  struct NAME##Whole {                                                            \
    template <class T>                                                            \
    HWY_INLINE T operator()(T a, T b) const {                                     \
      using Wide = std::conditional_t<sizeof(T) == 2, uint32_t, T>;               \
      return static_cast<T>(static_cast<Wide>(a) OPERATION static_cast<Wide>(b)); \
    }                                                                             \
  };
#define ET_FLOATING(NAME, EXPRESSION)            \
  struct NAME {                                  \
    template <class D, class V>                  \
    HWY_INLINE V operator()(D, V a, V b) const { \
      return (EXPRESSION);                       \
    }                                            \
  };
#define ET_ORDERED(NAME, EXPRESSION)          \
  struct NAME##Whole {                        \
    template <class T>                        \
    HWY_INLINE T operator()(T a, T b) const { \
      return (EXPRESSION);                    \
    }                                         \
  };
// A bool is a byte: read as zero or not, written as 0 or 1.
#define ET_LOGIC(NAME, OPERATION)                               \
  struct NAME {                                                 \
    HWY_INLINE uint8_t operator()(uint8_t a, uint8_t b) const { \
      return static_cast<uint8_t>((a != 0) OPERATION(b != 0));  \
    }                                                           \
  };                                                            \
  PairLoops NAME##Loops() { return with_bools<NAME>({}); }
template <class Fn>
PairLoops with_bools(PairLoops others) {
  others.bools = &PairElements<uint8_t, Fn>;
  return others;
}

ET_FLOATING(Add, hn::Add(a, b))
ET_FLOATING(Sub, hn::Sub(a, b))
ET_FLOATING(Mul, hn::Mul(a, b))
ET_FLOATING(Div, hn::Div(a, b))
ET_FLOATING(Maximum, maximum(a, b))
ET_FLOATING(Minimum, minimum(a, b))
ET_WRAPPING(Add, +)
ET_WRAPPING(Sub, -)
ET_WRAPPING(Mul, *)
ET_WRAPPING(And, &)
ET_WRAPPING(Or, |)
ET_WRAPPING(Xor, ^)
ET_ORDERED(Maximum, a > b ? a : b)
ET_ORDERED(Minimum, a < b ? a : b)
ET_LOGIC(LogicalAnd, &)
ET_LOGIC(LogicalOr, |)
ET_LOGIC(LogicalXor, ^)
#undef ET_FLOATING
#undef ET_WRAPPING
#undef ET_ORDERED
#undef ET_LOGIC

// Of bools, the bitwise operators are the logical ones, and a product is the logical and.
PairLoops AddLoops() { return element_loops<AddWhole, std::make_unsigned>(number_loops<Add>()); }
PairLoops SubLoops() { return element_loops<SubWhole, std::make_unsigned>(number_loops<Sub>()); }
PairLoops MulLoops() {
  return element_loops<MulWhole, std::make_unsigned>(with_bools<LogicalAnd>(number_loops<Mul>()));
}
PairLoops DivLoops() { return number_loops<Div>(); }
PairLoops MaximumLoops() { return element_loops<MaximumWhole>(number_loops<Maximum>()); }
PairLoops MinimumLoops() { return element_loops<MinimumWhole>(number_loops<Minimum>()); }
PairLoops AndLoops() { return element_loops<AndWhole, std::make_unsigned>(LogicalAndLoops()); }
PairLoops OrLoops() { return element_loops<OrWhole, std::make_unsigned>(LogicalOrLoops()); }
PairLoops XorLoops() { return element_loops<XorWhole, std::make_unsigned>(LogicalXorLoops()); }

void AddScaled(const PointwiseBlock& block) {
  pair_floats([alpha = static_cast<float>(block.a)](auto d, auto a, auto b)
                  HWY_ATTR { return hn::Add(a, hn::Mul(b, hn::Set(d, alpha))); },
              block);
}

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
void WhereShorts(const PointwiseBlock& block) { choose_elements<uint16_t>(block); }
void WhereBytes(const PointwiseBlock& block) { choose_elements<uint8_t>(block); }

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pointwise {

ET_PAIR_OPERATOR(Add, "aten::add", kCheap)
ET_PAIR_OPERATOR(Sub, "aten::sub", kCheap)
ET_PAIR_OPERATOR(Mul, "aten::mul", kCheap)
ET_PAIR_OPERATOR(Div, "aten::div", kCheap)
ET_PAIR_OPERATOR(Maximum, "aten::maximum", kCheap)
ET_PAIR_OPERATOR(Minimum, "aten::minimum", kCheap)
ET_PAIR_OPERATOR(And, "aten::bitwise_and", kCheap)
ET_PAIR_OPERATOR(Or, "aten::bitwise_or", kCheap)
ET_PAIR_OPERATOR(Xor, "aten::bitwise_xor", kCheap)
ET_PAIR_OPERATOR(LogicalAnd, "aten::logical_and", kCheap)
ET_PAIR_OPERATOR(LogicalOr, "aten::logical_or", kCheap)
ET_PAIR_OPERATOR(LogicalXor, "aten::logical_xor", kCheap)
HWY_EXPORT(AddScaled);
HWY_EXPORT(WhereWords);
HWY_EXPORT(WhereLongs);
HWY_EXPORT(WhereShorts);
HWY_EXPORT(WhereBytes);

namespace {

// add(self, other, alpha, out) and sub
template <class Operator>
Error choose_scaled_pair(Arguments args, PointwiseOperation* operation) {
  ET_RETURN_IF_ERROR(choose_pair<Operator>(args, operation));
  const EValue& alpha = *args[2];
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  if (alpha.number_as_double() == 1.0 && (is_whole(alpha) || is_floating(dtype))) {
    return Error::Ok;
  }
  if (!is_float(*args[0]) && !is_small_float(dtype)) {
    return Error::NotSupported;
  }
  const auto factor = static_cast<float>(alpha.number_as_double());
  operation->function = HWY_DYNAMIC_POINTER(AddScaled);
  operation->a = std::is_same_v<Operator, SubOperator> ? -factor : factor;
  return Error::Ok;
}

// div(self, Scalar other, out)
Error choose_quotient_by_number(Arguments args, PointwiseOperation* operation) {
  if (!is_float(*args[2]) || !is_integral(args[0]->to_tensor().scalar_type(), true)) {
    return choose_with_number<DivOperator, false>(args, operation);
  }
  operation->name = DivOperator::kName;
  operation->function = DivOperator::loops().floats;
  operation->converts = true;
  operation->add_tensor(args, 0);
  operation->add_number(number_as_float(*args[1]));
  return Error::Ok;
}

BlockFunction where_loop(ScalarType dtype) {
  switch (element_size(dtype)) {
    case 1: return HWY_DYNAMIC_POINTER(WhereBytes);
    case 2: return HWY_DYNAMIC_POINTER(WhereShorts);
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
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  operation->name = "aten::masked_fill";
  operation->function = where_loop(dtype);
  if (operation->function == nullptr || is_complex(dtype) || !is_mask(*args[1]) ||
      args[args.size() - 1]->to_tensor().scalar_type() != dtype) {
    return Error::NotSupported;
  }
  operation->add_tensor(args, 1);
  add_element(*args[2], dtype, operation);
  operation->add_tensor(args, 0);
  return Error::Ok;
}

constexpr Kernel kKernels[] = {
    make_pointwise_kernel<&choose_scaled_pair<AddOperator>>(signature::add_out),
    make_pointwise_kernel<&choose_with_number<AddOperator, true>>(signature::add_scalar_out),
    make_pointwise_kernel<&choose_with_number<AndOperator, false>>(signature::bitwise_and_scalar_out),
    make_pointwise_kernel<&choose_pair<AndOperator>>(signature::bitwise_and_tensor_out),
    make_pointwise_kernel<&choose_with_number<OrOperator, false>>(signature::bitwise_or_scalar_out),
    make_pointwise_kernel<&choose_pair<OrOperator>>(signature::bitwise_or_tensor_out),
    make_pointwise_kernel<&choose_with_number<XorOperator, false>>(signature::bitwise_xor_scalar_out),
    make_pointwise_kernel<&choose_pair<XorOperator>>(signature::bitwise_xor_tensor_out),
    make_pointwise_kernel<&choose_float_pair<DivOperator>>(signature::div_out),
    make_pointwise_kernel<&choose_quotient_by_number>(signature::div_scalar_out),
    make_pointwise_kernel<&choose_pair<LogicalAndOperator>>(signature::logical_and_out),
    make_pointwise_kernel<&choose_pair<LogicalOrOperator>>(signature::logical_or_out),
    make_pointwise_kernel<&choose_pair<LogicalXorOperator>>(signature::logical_xor_out),
    make_pointwise_kernel<&choose_masked_fill>(signature::masked_fill_scalar_out),
    make_pointwise_kernel<&choose_pair<MaximumOperator>>(signature::maximum_out),
    make_pointwise_kernel<&choose_pair<MinimumOperator>>(signature::minimum_out),
    make_pointwise_kernel<&choose_pair<MulOperator>>(signature::mul_out),
    make_pointwise_kernel<&choose_with_number<MulOperator, false>>(signature::mul_scalar_out),
    make_pointwise_kernel<&choose_scaled_pair<SubOperator>>(signature::sub_out),
    make_pointwise_kernel<&choose_with_number<SubOperator, true>>(signature::sub_scalar_out),
    make_pointwise_kernel<&choose_where>(signature::where_self_out),
};

}  // namespace

ET_KERNEL_TABLE(binary, kKernels)

}  // namespace et::kernels::optimized::pointwise
#endif  // HWY_ONCE
