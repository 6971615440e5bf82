// Operators of one operand, element by element: CLAMP, TABLE, CAST, NEGATE, and functions of floats.
#include <cmath>
#include <cstring>

#include "backends/tosa/runtime/broadcast.h"
#include "backends/tosa/runtime/rescale.h"

namespace et::backends::tosa {
namespace {

using payload::DType;

template <unsigned kTypes>
Error check_unary(const Operation& operation) {
  ET_RETURN_IF_ERROR(require_types(operation.in(0), kTypes));
  return require_output(operation, operation.in(0).dtype, operation.in(0).shape());
}

template <typename T, typename Function>
Error map(const Operation& operation, const Memory& memory, Function function) {
  const T* in = memory.data<const T>(operation.in(0));
  T* out = memory.data<T>(operation.out());
  for (int32_t i = 0; i < operation.out().numel; ++i) {
    out[i] = static_cast<T>(function(in[i]));
  }
  return Error::Ok;
}

using FloatFunction = float(float);

template <FloatFunction* kFunction>
Error run_float(const Operation& operation, const Memory& memory) {
  return map<float>(operation, memory, kFunction);
}

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }
float reciprocal(float x) { return 1.0f / x; }
float rsqrt(float x) { return 1.0f / std::sqrt(x); }

template <FloatFunction* kFunction>
constexpr OperatorRow of_floats(payload::Op op) {
  return {op, 1, false, false, check_unary<kFloat>, run_float<kFunction>};
}

Error run_abs(const Operation& operation, const Memory& memory) {
  if (operation.in(0).dtype == payload::DType_FP32) {
    return map<float>(operation, memory, [](float x) { return std::fabs(x); });
  }
  return map<int32_t>(operation, memory,
                      [](int32_t x) { return x < 0 ? -static_cast<uint32_t>(x) : static_cast<uint32_t>(x); });
}

Error run_clz(const Operation& operation, const Memory& memory) {
  return map<int32_t>(operation, memory,
                      [](int32_t x) { return x == 0 ? 32 : __builtin_clz(static_cast<uint32_t>(x)); });
}

Error run_bitwise_not(const Operation& operation, const Memory& memory) {
  switch (operation.in(0).dtype) {
    case payload::DType_INT8: return map<int8_t>(operation, memory, [](int8_t x) { return ~x; });
    case payload::DType_INT16: return map<int16_t>(operation, memory, [](int16_t x) { return ~x; });
    default: return map<int32_t>(operation, memory, [](int32_t x) { return ~x; });
  }
}

Error run_logical_not(const Operation& operation, const Memory& memory) {
  return map<uint8_t>(operation, memory, [](uint8_t x) { return x == 0; });
}

Error check_negate(const Operation& operation) {
  const DType dtype = operation.in(0).dtype;
  for (size_t i = 1; i < 3; ++i) {
    ET_RETURN_IF_ERROR(require_parameter(operation.in(i), dtype, 1));
    ET_CHECK_OR_RETURN(dtype == payload::DType_INT8 || scalar<float>(operation.in(i)) == 0.0f, InvalidProgram,
                       "TOSA: a zero point of %s must be 0", dtype_name(dtype));
  }
  return check_unary<kInt8 | kInt16 | kInt32 | kFloat>(operation);
}

template <typename T>
Error negate(const Operation& operation, const Memory& memory) {
  const int64_t zeros = scalar<int64_t>(operation.in(1)) + scalar<int64_t>(operation.in(2));
  constexpr int64_t kHigh = (int64_t{1} << (8 * sizeof(T) - 1)) - 1;
  return map<T>(operation, memory, [=](T x) { return clamped(zeros - x, -kHigh - 1, kHigh); });
}

Error run_negate(const Operation& operation, const Memory& memory) {
  switch (operation.in(0).dtype) {
    case payload::DType_INT8: return negate<int8_t>(operation, memory);
    case payload::DType_INT16: return negate<int16_t>(operation, memory);
    case payload::DType_INT32: return negate<int32_t>(operation, memory);
    default: return map<float>(operation, memory, [](float x) { return -x; });
  }
}

template <typename T>
T value_of(const flatbuffers::Vector<uint8_t>& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

template <typename T>
Error clamp(const Operation& operation, const Memory& memory) {
  const auto& attribute = *operation.attribute_as<payload::ClampAttribute>();
  const T low = value_of<T>(*attribute.min_val()), high = value_of<T>(*attribute.max_val());
  const bool ignore = attribute.nan_mode() == payload::NanPropagationMode_IGNORE;
  return map<T>(operation, memory, [=](T x) {
    if (x != x) {
      return ignore ? low : x;
    }
    return x < low ? low : x > high ? high : x;
  });
}

Error check_clamp(const Operation& operation) {
  ET_RETURN_IF_ERROR(check_unary<kInt8 | kInt16 | kFloat>(operation));
  const auto& attribute = *operation.attribute_as<payload::ClampAttribute>();
  const size_t size = element_size(operation.in(0).dtype);
  ET_CHECK_OR_RETURN(attribute.min_val() != nullptr && attribute.min_val()->size() >= size &&
                         attribute.max_val() != nullptr && attribute.max_val()->size() >= size,
                     InvalidProgram, "TOSA: the bounds of a CLAMP are no values of its type");
  return Error::Ok;
}

Error run_clamp(const Operation& operation, const Memory& memory) {
  switch (operation.in(0).dtype) {
    case payload::DType_INT8: return clamp<int8_t>(operation, memory);
    case payload::DType_INT16: return clamp<int16_t>(operation, memory);
    default: return clamp<float>(operation, memory);
  }
}

constexpr int32_t kTable8 = 256, kTable16 = 513;

Error check_table(const Operation& operation) {
  const Value& input = operation.in(0);
  ET_RETURN_IF_ERROR(require_types(input, kInt8 | kInt16));
  const bool narrow = input.dtype == payload::DType_INT8;
  ET_RETURN_IF_ERROR(require_parameter(operation.in(1), input.dtype, narrow ? kTable8 : kTable16));
  return require_output(operation, narrow ? payload::DType_INT8 : payload::DType_INT32, input.shape());
}

/// INT8: a value for each input. INT16: 513 points, 128 inputs apart, and straight lines between them, times 128.
Error run_table(const Operation& operation, const Memory& memory) {
  if (operation.in(0).dtype == payload::DType_INT8) {
    const auto* table = operation.in(1).constant_as<int8_t>();
    return map<int8_t>(operation, memory, [=](int8_t x) { return table[x + 128]; });
  }
  const auto* table = operation.in(1).constant_as<int16_t>();
  const auto* in = memory.data<const int16_t>(operation.in(0));
  auto* out = memory.data<int32_t>(operation.out());
  for (int32_t i = 0; i < operation.out().numel; ++i) {
    const int32_t index = (in[i] + 32768) >> 7;
    out[i] = table[index] * 128 + (table[index + 1] - table[index]) * (in[i] & 127);
  }
  return Error::Ok;
}

Error check_cast(const Operation& operation) {
  constexpr unsigned kTypes = kBool | kInt8 | kInt16 | kInt32 | kFloat;
  ET_RETURN_IF_ERROR(require_types(operation.in(0), kTypes));
  ET_RETURN_IF_ERROR(require_types(operation.out(), kTypes));
  const bool floats = operation.in(0).dtype == payload::DType_FP32 || operation.out().dtype == payload::DType_FP32;
  const bool bools = operation.in(0).dtype == payload::DType_BOOL || operation.out().dtype == payload::DType_BOOL;
  ET_CHECK_OR_RETURN(operation.in(0).dtype != operation.out().dtype && !(floats && bools), InvalidProgram,
                     "TOSA: no CAST from %s to %s", dtype_name(operation.in(0).dtype),
                     dtype_name(operation.out().dtype));
  return require_output(operation, operation.out().dtype, operation.in(0).shape());
}

template <typename In, typename Out>
Out cast_element(In x) {
  if constexpr (std::is_same_v<Out, bool>) {
    return x != 0;
  } else if constexpr (std::is_same_v<In, float> && !std::is_same_v<Out, float>) {
    constexpr double kHigh = static_cast<double>((int64_t{1} << (8 * sizeof(Out) - 1)) - 1);
    const double rounded = std::nearbyint(static_cast<double>(x));  // half to even
    return static_cast<Out>(rounded != rounded     ? 0.0
                            : rounded < -kHigh - 1 ? -kHigh - 1
                            : rounded > kHigh      ? kHigh
                                                   : rounded);
  } else {
    return static_cast<Out>(x);
  }
}

template <typename In, typename Out>
Error cast(const Operation& operation, const Memory& memory) {
  const In* in = memory.data<const In>(operation.in(0));
  Out* out = memory.data<Out>(operation.out());
  for (int32_t i = 0; i < operation.out().numel; ++i) {
    out[i] = cast_element<In, Out>(in[i]);
  }
  return Error::Ok;
}

template <typename In>
Error cast_from(const Operation& operation, const Memory& memory) {
  switch (operation.out().dtype) {
    case payload::DType_BOOL: return cast<In, bool>(operation, memory);
    case payload::DType_INT8: return cast<In, int8_t>(operation, memory);
    case payload::DType_INT16: return cast<In, int16_t>(operation, memory);
    case payload::DType_INT32: return cast<In, int32_t>(operation, memory);
    default: return cast<In, float>(operation, memory);
  }
}

Error run_cast(const Operation& operation, const Memory& memory) {
  switch (operation.in(0).dtype) {
    case payload::DType_BOOL: return cast_from<uint8_t>(operation, memory);
    case payload::DType_INT8: return cast_from<int8_t>(operation, memory);
    case payload::DType_INT16: return cast_from<int16_t>(operation, memory);
    case payload::DType_INT32: return cast_from<int32_t>(operation, memory);
    default: return cast_from<float>(operation, memory);
  }
}

constexpr OperatorRow kRows[] = {
    {payload::Op_CLAMP, 1, false, true, check_clamp, run_clamp},
    {payload::Op_TABLE, 2, false, false, check_table, run_table},
    {payload::Op_CAST, 1, false, false, check_cast, run_cast},
    {payload::Op_NEGATE, 3, false, false, check_negate, run_negate},
    {payload::Op_ABS, 1, false, false, check_unary<kInt32 | kFloat>, run_abs},
    {payload::Op_CLZ, 1, false, false, check_unary<kInt32>, run_clz},
    {payload::Op_BITWISE_NOT, 1, false, false, check_unary<kInt8 | kInt16 | kInt32>, run_bitwise_not},
    {payload::Op_LOGICAL_NOT, 1, false, false, check_unary<kBool>, run_logical_not},
    of_floats<std::erf>(payload::Op_ERF),
    of_floats<sigmoid>(payload::Op_SIGMOID),
    of_floats<std::tanh>(payload::Op_TANH),
    of_floats<std::ceil>(payload::Op_CEIL),
    of_floats<std::floor>(payload::Op_FLOOR),
    of_floats<std::exp>(payload::Op_EXP),
    of_floats<std::log>(payload::Op_LOG),
    of_floats<std::cos>(payload::Op_COS),
    of_floats<std::sin>(payload::Op_SIN),
    of_floats<reciprocal>(payload::Op_RECIPROCAL),
    of_floats<rsqrt>(payload::Op_RSQRT),
};

}  // namespace

Span<const OperatorRow> unary_operators() { return kKept<kRows>; }

}  // namespace et::backends::tosa
