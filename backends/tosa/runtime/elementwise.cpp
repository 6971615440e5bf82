// Operators of two or three operands, element by element. Integer overflow wraps.
#include <cmath>
#include <type_traits>

#include "backends/tosa/runtime/broadcast.h"
#include "backends/tosa/runtime/rescale.h"

namespace et::backends::tosa {
namespace {

using payload::DType;

/// An integer computed without undefined overflow, as T.
template <typename T>
T wrapped(int64_t value) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(value));
}

struct Add {
  static constexpr unsigned kTypes = kInt32 | kFloat;
  static int32_t apply(int32_t a, int32_t b) { return wrapped<int32_t>(int64_t{a} + b); }
  static float apply(float a, float b) { return a + b; }
};
struct Sub {
  static constexpr unsigned kTypes = kInt32 | kFloat;
  static int32_t apply(int32_t a, int32_t b) { return wrapped<int32_t>(int64_t{a} - b); }
  static float apply(float a, float b) { return a - b; }
};
struct Pow {
  static constexpr unsigned kTypes = kFloat;
  static float apply(float a, float b) { return std::pow(a, b); }
};
struct IntDiv {
  static constexpr unsigned kTypes = kInt32;
  static int32_t apply(int32_t a, int32_t b) { return wrapped<int32_t>(int64_t{a} / b); }
};
struct BitwiseAnd {
  static constexpr unsigned kTypes = kInt8 | kInt16 | kInt32;
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct BitwiseOr {
  static constexpr unsigned kTypes = kInt8 | kInt16 | kInt32;
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BitwiseXor {
  static constexpr unsigned kTypes = kInt8 | kInt16 | kInt32;
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct LogicalAnd {
  static constexpr unsigned kTypes = kBool;
  static bool apply(uint8_t a, uint8_t b) { return a != 0 && b != 0; }
};
struct LogicalOr {
  static constexpr unsigned kTypes = kBool;
  static bool apply(uint8_t a, uint8_t b) { return a != 0 || b != 0; }
};
struct LogicalXor {
  static constexpr unsigned kTypes = kBool;
  static bool apply(uint8_t a, uint8_t b) { return (a != 0) != (b != 0); }
};
/// Distances of shifts are taken modulo 32; the definition allows 0 to 31.
struct ShiftLeft {
  static constexpr unsigned kTypes = kInt8 | kInt16 | kInt32;
  template <typename T>
  static T apply(T a, T b) {
    return wrapped<T>(static_cast<int64_t>(static_cast<uint64_t>(int64_t{a}) << (b & 31)));
  }
};
struct ShiftRight {
  static constexpr unsigned kTypes = kInt8 | kInt16 | kInt32;
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(uint32_t{static_cast<std::make_unsigned_t<T>>(a)} >> (b & 31));
  }
};
struct Equal {
  static constexpr unsigned kTypes = kInt32 | kFloat;
  template <typename T>
  static bool apply(T a, T b) {
    return a == b;
  }
};
struct Greater {
  static constexpr unsigned kTypes = kInt32 | kFloat;
  template <typename T>
  static bool apply(T a, T b) {
    return a > b;
  }
};
struct GreaterEqual {
  static constexpr unsigned kTypes = kInt32 | kFloat;
  template <typename T>
  static bool apply(T a, T b) {
    return a >= b;
  }
};

template <typename Function, typename T>
using OutputOf = decltype(Function::apply(T{}, T{}));

template <typename Function, typename T>
Error run_on(const Operation& operation, const Memory& memory) {
  const T* a = memory.data<const T>(operation.in(0));
  const T* b = memory.data<const T>(operation.in(1));
  auto* out = memory.data<OutputOf<Function, T>>(operation.out());
  for_each_row<2>(operation, [&](int64_t to, const int64_t (&in)[2], const int64_t (&step)[2], int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      out[to + i] = Function::apply(a[in[0] + i * step[0]], b[in[1] + i * step[1]]);
    }
  });
  return Error::Ok;
}

template <typename Function>
Error run_binary(const Operation& operation, const Memory& memory) {
  constexpr unsigned kTypes = Function::kTypes;
  const unsigned type = type_bit(operation.in(0).dtype);
  if constexpr ((kTypes & kBool) != 0) {
    return run_on<Function, uint8_t>(operation, memory);
  }
  if constexpr ((kTypes & kInt8) != 0) {
    if (type == kInt8) {
      return run_on<Function, int8_t>(operation, memory);
    }
    if (type == kInt16) {
      return run_on<Function, int16_t>(operation, memory);
    }
  }
  if constexpr ((kTypes & kFloat) != 0) {
    if (type == kFloat) {
      return run_on<Function, float>(operation, memory);
    }
  }
  if constexpr ((kTypes & kInt32) != 0) {
    return run_on<Function, int32_t>(operation, memory);
  }
  return Error::Ok;
}

template <unsigned kTypes, bool kCompares>
Error check_binary(const Operation& operation) {
  const DType dtype = operation.in(0).dtype;
  ET_RETURN_IF_ERROR(require_types(operation.in(0), kTypes));
  ET_RETURN_IF_ERROR(require_dtype(operation.in(1), dtype));
  return require_broadcast(operation, 2, kCompares ? payload::DType_BOOL : dtype);
}

template <typename Function, bool kCompares = false>
constexpr OperatorRow binary(payload::Op op) {
  return {op, 2, false, false, check_binary<Function::kTypes, kCompares>, run_binary<Function>};
}

Error run_int_div(const Operation& operation, const Memory& memory) {
  const int32_t* divisors = memory.data<const int32_t>(operation.in(1));
  for (int32_t i = 0; i < operation.in(1).numel; ++i) {
    ET_CHECK_OR_RETURN(divisors[i] != 0, InvalidArgument, "TOSA: INTDIV by 0 at element %" PRId32, i);
  }
  return run_binary<IntDiv>(operation, memory);
}

/// MAXIMUM and MINIMUM; a NaN stays one, or where the payload says so gives way to the other operand.
template <typename T, bool kMaximum>
T chosen(T a, T b, bool ignore_nan) {
  if (a != a || b != b) {
    return (a != a) == ignore_nan ? b : a;
  }
  return (a > b) == kMaximum ? a : b;
}

template <typename T, bool kMaximum>
Error choose(const Operation& operation, const Memory& memory) {
  const bool ignore =
      operation.attribute_as<payload::MaximumAttribute>()->nan_mode() == payload::NanPropagationMode_IGNORE;
  const T* a = memory.data<const T>(operation.in(0));
  const T* b = memory.data<const T>(operation.in(1));
  T* out = memory.data<T>(operation.out());
  for_each_row<2>(operation, [&](int64_t to, const int64_t (&in)[2], const int64_t (&step)[2], int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      out[to + i] = chosen<T, kMaximum>(a[in[0] + i * step[0]], b[in[1] + i * step[1]], ignore);
    }
  });
  return Error::Ok;
}

template <bool kMaximum>
Error run_choice(const Operation& operation, const Memory& memory) {
  return operation.in(0).dtype == payload::DType_FP32 ? choose<float, kMaximum>(operation, memory)
                                                      : choose<int32_t, kMaximum>(operation, memory);
}

template <typename T>
Error shift_right(const Operation& operation, const Memory& memory) {
  const bool round = operation.attribute_as<payload::ArithmeticRightShiftAttribute>()->round();
  const T* a = memory.data<const T>(operation.in(0));
  const T* b = memory.data<const T>(operation.in(1));
  T* out = memory.data<T>(operation.out());
  for_each_row<2>(operation, [&](int64_t to, const int64_t (&in)[2], const int64_t (&step)[2], int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t value = a[in[0] + i * step[0]], shift = b[in[1] + i * step[1]] & 31;
      out[to + i] = static_cast<T>((value >> shift) + (round && shift > 0 ? value >> (shift - 1) & 1 : 0));
    }
  });
  return Error::Ok;
}

Error run_right_shift(const Operation& operation, const Memory& memory) {
  switch (operation.in(0).dtype) {
    case payload::DType_INT8: return shift_right<int8_t>(operation, memory);
    case payload::DType_INT16: return shift_right<int16_t>(operation, memory);
    default: return shift_right<int32_t>(operation, memory);
  }
}

Error check_mul(const Operation& operation) {
  const DType dtype = operation.in(0).dtype;
  ET_RETURN_IF_ERROR(require_types(operation.in(0), kInt8 | kInt16 | kInt32 | kFloat));
  ET_RETURN_IF_ERROR(require_dtype(operation.in(1), dtype));
  ET_RETURN_IF_ERROR(require_parameter(operation.in(2), payload::DType_INT8, 1));
  const auto shift = scalar<int32_t>(operation.in(2));
  ET_CHECK_OR_RETURN(shift >= 0 && shift <= (dtype == payload::DType_INT32 ? 63 : 0), InvalidProgram,
                     "TOSA: MUL of %s shifts by %" PRId32, dtype_name(dtype), shift);
  return require_broadcast(operation, 2, dtype == payload::DType_FP32 ? dtype : payload::DType_INT32);
}

template <typename T>
Error multiply(const Operation& operation, const Memory& memory) {
  const auto shift = scalar<int32_t>(operation.in(2));
  const T* a = memory.data<const T>(operation.in(0));
  const T* b = memory.data<const T>(operation.in(1));
  int32_t* out = memory.data<int32_t>(operation.out());
  for_each_row<2>(operation, [&](int64_t to, const int64_t (&in)[2], const int64_t (&step)[2], int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const T left = a[in[0] + i * step[0]], right = b[in[1] + i * step[1]];
      out[to + i] = wrapped<int32_t>(shift == 0 ? int64_t{left} * right : apply_scale(left, right, shift));
    }
  });
  return Error::Ok;
}

struct MulFloat {
  static float apply(float a, float b) { return a * b; }
};

Error run_mul(const Operation& operation, const Memory& memory) {
  switch (operation.in(0).dtype) {
    case payload::DType_INT8: return multiply<int8_t>(operation, memory);
    case payload::DType_INT16: return multiply<int16_t>(operation, memory);
    case payload::DType_INT32: return multiply<int32_t>(operation, memory);
    default: return run_on<MulFloat, float>(operation, memory);
  }
}

Error check_select(const Operation& operation) {
  ET_RETURN_IF_ERROR(require_dtype(operation.in(0), payload::DType_BOOL));
  ET_RETURN_IF_ERROR(require_types(operation.in(1), kBool | kInt8 | kInt16 | kInt32 | kFloat | kHalf));
  ET_RETURN_IF_ERROR(require_dtype(operation.in(2), operation.in(1).dtype));
  return require_broadcast(operation, 3, operation.in(1).dtype);
}

template <typename T>
Error select(const Operation& operation, const Memory& memory) {
  const auto* condition = memory.data<const uint8_t>(operation.in(0));
  const T* a = memory.data<const T>(operation.in(1));
  const T* b = memory.data<const T>(operation.in(2));
  T* out = memory.data<T>(operation.out());
  for_each_row<3>(operation, [&](int64_t to, const int64_t (&in)[3], const int64_t (&step)[3], int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      out[to + i] = condition[in[0] + i * step[0]] != 0 ? a[in[1] + i * step[1]] : b[in[2] + i * step[2]];
    }
  });
  return Error::Ok;
}

Error run_select(const Operation& operation, const Memory& memory) {
  switch (element_size(operation.out().dtype)) {
    case 1: return select<uint8_t>(operation, memory);
    case 2: return select<uint16_t>(operation, memory);
    default: return select<uint32_t>(operation, memory);
  }
}

constexpr OperatorRow kRows[] = {
    binary<Add>(payload::Op_ADD),
    binary<Sub>(payload::Op_SUB),
    binary<Pow>(payload::Op_POW),
    binary<BitwiseAnd>(payload::Op_BITWISE_AND),
    binary<BitwiseOr>(payload::Op_BITWISE_OR),
    binary<BitwiseXor>(payload::Op_BITWISE_XOR),
    binary<LogicalAnd>(payload::Op_LOGICAL_AND),
    binary<LogicalOr>(payload::Op_LOGICAL_OR),
    binary<LogicalXor>(payload::Op_LOGICAL_XOR),
    binary<ShiftLeft>(payload::Op_LOGICAL_LEFT_SHIFT),
    binary<ShiftRight>(payload::Op_LOGICAL_RIGHT_SHIFT),
    binary<Equal, true>(payload::Op_EQUAL),
    binary<Greater, true>(payload::Op_GREATER),
    binary<GreaterEqual, true>(payload::Op_GREATER_EQUAL),
    {payload::Op_INTDIV, 2, false, false, check_binary<kInt32, false>, run_int_div},
    {payload::Op_MAXIMUM, 2, false, true, check_binary<kInt32 | kFloat, false>, run_choice<true>},
    {payload::Op_MINIMUM, 2, false, true, check_binary<kInt32 | kFloat, false>, run_choice<false>},
    {payload::Op_ARITHMETIC_RIGHT_SHIFT, 2, false, true, check_binary<kInt8 | kInt16 | kInt32, false>, run_right_shift},
    {payload::Op_MUL, 3, false, false, check_mul, run_mul},
    {payload::Op_SELECT, 3, false, false, check_select, run_select},
};

}  // namespace

Span<const OperatorRow> elementwise_operators() { return kKept<kRows>; }

}  // namespace et::backends::tosa
