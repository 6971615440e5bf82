// Pointwise arithmetic of two operands with broadcasting, tensors or a tensor and a number, in every element type. The
// operators are add, sub, mul, div, maximum, minimum and the bitwise ones, and the choices by a mask: where,
// masked_fill.

#include "kernels/optimized/vec/every_target-inl.h"

#include "kernels/optimized/pointwise/pair_operators.h"
#include "kernels/optimized/pointwise/pointwise-inl.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/convert.h"
#include "ops/signatures/portable/op_add_sub.h"
#include "ops/signatures/portable/op_binary.h"
#include "ops/signatures/portable/op_div.h"
#include "ops/signatures/portable/op_logical.h"
#include "ops/signatures/portable/op_mul.h"
#include "ops/signatures/portable/op_where.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

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
ET_BINARY(Maximum, maximum(a, b))
ET_BINARY(Minimum, minimum(a, b))
#undef ET_BINARY

// NAME##TYPE: one element type.
#define ET_ELEMENTS(NAME, SUFFIX, TYPE, EXPRESSION)                                                          \
  void NAME##SUFFIX(const PointwiseBlock& block) {                                                           \
    pair_elements<TYPE, TYPE>([](TYPE a, TYPE b) HWY_ATTR { return static_cast<TYPE>(EXPRESSION); }, block); \
  }
// Integers wrap around: unsigned arithmetic, the same bits for both signs. Narrow ones are unsigned before they are
// promoted.
#define ET_WRAPPING(NAME, OPERATION)                                                           \
  ET_ELEMENTS(NAME, 8, uint8_t, a OPERATION b)                                                 \
  ET_ELEMENTS(NAME, 16, uint16_t, static_cast<uint32_t>(a) OPERATION static_cast<uint32_t>(b)) \
  ET_ELEMENTS(NAME, 32, uint32_t, a OPERATION b)                                               \
  ET_ELEMENTS(NAME, 64, uint64_t, a OPERATION b)
#define ET_ORDERED(NAME, EXPRESSION)           \
  ET_ELEMENTS(NAME, 8, int8_t, EXPRESSION)     \
  ET_ELEMENTS(NAME, Byte, uint8_t, EXPRESSION) \
  ET_ELEMENTS(NAME, 16, int16_t, EXPRESSION)   \
  ET_ELEMENTS(NAME, 32, int32_t, EXPRESSION)   \
  ET_ELEMENTS(NAME, 64, int64_t, EXPRESSION)

ET_WRAPPING(Add, +)
ET_WRAPPING(Sub, -)
ET_WRAPPING(Mul, *)
ET_WRAPPING(And, &)
ET_WRAPPING(Or, |)
ET_WRAPPING(Xor, ^)
ET_ORDERED(Maximum, a > b ? a : b)
ET_ORDERED(Minimum, a < b ? a : b)
ET_ELEMENTS(Add, Double, double, a + b)
ET_ELEMENTS(Sub, Double, double, a - b)
ET_ELEMENTS(Mul, Double, double, a* b)
ET_ELEMENTS(Div, Double, double, a / b)
ET_ELEMENTS(Maximum, Double, double, a > b || a != a ? a : b)
ET_ELEMENTS(Minimum, Double, double, a < b || a != a ? a : b)
#undef ET_ELEMENTS
#undef ET_WRAPPING
#undef ET_ORDERED

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

#define ET_EXPORT_INTEGERS(NAME) \
  HWY_EXPORT(NAME##8);           \
  HWY_EXPORT(NAME##16);          \
  HWY_EXPORT(NAME##32);          \
  HWY_EXPORT(NAME##64);
#define ET_EXPORT_FLOATS(NAME) \
  HWY_EXPORT(NAME);            \
  HWY_EXPORT(NAME##Double);
ET_EXPORT_INTEGERS(Add)
ET_EXPORT_INTEGERS(Sub)
ET_EXPORT_INTEGERS(Mul)
ET_EXPORT_INTEGERS(And)
ET_EXPORT_INTEGERS(Or)
ET_EXPORT_INTEGERS(Xor)
ET_EXPORT_INTEGERS(Maximum)
ET_EXPORT_INTEGERS(Minimum)
ET_EXPORT_FLOATS(Add)
ET_EXPORT_FLOATS(Sub)
ET_EXPORT_FLOATS(Mul)
ET_EXPORT_FLOATS(Div)
ET_EXPORT_FLOATS(Maximum)
ET_EXPORT_FLOATS(Minimum)
HWY_EXPORT(MaximumByte);
HWY_EXPORT(MinimumByte);
HWY_EXPORT(AddScaled);
HWY_EXPORT(WhereWords);
HWY_EXPORT(WhereLongs);
HWY_EXPORT(WhereShorts);
HWY_EXPORT(WhereBytes);
#undef ET_EXPORT_INTEGERS
#undef ET_EXPORT_FLOATS

namespace {

// One operator: its name, its loops.
#define ET_INTEGERS(NAME, BYTES)                                                                 \
  HWY_DYNAMIC_POINTER(NAME##8), HWY_DYNAMIC_POINTER(NAME##BYTES), HWY_DYNAMIC_POINTER(NAME##16), \
      HWY_DYNAMIC_POINTER(NAME##32), HWY_DYNAMIC_POINTER(NAME##64)
#define ET_OPERATOR(STRUCT, NAME, ...)                          \
  struct STRUCT {                                               \
    static constexpr const char* kName = NAME;                  \
    static PairLoops loops() { return PairLoops{__VA_ARGS__}; } \
  };
#define ET_ARITHMETIC(STRUCT, NAME, FUNCTION, BYTES)                                              \
  ET_OPERATOR(STRUCT, NAME, HWY_DYNAMIC_POINTER(FUNCTION), HWY_DYNAMIC_POINTER(FUNCTION##Double), \
              ET_INTEGERS(FUNCTION, BYTES))
ET_ARITHMETIC(AddOperator, "aten::add", Add, 8)
ET_ARITHMETIC(SubOperator, "aten::sub", Sub, 8)
ET_ARITHMETIC(MulOperator, "aten::mul", Mul, 8)
ET_ARITHMETIC(MaximumOperator, "aten::maximum", Maximum, Byte)
ET_ARITHMETIC(MinimumOperator, "aten::minimum", Minimum, Byte)
ET_OPERATOR(DivOperator, "aten::div", HWY_DYNAMIC_POINTER(Div), HWY_DYNAMIC_POINTER(DivDouble))
ET_OPERATOR(AndOperator, "aten::bitwise_and", nullptr, nullptr, ET_INTEGERS(And, 8))
ET_OPERATOR(OrOperator, "aten::bitwise_or", nullptr, nullptr, ET_INTEGERS(Or, 8))
ET_OPERATOR(XorOperator, "aten::bitwise_xor", nullptr, nullptr, ET_INTEGERS(Xor, 8))
#undef ET_INTEGERS
#undef ET_OPERATOR
#undef ET_ARITHMETIC

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
  uint64_t element = 0;
  const EValue& value = *args[2];
  portable::store_scalar(dtype, value.is_double() ? Scalar(value.to_double()) : Scalar(value.number_as_int()),
                         &element);
  operation->add_number(element);
  operation->operands[operation->num_operands - 1].element_size = static_cast<uint8_t>(element_size(dtype));
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
