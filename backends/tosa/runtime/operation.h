/// Values and operators of a payload as the interpreter knows them, and the table of operators.
///
/// For: graph.cpp, which makes and checks them once, and for one file of functions a family of operators.
/// Not for: the payload's bytes; graph.cpp alone reads those, save for attributes, which operators read themselves.
///
/// An operator is a row of the table. Its `check` runs once, when the payload is loaded, and refuses what `run` could
/// not do. Its `run` computes, and checks only what depends on elements: indices of GATHER.
#pragma once

#include <array>
#include <iterator>

#include "backends/tosa/schema/tosa_generated.h"
#include "base/error.h"
#include "base/span.h"

namespace et::backends::tosa {

/// TOSA's level 8K: MAX_RANK, and MAX_KERNEL, which is MAX_STRIDE too.
inline constexpr size_t kMaxRank = 6;
inline constexpr int64_t kMaxKernel = 8192;

/// Where the elements of a value stand.
enum class Place : uint8_t { kNowhere, kConstant, kArena, kArgument };

/// A tensor or a shape. In memory INT48 takes 8 bytes (an int64), BOOL one, INT4 (constants only) half of one.
struct Value {
  payload::DType dtype = payload::DType_UNKNOWN;
  Place place = Place::kNowhere;
  uint8_t rank = 0;
  int32_t dims[kMaxRank] = {};     ///< outermost first
  int32_t numel = 0;               ///< product of dims; number of values of a shape
  uint32_t nbytes = 0;             ///< in memory
  const void* constant = nullptr;  ///< of kConstant
  uint32_t offset = 0;             ///< of kArena: bytes; of kArgument: which one
  uint32_t first_use = 0;          ///< operator that makes it
  uint32_t last_use = 0;           ///< last operator that reads it

  bool is_constant() const { return place == Place::kConstant; }
  int64_t dim(size_t i) const { return dims[i]; }
  Span<const int32_t> shape() const { return {dims, rank}; }
  /// Elements of a constant that graph.cpp aligned.
  template <typename T>
  const T* constant_as() const {
    return static_cast<const T*>(constant);
  }
};

/// Bytes of one element in memory; 0 for INT4 and unknown types.
size_t element_size(payload::DType dtype);
const char* dtype_name(payload::DType dtype);

/// Where the elements of a call's values are.
struct Memory {
  uint8_t* arena;
  Span<void* const> arguments;

  template <typename T>
  T* data(const Value& value) const {
    switch (value.place) {
      case Place::kConstant: return static_cast<T*>(const_cast<void*>(value.constant));
      case Place::kArena: return reinterpret_cast<T*>(arena + value.offset);
      default: return static_cast<T*>(arguments[value.offset]);
    }
  }
};

struct OperatorRow;

/// One operator of the graph.
struct Operation {
  const OperatorRow* row = nullptr;
  const void* attribute = nullptr;  ///< the payload's table, of the type that belongs to the operator; may be nullptr
  const Value* const* operands = nullptr;  ///< inputs, then outputs
  uint32_t num_inputs = 0;
  uint32_t position = 0;  ///< in the block

  const Value& in(size_t i) const { return *operands[i]; }
  const Value& out() const { return *operands[num_inputs]; }
  template <typename T>
  const T* attribute_as() const {
    return static_cast<const T*>(attribute);
  }
};

/// What the interpreter knows of an operator.
struct OperatorRow {
  payload::Op op = payload::Op_UNKNOWN;
  uint8_t min_inputs = 0;
  bool more_inputs = false;  ///< as many as the graph gives (CONCAT)
  bool has_attribute = false;
  Error (*check)(const Operation& operation) = nullptr;
  Error (*run)(const Operation& operation, const Memory& memory) = nullptr;
};

/// Whether this build has an operator. Firmware has those of its model: ET_TOSA_OPERATORS lists their numbers
/// (backends/tosa/firmware.py).
constexpr bool is_kept([[maybe_unused]] payload::Op op) {
#ifdef ET_TOSA_OPERATORS
  for (const int kept : {ET_TOSA_OPERATORS}) {
    if (kept == static_cast<int>(op)) {
      return true;
    }
  }
  return false;
#else
  return true;
#endif
}

/// The rows of a family; those that are not kept have no functions, so that nothing of them is linked.
template <const auto& kAll>
inline constexpr auto kKept = [] {
  std::array<OperatorRow, std::size(kAll)> rows{};
  for (size_t i = 0; i < rows.size(); ++i) {
    if (is_kept(kAll[i].op)) {
      rows[i] = kAll[i];
    }
  }
  return rows;
}();

/// The row of `op`; nullptr for what the interpreter does not have.
const OperatorRow* find_operator(payload::Op op);

/// Rows of each family, in the file that is named so.
Span<const OperatorRow> convolution_operators();
Span<const OperatorRow> pooling_operators();
Span<const OperatorRow> elementwise_operators();
Span<const OperatorRow> unary_operators();
Span<const OperatorRow> rescale_operators();
Span<const OperatorRow> reduction_operators();
Span<const OperatorRow> movement_operators();
Span<const OperatorRow> resize_operators();

/// Refuses a payload whose operand is not of this type.
inline Error require_dtype(const Value& value, payload::DType dtype) {
  ET_CHECK_OR_RETURN(value.dtype == dtype, InvalidProgram, "TOSA: an operand is %s, it must be %s",
                     dtype_name(value.dtype), dtype_name(dtype));
  return Error::Ok;
}

/// Refuses an output of another type or shape.
inline Error require_output(const Operation& operation, payload::DType dtype, Span<const int32_t> shape) {
  ET_RETURN_IF_ERROR(require_dtype(operation.out(), dtype));
  ET_CHECK_OR_RETURN(equal(operation.out().shape(), shape), InvalidProgram,
                     "TOSA: the output has another shape than the operands give");
  return Error::Ok;
}

/// Refuses a parameter (zero point, multiplier, shift) that is no constant of this type and number of elements.
inline Error require_parameter(const Value& value, payload::DType dtype, int64_t numel) {
  ET_RETURN_IF_ERROR(require_dtype(value, dtype));
  ET_CHECK_OR_RETURN(value.is_constant() && value.numel == numel, InvalidProgram,
                     "TOSA: a parameter must be a constant of %" PRId64 " elements, it has %" PRId32, numel,
                     value.numel);
  return Error::Ok;
}

/// The element of a constant of one element, INT8 to INT32 and FP32 as T; 0 of other types.
template <typename T>
T scalar(const Value& value) {
  switch (value.dtype) {
    case payload::DType_INT8: return static_cast<T>(*value.constant_as<int8_t>());
    case payload::DType_INT16: return static_cast<T>(*value.constant_as<int16_t>());
    case payload::DType_INT32: return static_cast<T>(*value.constant_as<int32_t>());
    case payload::DType_FP32: return static_cast<T>(*value.constant_as<float>());
    default: return T{};
  }
}

}  // namespace et::backends::tosa
