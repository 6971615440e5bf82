// Casts between float, int64, int32 and bool, between these floats, those of 16 bits and bool, and of real numbers to
// complex ones, with a change of dim order where one is wanted. Copies that keep the element type are copy.cpp's.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>

#include "kernels/optimized/pointwise/pointwise-inl.h"
#include "kernels/optimized/vec/float_runs.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/float_to_integer.h"
#include "ops/signatures/portable/op_copy.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

/// Between floats of other sizes: the conversions are those in front of this loop and behind it.
void FloatToFloat(const PointwiseBlock& block) {
  map_elements<float, float>([](float x) HWY_ATTR { return x; }, block);
}

// A bool is read as the byte it is, and written as 0 or 1.
#define ET_CAST(NAME, FROM, TO, EXPRESSION)                                                     \
  void NAME(const PointwiseBlock& block) {                                                      \
    map_elements<FROM, TO>([](FROM x) HWY_ATTR { return static_cast<TO>(EXPRESSION); }, block); \
  }
ET_CAST(FloatToLong, float, int64_t, portable::convert<int64_t>(x))
ET_CAST(FloatToInt, float, int32_t, portable::float_to_integer<int32_t>(x))
ET_CAST(FloatToBool, float, uint8_t, x != 0.0f)
ET_CAST(LongToFloat, int64_t, float, x)
ET_CAST(LongToInt, int64_t, int32_t, x)
ET_CAST(LongToBool, int64_t, uint8_t, x != 0)
ET_CAST(IntToFloat, int32_t, float, x)
ET_CAST(IntToLong, int32_t, int64_t, x)
ET_CAST(IntToBool, int32_t, uint8_t, x != 0)
ET_CAST(BoolToFloat, uint8_t, float, x != 0)
ET_CAST(BoolToLong, uint8_t, int64_t, x != 0)
ET_CAST(BoolToInt, uint8_t, int32_t, x != 0)
#undef ET_CAST

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pointwise {

#define ET_CASTS(X) \
  X(Float, Long)    \
  X(Float, Int)     \
  X(Float, Bool)    \
  X(Long, Float)    \
  X(Long, Int) X(Long, Bool) X(Int, Float) X(Int, Long) X(Int, Bool) X(Bool, Float) X(Bool, Long) X(Bool, Int)
#define ET_EXPORT(FROM, TO) HWY_EXPORT(FROM##To##TO);
ET_CASTS(ET_EXPORT)
#undef ET_EXPORT
HWY_EXPORT(FloatToFloat);

namespace {

BlockFunction cast_loop(ScalarType from, ScalarType to) {
#define ET_CASE(FROM, TO)                                 \
  if (from == ScalarType::FROM && to == ScalarType::TO) { \
    return HWY_DYNAMIC_POINTER(FROM##To##TO);             \
  }
  ET_CASTS(ET_CASE)
#undef ET_CASE
  return nullptr;
}
#undef ET_CASTS

/// Between floats and those of 16 bits, in one pass.
template <ScalarType dtype>
void widen(const PointwiseBlock& block) {
  for (size_t r = 0; r < block.rows; ++r) {
    const auto* const from = static_cast<const uint16_t*>(block.in[0]) + static_cast<int64_t>(r) * block.row_stride[0];
    floats_from(dtype, from, 1, block.columns, static_cast<float*>(block.out) + r * block.columns);
  }
}
template <ScalarType dtype>
void narrow(const PointwiseBlock& block) {
  for (size_t r = 0; r < block.rows; ++r) {
    const auto* const from = static_cast<const float*>(block.in[0]) + static_cast<int64_t>(r) * block.row_stride[0];
    floats_to(dtype, from, block.columns, static_cast<uint16_t*>(block.out) + r * block.columns);
  }
}

/// A bool is the byte it is.
struct Truth {
  uint8_t byte;
  operator float() const { return byte != 0 ? 1.0f : 0.0f; }  // NOLINT(google-explicit-constructor)
};

/// Real numbers of the type From as complex ones whose parts are of the type Part.
template <typename From, typename Part>
void pair(const PointwiseBlock& block) {
  for (size_t r = 0; r < block.rows; ++r) {
    const From* const from = static_cast<const From*>(block.in[0]) + static_cast<int64_t>(r) * block.row_stride[0];
    Part* const to = static_cast<Part*>(block.out) + 2 * r * block.columns;
    for (size_t c = 0; c < block.columns; ++c) {
      to[2 * c] = static_cast<Part>(from[c]);
      to[2 * c + 1] = 0;
    }
  }
}

template <typename Part>
BlockFunction pair_loop(ScalarType from) {
  switch (from) {
    case ScalarType::Bool: return &pair<Truth, Part>;
    case ScalarType::Byte: return &pair<uint8_t, Part>;
    case ScalarType::Char: return &pair<int8_t, Part>;
    case ScalarType::Short: return &pair<int16_t, Part>;
    case ScalarType::Int: return &pair<int32_t, Part>;
    case ScalarType::Long: return &pair<int64_t, Part>;
    case ScalarType::Half: return &pair<Half, Part>;
    case ScalarType::BFloat16: return &pair<BFloat16, Part>;
    case ScalarType::Float: return &pair<float, Part>;
    case ScalarType::Double: return &pair<double, Part>;
    default: return nullptr;
  }
}

// fn(self, …, out): sizes are self's; element type and dim order are those of out.
Error choose_cast(Arguments args, PointwiseOperation* operation) {
  const ScalarType from = args[0]->to_tensor().scalar_type();
  const ScalarType to = args[args.size() - 1]->to_tensor().scalar_type();
  if (is_complex(to)) {
    operation->function = to == ScalarType::ComplexFloat ? pair_loop<float>(from) : pair_loop<double>(from);
  } else if (is_small_float(from) && to == ScalarType::Float) {
    operation->function = from == ScalarType::Half ? &widen<ScalarType::Half> : &widen<ScalarType::BFloat16>;
  } else if (from == ScalarType::Float && is_small_float(to)) {
    operation->function = to == ScalarType::Half ? &narrow<ScalarType::Half> : &narrow<ScalarType::BFloat16>;
  } else if (is_small_float(from) && to == ScalarType::Bool) {
    operation->function = HWY_DYNAMIC_POINTER(FloatToBool);
    operation->converts = true;
  } else if (from != to && is_up_to_float(to) &&
             (is_up_to_float(from) || (from == ScalarType::Bool && to != ScalarType::Float))) {
    operation->function = HWY_DYNAMIC_POINTER(FloatToFloat);
    operation->converts = true;
  } else {
    operation->function = cast_loop(from, to);
  }
  operation->add_tensor(args, 0);
  return operation->function == nullptr ? Error::NotSupported : Error::Ok;
}

constexpr Kernel kKernels[] = {
    make_pointwise_kernel<&choose_cast>(signature::to_copy_out),
    make_pointwise_kernel<&choose_cast>(signature::to_dim_order_copy_out),
};

}  // namespace

ET_KERNEL_TABLE(cast, kKernels)

}  // namespace et::kernels::optimized::pointwise
#endif  // HWY_ONCE
