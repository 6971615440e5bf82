/// Walks over the elements of an output whose operands broadcast.
///
/// For: operators that compute element by element. Ranks are equal; a dimension of 1 stands for any size.
///
///     for_each_row<2>(operation, [&](int64_t out, const int64_t (&in)[2], const int64_t (&step)[2], int64_t count) {
///       for (int64_t i = 0; i < count; ++i) c[out + i] = f(a[in[0] + i * step[0]], b[in[1] + i * step[1]]);
///     });
#pragma once

#include "backends/tosa/runtime/operation.h"

namespace et::backends::tosa {

/// Sets of types that an operator takes.
enum Types : unsigned { kBool = 1, kInt8 = 2, kInt16 = 4, kInt32 = 8, kInt48 = 16, kFloat = 32, kHalf = 64 };

inline unsigned type_bit(payload::DType dtype) {
  switch (dtype) {
    case payload::DType_BOOL: return kBool;
    case payload::DType_INT8: return kInt8;
    case payload::DType_INT16: return kInt16;
    case payload::DType_INT32: return kInt32;
    case payload::DType_INT48: return kInt48;
    case payload::DType_FP32: return kFloat;
    case payload::DType_FP16:
    case payload::DType_BF16: return kHalf;
    default: return 0;
  }
}

/// Refuses a value whose type is not in `types`.
inline Error require_types(const Value& value, unsigned types) {
  ET_CHECK_OR_RETURN((type_bit(value.dtype) & types) != 0, NotSupported,
                     "TOSA: the interpreter has no such operator of %s", dtype_name(value.dtype));
  return Error::Ok;
}

/// Refuses operands that do not broadcast to an output of `dtype`. The first `count` inputs are the operands.
inline Error require_broadcast(const Operation& operation, size_t count, payload::DType dtype) {
  const Value& output = operation.out();
  ET_RETURN_IF_ERROR(require_dtype(output, dtype));
  for (size_t i = 0; i < count; ++i) {
    ET_CHECK_OR_RETURN(operation.in(i).rank == output.rank, InvalidProgram, "TOSA: operands of rank %u and %u",
                       operation.in(i).rank, output.rank);
  }
  for (size_t d = 0; d < output.rank; ++d) {
    int32_t size = 1;
    for (size_t i = 0; i < count; ++i) {
      const Value& input = operation.in(i);
      ET_CHECK_OR_RETURN(size == 1 || input.dims[d] == 1 || input.dims[d] == size, InvalidProgram,
                         "TOSA: operands of sizes %" PRId32 " and %" PRId32 " do not broadcast", size, input.dims[d]);
      size = size == 1 ? input.dims[d] : size;
    }
    ET_CHECK_OR_RETURN(size == output.dims[d], InvalidProgram,
                       "TOSA: the output has size %" PRId32 ", the operands give %" PRId32, output.dims[d], size);
  }
  return Error::Ok;
}

template <size_t N, typename Row>
void for_each_row(const Operation& operation, Row row) {
  const Value& output = operation.out();
  int64_t steps[N][kMaxRank] = {}, offsets[N] = {}, last[N];
  bool same = true;
  for (size_t i = 0; i < N; ++i) {
    const Value& input = operation.in(i);
    same = same && input.numel == output.numel;
    int64_t step = 1;
    for (size_t d = output.rank; d-- > 0; step *= input.dims[d]) {
      steps[i][d] = input.dims[d] == 1 ? 0 : step;
    }
    last[i] = output.rank == 0 ? 0 : steps[i][output.rank - 1];
  }
  if (same) {
    for (int64_t& step : last) {
      step = 1;
    }
    row(0, offsets, last, output.numel);
    return;
  }
  const int64_t count = output.dims[output.rank - 1];
  int32_t index[kMaxRank] = {};
  for (int64_t done = 0; done < output.numel; done += count) {
    row(done, offsets, last, count);
    for (size_t d = output.rank - 1; d-- > 0;) {
      const bool carry = ++index[d] == output.dims[d];
      for (size_t i = 0; i < N; ++i) {
        offsets[i] += carry ? -steps[i][d] * (output.dims[d] - 1) : steps[i][d];
      }
      if (!carry) {
        break;
      }
      index[d] = 0;
    }
  }
}

}  // namespace et::backends::tosa
