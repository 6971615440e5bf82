// Operators that move elements and compute none. Nearly all are one strided copy.
#include <cstring>

#include "backends/tosa/runtime/broadcast.h"

namespace et::backends::tosa {
namespace {

using payload::DType;

constexpr unsigned kAll = kBool | kInt8 | kInt16 | kInt32 | kInt48 | kFloat | kHalf;

/// Elements of a box, from one tensor to another. TILE has two dimensions for each.
struct StridedCopy {
  static constexpr size_t kMaxDims = 2 * kMaxRank;
  size_t rank = 0;
  int64_t sizes[kMaxDims], from[kMaxDims], to[kMaxDims];  // strides in elements
  int64_t from_start = 0, to_start = 0;

  void add(int64_t size, int64_t from_stride, int64_t to_stride) {
    sizes[rank] = size;
    from[rank] = from_stride;
    to[rank++] = to_stride;
  }
};

template <typename T>
void copy_elements(const StridedCopy& copy, size_t d, const T* from, T* to) {
  if (d == copy.rank) {
    *to = *from;
    return;
  }
  if (d + 1 == copy.rank && copy.from[d] == 1 && copy.to[d] == 1) {
    std::memcpy(to, from, static_cast<size_t>(copy.sizes[d]) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < copy.sizes[d]; ++i) {
    copy_elements(copy, d + 1, from + i * copy.from[d], to + i * copy.to[d]);
  }
}

template <typename T>
void copy_typed(const StridedCopy& copy, const void* from, void* to) {
  copy_elements(copy, 0, static_cast<const T*>(from) + copy.from_start, static_cast<T*>(to) + copy.to_start);
}

Error run_copy(const StridedCopy& copy, const Operation& operation, const Memory& memory, const Value& input) {
  const void* from = memory.data<const void>(input);
  void* to = memory.data<void>(operation.out());
  switch (element_size(input.dtype)) {
    case 1: copy_typed<uint8_t>(copy, from, to); break;
    case 2: copy_typed<uint16_t>(copy, from, to); break;
    case 4: copy_typed<uint32_t>(copy, from, to); break;
    default: copy_typed<uint64_t>(copy, from, to);
  }
  return Error::Ok;
}

/// Elements between neighbours along dimension d.
int64_t stride(const Value& value, size_t d) {
  int64_t result = 1;
  for (size_t i = d + 1; i < value.rank; ++i) {
    result *= value.dims[i];
  }
  return result;
}

/// The values of a shape operand, checked to be `count`.
Error require_shape(const Value& value, int64_t count) {
  ET_RETURN_IF_ERROR(require_parameter(value, payload::DType_SHAPE, count));
  return Error::Ok;
}

Error check_same_elements(const Operation& operation) {
  ET_RETURN_IF_ERROR(require_types(operation.in(0), kAll));
  ET_RETURN_IF_ERROR(require_dtype(operation.out(), operation.in(0).dtype));
  ET_CHECK_OR_RETURN(operation.in(0).numel == operation.out().numel, InvalidProgram,
                     "TOSA: %" PRId32 " elements do not become %" PRId32, operation.in(0).numel, operation.out().numel);
  return Error::Ok;
}

Error check_identity(const Operation& operation) {
  ET_RETURN_IF_ERROR(check_same_elements(operation));
  return require_output(operation, operation.in(0).dtype, operation.in(0).shape());
}

Error check_reshape(const Operation& operation) {
  ET_RETURN_IF_ERROR(check_same_elements(operation));
  ET_RETURN_IF_ERROR(require_shape(operation.in(1), operation.out().rank));
  for (size_t d = 0; d < operation.out().rank; ++d) {
    ET_CHECK_OR_RETURN(operation.in(1).constant_as<int64_t>()[d] == operation.out().dim(d), InvalidProgram,
                       "TOSA: RESHAPE to another shape than that of its output");
  }
  return Error::Ok;
}

Error run_same_elements(const Operation& operation, const Memory& memory) {
  std::memmove(memory.data<void>(operation.out()), memory.data<const void>(operation.in(0)), operation.out().nbytes);
  return Error::Ok;
}

Error check_transpose(const Operation& operation) {
  const Value& input = operation.in(0);
  const auto* perms = operation.attribute_as<payload::TransposeAttribute>()->perms();
  ET_RETURN_IF_ERROR(require_types(input, kAll));
  ET_CHECK_OR_RETURN(perms != nullptr && perms->size() == input.rank, InvalidProgram,
                     "TOSA: TRANSPOSE of rank %u with another number of dimensions", input.rank);
  int32_t shape[kMaxRank];
  unsigned seen = 0;
  for (uint32_t d = 0; d < input.rank; ++d) {
    const int32_t from = perms->Get(d);
    ET_CHECK_OR_RETURN(from >= 0 && from < input.rank && (seen >> from & 1) == 0, InvalidProgram,
                       "TOSA: perms are no permutation");
    seen |= 1u << from;
    shape[d] = input.dims[from];
  }
  return require_output(operation, input.dtype, {shape, input.rank});
}

Error run_transpose(const Operation& operation, const Memory& memory) {
  const auto& perms = *operation.attribute_as<payload::TransposeAttribute>()->perms();
  StridedCopy copy;
  for (uint32_t d = 0; d < operation.out().rank; ++d) {
    copy.add(operation.out().dims[d], stride(operation.in(0), static_cast<size_t>(perms.Get(d))),
             stride(operation.out(), d));
  }
  return run_copy(copy, operation, memory, operation.in(0));
}

Error check_reverse(const Operation& operation) {
  const int32_t axis = operation.attribute_as<payload::ReverseAttribute>()->axis();
  ET_CHECK_OR_RETURN(axis >= 0 && axis < operation.in(0).rank, InvalidProgram, "TOSA: axis %" PRId32 " of rank %u",
                     axis, operation.in(0).rank);
  return check_identity(operation);
}

Error run_reverse(const Operation& operation, const Memory& memory) {
  const auto axis = static_cast<size_t>(operation.attribute_as<payload::ReverseAttribute>()->axis());
  StridedCopy copy;
  for (size_t d = 0; d < operation.out().rank; ++d) {
    const int64_t step = stride(operation.out(), d);
    copy.add(operation.out().dims[d], d == axis ? -step : step, step);
  }
  copy.from_start = stride(operation.out(), axis) * (operation.out().dims[axis] - 1);
  return run_copy(copy, operation, memory, operation.in(0));
}

Error check_slice(const Operation& operation) {
  const Value &input = operation.in(0), &output = operation.out();
  ET_RETURN_IF_ERROR(require_types(input, kAll));
  ET_RETURN_IF_ERROR(require_dtype(output, input.dtype));
  ET_CHECK_OR_RETURN(output.rank == input.rank, InvalidProgram, "TOSA: SLICE to another rank");
  ET_RETURN_IF_ERROR(require_shape(operation.in(1), input.rank));
  ET_RETURN_IF_ERROR(require_shape(operation.in(2), input.rank));
  for (size_t d = 0; d < input.rank; ++d) {
    const int64_t start = operation.in(1).constant_as<int64_t>()[d], size = operation.in(2).constant_as<int64_t>()[d];
    ET_CHECK_OR_RETURN(size == output.dims[d] && start >= 0 && start <= input.dims[d] - size, InvalidProgram,
                       "TOSA: SLICE of %" PRId64 " from %" PRId64 " of a size %" PRId32, size, start, input.dims[d]);
  }
  return Error::Ok;
}

Error run_slice(const Operation& operation, const Memory& memory) {
  StridedCopy copy;
  for (size_t d = 0; d < operation.out().rank; ++d) {
    const int64_t step = stride(operation.in(0), d);
    copy.add(operation.out().dims[d], step, stride(operation.out(), d));
    copy.from_start += operation.in(1).constant_as<int64_t>()[d] * step;
  }
  return run_copy(copy, operation, memory, operation.in(0));
}

Error check_tile(const Operation& operation) {
  const Value &input = operation.in(0), &output = operation.out();
  ET_RETURN_IF_ERROR(require_types(input, kAll));
  ET_RETURN_IF_ERROR(require_dtype(output, input.dtype));
  ET_CHECK_OR_RETURN(output.rank == input.rank, InvalidProgram, "TOSA: TILE to another rank");
  ET_RETURN_IF_ERROR(require_shape(operation.in(1), input.rank));
  for (size_t d = 0; d < input.rank; ++d) {
    const int64_t times = operation.in(1).constant_as<int64_t>()[d];
    ET_CHECK_OR_RETURN(output.dims[d] % input.dims[d] == 0 && output.dims[d] / input.dims[d] == times, InvalidProgram,
                       "TOSA: TILE %" PRId64 " times from size %" PRId32 " to %" PRId32, times, input.dims[d],
                       output.dims[d]);
  }
  return Error::Ok;
}

Error run_tile(const Operation& operation, const Memory& memory) {
  StridedCopy copy;
  for (size_t d = 0; d < operation.out().rank; ++d) {
    const int64_t size = operation.in(0).dims[d], to = stride(operation.out(), d);
    copy.add(operation.out().dims[d] / size, 0, to * size);
    copy.add(size, stride(operation.in(0), d), to);
  }
  return run_copy(copy, operation, memory, operation.in(0));
}

Error check_concat(const Operation& operation) {
  const Value& output = operation.out();
  const int32_t axis = operation.attribute_as<payload::ConcatAttribute>()->axis();
  ET_RETURN_IF_ERROR(require_types(output, kAll));
  ET_CHECK_OR_RETURN(axis >= 0 && axis < output.rank, InvalidProgram, "TOSA: axis %" PRId32 " of rank %u", axis,
                     output.rank);
  int64_t total = 0;
  for (size_t i = 0; i < operation.num_inputs; ++i) {
    const Value& input = operation.in(i);
    ET_RETURN_IF_ERROR(require_dtype(input, output.dtype));
    ET_CHECK_OR_RETURN(input.rank == output.rank, InvalidProgram, "TOSA: CONCAT of other ranks");
    for (int32_t d = 0; d < output.rank; ++d) {
      ET_CHECK_OR_RETURN(d == axis || input.dims[d] == output.dims[d], InvalidProgram, "TOSA: CONCAT of other sizes");
    }
    total += input.dims[axis];
  }
  ET_CHECK_OR_RETURN(total == output.dims[axis], InvalidProgram, "TOSA: CONCAT to another size");
  return Error::Ok;
}

Error run_concat(const Operation& operation, const Memory& memory) {
  const auto axis = static_cast<size_t>(operation.attribute_as<payload::ConcatAttribute>()->axis());
  int64_t start = 0;
  for (size_t i = 0; i < operation.num_inputs; ++i) {
    const Value& input = operation.in(i);
    const int64_t step = stride(operation.out(), axis), run = input.dims[axis] * step;
    StridedCopy copy;
    copy.add(input.numel / run, run, operation.out().dims[axis] * step);
    copy.add(run, 1, 1);
    copy.to_start = start;
    start += run;
    ET_RETURN_IF_ERROR(run_copy(copy, operation, memory, input));
  }
  return Error::Ok;
}

Error check_pad(const Operation& operation) {
  const Value &input = operation.in(0), &output = operation.out();
  ET_RETURN_IF_ERROR(require_types(input, kBool | kInt8 | kInt16 | kInt32 | kFloat | kHalf));
  ET_RETURN_IF_ERROR(require_dtype(output, input.dtype));
  ET_CHECK_OR_RETURN(output.rank == input.rank, InvalidProgram, "TOSA: PAD to another rank");
  ET_RETURN_IF_ERROR(require_shape(operation.in(1), 2 * input.rank));
  ET_RETURN_IF_ERROR(require_parameter(operation.in(2), input.dtype, 1));
  for (size_t d = 0; d < input.rank; ++d) {
    const int64_t* pad = operation.in(1).constant_as<int64_t>() + 2 * d;
    ET_CHECK_OR_RETURN(pad[0] >= 0 && pad[0] <= INT32_MAX && pad[1] >= 0 && pad[1] <= INT32_MAX &&
                           pad[0] + input.dims[d] + pad[1] == output.dims[d],
                       InvalidProgram, "TOSA: PAD by %" PRId64 " and %" PRId64 " from size %" PRId32 " to %" PRId32,
                       pad[0], pad[1], input.dims[d], output.dims[d]);
  }
  return Error::Ok;
}

Error run_pad(const Operation& operation, const Memory& memory) {
  StridedCopy fill;
  fill.add(operation.out().numel, 0, 1);
  ET_RETURN_IF_ERROR(run_copy(fill, operation, memory, operation.in(2)));
  StridedCopy copy;
  for (size_t d = 0; d < operation.out().rank; ++d) {
    const int64_t step = stride(operation.out(), d);
    copy.add(operation.in(0).dims[d], stride(operation.in(0), d), step);
    copy.to_start += operation.in(1).constant_as<int64_t>()[2 * d] * step;
  }
  return run_copy(copy, operation, memory, operation.in(0));
}

/// values [N, K, C], indices [N, W] -> [N, W, C]
Error check_gather(const Operation& operation) {
  const Value &values = operation.in(0), &indices = operation.in(1);
  ET_RETURN_IF_ERROR(require_types(values, kInt8 | kInt16 | kInt32 | kFloat | kHalf));
  ET_RETURN_IF_ERROR(require_dtype(indices, payload::DType_INT32));
  ET_CHECK_OR_RETURN(values.rank == 3 && indices.rank == 2 && values.dims[0] == indices.dims[0], InvalidProgram,
                     "TOSA: GATHER from [N, K, C] by [N, W]");
  return require_output(operation, values.dtype, {values.dims[0], indices.dims[1], values.dims[2]});
}

/// values [N, K, C], indices [N, W], input [N, W, C] -> [N, K, C]
Error check_scatter(const Operation& operation) {
  const Value &values = operation.in(0), &indices = operation.in(1), &input = operation.in(2);
  ET_RETURN_IF_ERROR(require_types(values, kInt8 | kInt16 | kInt32 | kFloat | kHalf));
  ET_RETURN_IF_ERROR(require_dtype(indices, payload::DType_INT32));
  ET_RETURN_IF_ERROR(require_dtype(input, values.dtype));
  ET_CHECK_OR_RETURN(values.rank == 3 && indices.rank == 2 && input.rank == 3 && values.dims[0] == indices.dims[0] &&
                         input.dims[0] == values.dims[0] && input.dims[1] == indices.dims[1] &&
                         input.dims[2] == values.dims[2],
                     InvalidProgram, "TOSA: SCATTER of [N, W, C] by [N, W] to [N, K, C]");
  return require_output(operation, values.dtype, values.shape());
}

/// Rows of `from` to rows of `to`, where `gathers` picks rows of `from` by index, else rows of `to`.
Error move_rows(const Operation& operation, const Memory& memory, const Value& from, const Value& to, bool gathers) {
  const Value& indices = operation.in(1);
  const auto* index = memory.data<const int32_t>(indices);
  const size_t row = static_cast<size_t>(from.dims[2]) * element_size(from.dtype);
  const auto* source = memory.data<const uint8_t>(from);
  auto* target = memory.data<uint8_t>(to);
  const Value& indexed = gathers ? from : to;
  for (int32_t i = 0; i < indices.numel; ++i) {
    ET_CHECK_OR_RETURN(index[i] >= 0 && index[i] < indexed.dims[1], InvalidArgument,
                       "TOSA: index %" PRId32 " at position %" PRId32 " is not in [0, %" PRId32 ")", index[i], i,
                       indexed.dims[1]);
    const auto other = static_cast<size_t>(i / indices.dims[1] * indexed.dims[1] + index[i]);
    const auto here = static_cast<size_t>(i);
    std::memcpy(target + (gathers ? here : other) * row, source + (gathers ? other : here) * row, row);
  }
  return Error::Ok;
}

Error run_gather(const Operation& operation, const Memory& memory) {
  return move_rows(operation, memory, operation.in(0), operation.out(), true);
}

Error run_scatter(const Operation& operation, const Memory& memory) {
  std::memcpy(memory.data<void>(operation.out()), memory.data<const void>(operation.in(0)), operation.out().nbytes);
  return move_rows(operation, memory, operation.in(2), operation.out(), false);
}

constexpr OperatorRow kRows[] = {
    {payload::Op_IDENTITY, 1, false, false, check_identity, run_same_elements},
    {payload::Op_RESHAPE, 2, false, false, check_reshape, run_same_elements},
    {payload::Op_TRANSPOSE, 1, false, true, check_transpose, run_transpose},
    {payload::Op_REVERSE, 1, false, true, check_reverse, run_reverse},
    {payload::Op_SLICE, 3, false, false, check_slice, run_slice},
    {payload::Op_TILE, 2, false, false, check_tile, run_tile},
    {payload::Op_CONCAT, 1, true, true, check_concat, run_concat},
    {payload::Op_PAD, 3, false, false, check_pad, run_pad},
    {payload::Op_GATHER, 2, false, false, check_gather, run_gather},
    {payload::Op_SCATTER, 3, false, false, check_scatter, run_scatter},
};

}  // namespace

Span<const OperatorRow> movement_operators() { return kKept<kRows>; }

}  // namespace et::backends::tosa
