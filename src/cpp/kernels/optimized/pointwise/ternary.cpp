// Pointwise operators of floats with up to three operands, tensors with broadcasting or numbers: clamp by tensors,
// lerp, nan_to_num, addcmul, addcdiv; of integers clamp by two tensors and addcmul.

#include "kernels/optimized/vec/every_target-inl.h"

#include <type_traits>

#include "kernels/optimized/pointwise/pointwise-inl.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/arithmetic.h"
#include "ops/signatures/portable/op_clamp.h"
#include "ops/signatures/portable/op_ternary.h"

#ifndef ET_KERNELS_OPTIMIZED_TERNARY_ONCE
#define ET_KERNELS_OPTIMIZED_TERNARY_ONCE
namespace et::kernels::optimized::pointwise {
/// The loops of one type, integers or doubles; nullptr for others.
struct TernaryLoops {
  BlockFunction add_product, between;
};
}  // namespace et::kernels::optimized::pointwise
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

// From the nearer end, so that weight 1 gives exactly `end`. No fused steps: eager has none.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V lerp(D d, V start, V end, V weight) {
  const V way = hn::Sub(end, start);
  const auto is_near = hn::Lt(hn::Abs(weight), hn::Set(d, 0.5f));
  const V from_start = hn::Add(start, hn::Mul(weight, way));
  const V from_end = hn::Sub(end, hn::Mul(way, hn::Sub(hn::Set(d, 1.0f), weight)));
  return hn::IfThenElse(is_near, from_start, from_end);
}

void AtLeast(const PointwiseBlock& block) {
  pair_floats([](auto /*d*/, auto x, auto low) HWY_ATTR { return maximum(x, low); }, block);
}
void AtMost(const PointwiseBlock& block) {
  pair_floats([](auto /*d*/, auto x, auto high) HWY_ATTR { return minimum(x, high); }, block);
}
void Between(const PointwiseBlock& block) {
  triple_floats([](auto /*d*/, auto x, auto low, auto high) HWY_ATTR { return minimum(maximum(x, low), high); }, block);
}
void Lerp(const PointwiseBlock& block) {
  triple_floats([](auto d, auto start, auto end, auto weight) HWY_ATTR { return lerp(d, start, end, weight); }, block);
}
// No fused steps, and a first: as in eager.
void AddProduct(const PointwiseBlock& block) {
  triple_floats([a = static_cast<float>(block.a)](auto d, auto x, auto y, auto z)
                    HWY_ATTR { return hn::Add(x, hn::Mul(hn::Mul(hn::Set(d, a), y), z)); },
                block);
}
void AddQuotient(const PointwiseBlock& block) {
  triple_floats([a = static_cast<float>(block.a)](auto d, auto x, auto y, auto z)
                    HWY_ATTR { return hn::Add(x, hn::Div(hn::Mul(hn::Set(d, a), y), z)); },
                block);
}
/// out = fn(x, y, z) for elements of one type.
template <class T, class Fn>
HWY_INLINE void triple_elements(const Fn& fn, const PointwiseBlock& block) {
  const size_t rows = block.rows, columns = block.columns;  // copies: what a byte is written to may be the block
  const int64_t step[3] = {block.column_stride[0], block.column_stride[1], block.column_stride[2]};
  for (size_t r = 0; r < rows; ++r) {
    const auto operand = [&block, r](size_t k) HWY_ATTR {
      return static_cast<const T*>(block.in[k]) + static_cast<int64_t>(r) * block.row_stride[k];
    };
    const T *const x = operand(0), *const y = operand(1), *const z = operand(2);
    T* const out = static_cast<T*>(block.out) + r * columns;
    if (step[0] == 1 && step[1] == 1 && step[2] == 1) {
      for (size_t c = 0; c < columns; ++c) {
        out[c] = fn(x[c], y[c], z[c]);
      }
      continue;
    }
    if (step[0] == 1 && step[1] == 0 && step[2] == 1) {  // a column by a row
      const T same = *y;
      for (size_t c = 0; c < columns; ++c) {
        out[c] = fn(x[c], same, z[c]);
      }
      continue;
    }
    for (size_t c = 0; c < columns; ++c) {
      const auto i = static_cast<int64_t>(c);
      out[c] = fn(x[i * step[0]], y[i * step[1]], z[i * step[2]]);
    }
  }
}

/// Of integers: AddProduct, which wraps and whose number is the operation's parameter. Of these and doubles: Between.
template <class T>
struct Triples {
  static void add_product(const PointwiseBlock& block) {
    using Bits = std::make_unsigned_t<T>;
    using Wide = std::conditional_t<sizeof(T) < sizeof(uint32_t), uint32_t, Bits>;  // where no product becomes an int
    const auto factor = static_cast<Wide>(*static_cast<const int64_t*>(block.parameters));
    triple_elements<T>(
        [factor](T x, T y, T z) HWY_ATTR {
          const Wide sum = static_cast<Wide>(x) + factor * static_cast<Wide>(y) * static_cast<Wide>(z);
          return static_cast<T>(static_cast<Bits>(sum));
        },
        block);
  }
  static void between(const PointwiseBlock& block) {
    triple_elements<T>(
        [](T x, T low, T high) HWY_ATTR {
          x = x > low || portable::is_nan(x) ? x : low;  // the bound, also where it is not a number
          return x < high || portable::is_nan(x) ? x : high;
        },
        block);
  }
  static TernaryLoops loops() { return {&add_product, &between}; }
};

TernaryLoops TernaryLoopsOf(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Byte: return Triples<uint8_t>::loops();
    case ScalarType::Char: return Triples<int8_t>::loops();
    case ScalarType::Short: return Triples<int16_t>::loops();
    case ScalarType::Int: return Triples<int32_t>::loops();
    case ScalarType::Long: return Triples<int64_t>::loops();
    case ScalarType::Double: return {nullptr, &Triples<double>::between};
    default: return {};
  }
}
// a stands for NaN, b for infinity, the second operand for -infinity.
void NanToNum(const PointwiseBlock& block) {
  pair_floats(
      [a = static_cast<float>(block.a), b = static_cast<float>(block.b)](auto d, auto x, auto low) HWY_ATTR {
        const auto finite = hn::IfThenElse(hn::IsNaN(x), hn::Set(d, a), x);
        const auto infinite = hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Set(d, b), low);
        return hn::IfThenElse(hn::IsInf(x), infinite, finite);
      },
      block);
}

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pointwise {

HWY_EXPORT(AddProduct);
HWY_EXPORT(AddQuotient);
HWY_EXPORT(AtLeast);
HWY_EXPORT(AtMost);
HWY_EXPORT(Between);
HWY_EXPORT(TernaryLoopsOf);
HWY_EXPORT(Lerp);
HWY_EXPORT(NanToNum);

namespace {

/// Adds the tensors among the first `count` arguments; false unless they are of the type.
bool add_tensors(Arguments args, size_t count, ScalarType dtype, PointwiseOperation* operation) {
  bool fits = true;
  for (size_t i = 0; i < count; ++i) {
    if (!args[i]->is_none()) {
      fits = fits && args[i]->to_tensor().scalar_type() == dtype;
      operation->add_tensor(args, i);
    }
  }
  return fits;
}
/// The same where they and the output are floats of one type.
bool add_floats_of_one_type(Arguments args, size_t count, PointwiseOperation* operation) {
  const ScalarType dtype = args[args.size() - 1]->to_tensor().scalar_type();
  operation->converts = is_small_float(dtype);
  return add_tensors(args, count, dtype, operation) && (dtype == ScalarType::Float || operation->converts);
}

// clamp(self, Tensor? min, Tensor? max, out)
Error choose_clamp(Arguments args, PointwiseOperation* operation) {
  const bool has_low = !args[1]->is_none(), has_high = !args[2]->is_none();
  operation->name = "aten::clamp";
  const ScalarType dtype = args[args.size() - 1]->to_tensor().scalar_type();
  operation->function = HWY_DYNAMIC_DISPATCH(TernaryLoopsOf)(dtype).between;
  if (operation->function != nullptr) {
    return has_low && has_high && add_tensors(args, 3, dtype, operation) ? Error::Ok : Error::NotSupported;
  }
  operation->function = has_low && has_high ? HWY_DYNAMIC_POINTER(Between)
                        : has_low           ? HWY_DYNAMIC_POINTER(AtLeast)
                                            : HWY_DYNAMIC_POINTER(AtMost);
  return (has_low || has_high) && add_floats_of_one_type(args, 3, operation) ? Error::Ok : Error::NotSupported;
}

// addcmul(self, tensor1, tensor2, value, out)
Error choose_addcmul(Arguments args, PointwiseOperation* operation) {
  operation->name = "aten::addcmul";
  const ScalarType dtype = args[args.size() - 1]->to_tensor().scalar_type();
  operation->function = HWY_DYNAMIC_DISPATCH(TernaryLoopsOf)(dtype).add_product;
  if (operation->function != nullptr && is_whole(*args[3])) {
    operation->set_parameters(args[3]->number_as_int());
    return add_tensors(args, 3, dtype, operation) ? Error::Ok : Error::NotSupported;
  }
  operation->function = HWY_DYNAMIC_POINTER(AddProduct);
  operation->a = number_as_float(*args[3]);
  return add_floats_of_one_type(args, 3, operation) ? Error::Ok : Error::NotSupported;
}

// addcdiv(self, tensor1, tensor2, value, out)
Error choose_addcdiv(Arguments args, PointwiseOperation* operation) {
  operation->name = "aten::addcdiv";
  operation->function = HWY_DYNAMIC_POINTER(AddQuotient);
  operation->cost = kDivides;
  operation->a = number_as_float(*args[3]);
  return add_floats_of_one_type(args, 3, operation) ? Error::Ok : Error::NotSupported;
}

// lerp(self, end, Tensor weight, out)
Error choose_lerp(Arguments args, PointwiseOperation* operation) {
  operation->name = "aten::lerp";
  operation->function = HWY_DYNAMIC_POINTER(Lerp);
  return add_floats_of_one_type(args, 3, operation) ? Error::Ok : Error::NotSupported;
}

// lerp(self, end, Scalar weight, out)
Error choose_lerp_by_number(Arguments args, PointwiseOperation* operation) {
  operation->name = "aten::lerp";
  operation->function = HWY_DYNAMIC_POINTER(Lerp);
  const bool fits = add_floats_of_one_type(args, 2, operation);
  operation->add_number(number_as_float(*args[2]));
  return fits ? Error::Ok : Error::NotSupported;
}

// nan_to_num(self, float? nan, float? posinf, float? neginf, out): the numbers are elements of the tensor's type.
Error choose_nan_to_num(Arguments args, PointwiseOperation* operation) {
  operation->name = "aten::nan_to_num";
  operation->function = HWY_DYNAMIC_POINTER(NanToNum);
  if (!add_floats_of_one_type(args, 1, operation)) {
    return Error::NotSupported;
  }
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  const double largest = dtype == ScalarType::Half       ? 65504.0
                         : dtype == ScalarType::BFloat16 ? 0x1.FEp127
                                                         : static_cast<double>(std::numeric_limits<float>::max());
  const auto number = [&](const EValue& value, double otherwise) {
    return number_as_element(dtype, value.is_none() ? otherwise : value.number_as_double());
  };
  operation->a = number(*args[1], 0.0);
  operation->b = number(*args[2], largest);
  operation->add_number(number(*args[3], -largest));
  return Error::Ok;
}

constexpr Kernel kKernels[] = {
    make_pointwise_kernel<&choose_addcdiv>(signature::addcdiv_out),
    make_pointwise_kernel<&choose_addcmul>(signature::addcmul_out),
    make_pointwise_kernel<&choose_clamp>(signature::clamp_tensor_out),
    make_pointwise_kernel<&choose_lerp_by_number>(signature::lerp_scalar_out),
    make_pointwise_kernel<&choose_lerp>(signature::lerp_tensor_out),
    make_pointwise_kernel<&choose_nan_to_num>(signature::nan_to_num_out),
};

}  // namespace

ET_KERNEL_TABLE(ternary, kKernels)

}  // namespace et::kernels::optimized::pointwise
#endif  // HWY_ONCE
