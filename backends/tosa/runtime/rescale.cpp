// RESCALE: from one integer type and scale to another.
#include "backends/tosa/runtime/rescale.h"

#include <limits>

#include "backends/tosa/runtime/operation.h"

namespace et::backends::tosa {
namespace {

using payload::DType;

/// Values that an integer type holds, signed or not.
struct Range {
  int64_t low, high;
};

Range range_of(DType dtype, bool is_unsigned) {
  const int bits = dtype == payload::DType_INT8    ? 8
                   : dtype == payload::DType_INT16 ? 16
                   : dtype == payload::DType_INT32 ? 32
                                                   : 48;
  const int64_t half = int64_t{1} << (bits - 1);
  return is_unsigned ? Range{0, 2 * half - 1} : Range{-half, half - 1};
}

template <typename T>
int64_t extended(T value, bool is_unsigned) {
  return is_unsigned ? static_cast<int64_t>(static_cast<std::make_unsigned_t<T>>(value)) : static_cast<int64_t>(value);
}

/// A zero point, which has its tensor's type.
int64_t zero_point(const Value& value, bool is_unsigned) {
  return value.dtype == payload::DType_INT8    ? extended(*value.constant_as<int8_t>(), is_unsigned)
         : value.dtype == payload::DType_INT16 ? extended(*value.constant_as<int16_t>(), is_unsigned)
         : value.dtype == payload::DType_INT32 ? int64_t{*value.constant_as<int32_t>()}
                                               : *value.constant_as<int64_t>();
}

Error check_zero_point(const Value& value, DType dtype, bool is_unsigned) {
  ET_RETURN_IF_ERROR(require_parameter(value, dtype, 1));
  const int64_t zero = zero_point(value, is_unsigned);
  ET_CHECK_OR_RETURN(
      zero == 0 || dtype == payload::DType_INT8 || (dtype == payload::DType_INT16 && is_unsigned && zero == 32768),
      InvalidProgram, "TOSA: zero point %" PRId64 " of %s", zero, dtype_name(dtype));
  return Error::Ok;
}

int64_t multiplier_at(const Value& value, bool scale32, int32_t i) {
  return scale32 ? value.constant_as<int32_t>()[i] : value.constant_as<int16_t>()[i];
}

bool is_integer(DType dtype) {
  return dtype == payload::DType_INT8 || dtype == payload::DType_INT16 || dtype == payload::DType_INT32 ||
         dtype == payload::DType_INT48;
}

Error check_rescale(const Operation& operation) {
  const auto& attribute = *operation.attribute_as<payload::RescaleAttribute>();
  const Value& input = operation.in(0);
  const DType from = input.dtype, to = operation.out().dtype;
  ET_CHECK_OR_RETURN(is_integer(from) && is_integer(to) && to != payload::DType_INT48, InvalidProgram,
                     "TOSA: RESCALE from %s to %s", dtype_name(from), dtype_name(to));
  ET_RETURN_IF_ERROR(require_output(operation, to, input.shape()));
  const bool scale32 = attribute.scale32();
  const auto rounding = attribute.rounding_mode();
  ET_CHECK_OR_RETURN((!scale32 || from != payload::DType_INT48) && rounding >= payload::RoundingMode_SINGLE_ROUND &&
                         rounding <= payload::RoundingMode_DOUBLE_ROUND &&
                         (scale32 || rounding != payload::RoundingMode_DOUBLE_ROUND),
                     InvalidProgram, "TOSA: a 32-bit multiplier for INT48, or no rounding mode that fits");
  ET_CHECK_OR_RETURN(!(attribute.input_unsigned() && attribute.output_unsigned()) &&
                         (!attribute.input_unsigned() || from == payload::DType_INT8 || from == payload::DType_INT16) &&
                         (!attribute.output_unsigned() || to == payload::DType_INT8 || to == payload::DType_INT16),
                     InvalidProgram, "TOSA: RESCALE of this type has no unsigned form");
  ET_CHECK_OR_RETURN(!attribute.per_channel() || input.rank > 0, InvalidProgram, "TOSA: channels of a scalar");
  const int64_t count = attribute.per_channel() ? input.dim(input.rank - 1u) : 1;
  ET_RETURN_IF_ERROR(require_parameter(operation.in(1), scale32 ? payload::DType_INT32 : payload::DType_INT16, count));
  ET_RETURN_IF_ERROR(require_parameter(operation.in(2), payload::DType_INT8, count));
  ET_RETURN_IF_ERROR(check_zero_point(operation.in(3), from, attribute.input_unsigned()));
  ET_RETURN_IF_ERROR(check_zero_point(operation.in(4), to, attribute.output_unsigned()));
  for (int32_t i = 0; i < count; ++i) {
    const int32_t shift = operation.in(2).constant_as<int8_t>()[i];
    const int64_t multiplier = multiplier_at(operation.in(1), scale32, i);
    ET_CHECK_OR_RETURN(multiplier >= 0 && shift >= kMinShift && shift <= kMaxShift, InvalidProgram,
                       "TOSA: channel %" PRId32 " has multiplier %" PRId64 " and shift %" PRId32
                       ", they must be positive and in [2, 62]",
                       i, multiplier, shift);
  }
  return Error::Ok;
}

template <typename In, typename Out>
void rescale(const Operation& operation, const Memory& memory) {
  const auto& attribute = *operation.attribute_as<payload::RescaleAttribute>();
  const bool input_unsigned = attribute.input_unsigned();
  const bool twice = attribute.rounding_mode() == payload::RoundingMode_DOUBLE_ROUND;
  const int64_t in_zero = zero_point(operation.in(3), input_unsigned);
  const int64_t out_zero = zero_point(operation.in(4), attribute.output_unsigned());
  const Range range = range_of(operation.out().dtype, attribute.output_unsigned());
  const In* in = memory.data<const In>(operation.in(0));
  Out* out = memory.data<Out>(operation.out());
  const int32_t channels = attribute.per_channel() ? operation.in(1).numel : 1;
  for (int32_t i = 0, channel = 0; i < operation.out().numel;
       ++i, channel = channel + 1 == channels ? 0 : channel + 1) {
    const auto multiplier = static_cast<int32_t>(multiplier_at(operation.in(1), attribute.scale32(), channel));
    const int64_t value = extended(in[i], input_unsigned) - in_zero;
    const int64_t scaled = apply_scale(value, multiplier, operation.in(2).constant_as<int8_t>()[channel], twice);
    out[i] = static_cast<Out>(clamped(scaled + out_zero, range.low, range.high));
  }
}

template <typename In>
Error rescale_to(const Operation& operation, const Memory& memory) {
  switch (operation.out().dtype) {
    case payload::DType_INT8: rescale<In, int8_t>(operation, memory); break;
    case payload::DType_INT16: rescale<In, int16_t>(operation, memory); break;
    default: rescale<In, int32_t>(operation, memory);
  }
  return Error::Ok;
}

Error run_rescale(const Operation& operation, const Memory& memory) {
  switch (operation.in(0).dtype) {
    case payload::DType_INT8: return rescale_to<int8_t>(operation, memory);
    case payload::DType_INT16: return rescale_to<int16_t>(operation, memory);
    case payload::DType_INT32: return rescale_to<int32_t>(operation, memory);
    default: return rescale_to<int64_t>(operation, memory);
  }
}

constexpr OperatorRow kRows[] = {{payload::Op_RESCALE, 5, false, true, check_rescale, run_rescale}};

}  // namespace

Span<const OperatorRow> rescale_operators() { return kKept<kRows>; }

}  // namespace et::backends::tosa
