// REDUCE_* and ARGMAX along one dimension.
#include "backends/tosa/runtime/broadcast.h"

namespace et::backends::tosa {
namespace {

using payload::DType;

/// A tensor seen as [outer, size, inner] around the dimension that goes.
struct Axis {
  int64_t outer = 1, size = 1, inner = 1;
};
Axis axis_of(const Value& value, int32_t axis) {
  Axis result;
  for (int32_t d = 0; d < value.rank; ++d) {
    (d < axis ? result.outer : d == axis ? result.size : result.inner) *= value.dims[d];
  }
  return result;
}

Error check_axis(const Value& input, int32_t axis) {
  ET_CHECK_OR_RETURN(axis >= 0 && axis < input.rank, InvalidProgram, "TOSA: axis %" PRId32 " of a tensor of rank %u",
                     axis, input.rank);
  return Error::Ok;
}

template <typename Attribute, unsigned kTypes>
Error check_reduce(const Operation& operation) {
  const Value& input = operation.in(0);
  const int32_t axis = operation.attribute_as<Attribute>()->axis();
  ET_RETURN_IF_ERROR(require_types(input, kTypes));
  ET_RETURN_IF_ERROR(check_axis(input, axis));
  int32_t shape[kMaxRank];
  for (int32_t d = 0; d < input.rank; ++d) {
    shape[d] = d == axis ? 1 : input.dims[d];
  }
  return require_output(operation, input.dtype, {shape, input.rank});
}

/// `first` of the first element, then `next` with each that follows.
template <typename T, typename Attribute, typename Function>
Error reduce(const Operation& operation, const Memory& memory, Function function) {
  const Axis axis = axis_of(operation.in(0), operation.attribute_as<Attribute>()->axis());
  const T* in = memory.data<const T>(operation.in(0));
  T* out = memory.data<T>(operation.out());
  for (int64_t o = 0; o < axis.outer; ++o) {
    for (int64_t i = 0; i < axis.inner; ++i) {
      const T* line = in + o * axis.size * axis.inner + i;
      T result = line[0];
      for (int64_t k = 1; k < axis.size; ++k) {
        result = static_cast<T>(function(result, line[k * axis.inner]));
      }
      out[o * axis.inner + i] = result;
    }
  }
  return Error::Ok;
}

Error run_sum(const Operation& operation, const Memory& memory) {
  using Attribute = payload::ReduceSumAttribute;
  if (operation.in(0).dtype == payload::DType_FP32) {
    return reduce<float, Attribute>(operation, memory, [](float a, float b) { return a + b; });
  }
  return reduce<uint32_t, Attribute>(operation, memory, [](uint32_t a, uint32_t b) { return a + b; });
}

Error run_product(const Operation& operation, const Memory& memory) {
  return reduce<float, payload::ReduceProductAttribute>(operation, memory, [](float a, float b) { return a * b; });
}

Error run_all(const Operation& operation, const Memory& memory) {
  return reduce<uint8_t, payload::ReduceAllAttribute>(operation, memory, [](int a, int b) { return a != 0 && b != 0; });
}

Error run_any(const Operation& operation, const Memory& memory) {
  return reduce<uint8_t, payload::ReduceAnyAttribute>(operation, memory, [](int a, int b) { return a != 0 || b != 0; });
}

template <typename T, typename Attribute, bool kMaximum>
Error extreme(const Operation& operation, const Memory& memory) {
  const bool ignore = operation.attribute_as<Attribute>()->nan_mode() == payload::NanPropagationMode_IGNORE;
  return reduce<T, Attribute>(operation, memory, [ignore](T a, T b) {
    if (a != a || b != b) {
      return (a != a) == ignore ? b : a;
    }
    return (a > b) == kMaximum ? a : b;
  });
}

template <typename Attribute, bool kMaximum>
Error run_extreme(const Operation& operation, const Memory& memory) {
  switch (operation.in(0).dtype) {
    case payload::DType_INT8: return extreme<int8_t, Attribute, kMaximum>(operation, memory);
    case payload::DType_INT16: return extreme<int16_t, Attribute, kMaximum>(operation, memory);
    case payload::DType_INT32: return extreme<int32_t, Attribute, kMaximum>(operation, memory);
    default: return extreme<float, Attribute, kMaximum>(operation, memory);
  }
}

Error check_argmax(const Operation& operation) {
  const Value& input = operation.in(0);
  const int32_t axis = operation.attribute_as<payload::ArgMaxAttribute>()->axis();
  ET_RETURN_IF_ERROR(require_types(input, kInt8 | kInt16 | kFloat));
  ET_RETURN_IF_ERROR(check_axis(input, axis));
  int32_t shape[kMaxRank];
  size_t rank = 0;
  for (int32_t d = 0; d < input.rank; ++d) {
    if (d != axis) {
      shape[rank++] = input.dims[d];
    }
  }
  return require_output(operation, payload::DType_INT32, {shape, rank});
}

/// The first of equal ones; the first NaN where NaN propagates.
template <typename T>
Error argmax(const Operation& operation, const Memory& memory) {
  const auto& attribute = *operation.attribute_as<payload::ArgMaxAttribute>();
  const bool ignore = attribute.nan_mode() == payload::NanPropagationMode_IGNORE;
  const Axis axis = axis_of(operation.in(0), attribute.axis());
  const T* in = memory.data<const T>(operation.in(0));
  auto* out = memory.data<int32_t>(operation.out());
  for (int64_t o = 0; o < axis.outer; ++o) {
    for (int64_t i = 0; i < axis.inner; ++i) {
      const T* line = in + o * axis.size * axis.inner + i;
      int64_t best = 0;
      for (int64_t k = 1; k < axis.size; ++k) {
        const T value = line[k * axis.inner], so_far = line[best * axis.inner];
        const bool better =
            value > so_far || (ignore ? so_far != so_far && value == value : value != value && so_far == so_far);
        best = better ? k : best;
      }
      out[o * axis.inner + i] = static_cast<int32_t>(best);
    }
  }
  return Error::Ok;
}

Error run_argmax(const Operation& operation, const Memory& memory) {
  switch (operation.in(0).dtype) {
    case payload::DType_INT8: return argmax<int8_t>(operation, memory);
    case payload::DType_INT16: return argmax<int16_t>(operation, memory);
    default: return argmax<float>(operation, memory);
  }
}

constexpr unsigned kOrdered = kInt8 | kInt16 | kInt32 | kFloat;

constexpr OperatorRow kRows[] = {
    {payload::Op_REDUCE_SUM, 1, false, true, check_reduce<payload::ReduceSumAttribute, kInt32 | kFloat>, run_sum},
    {payload::Op_REDUCE_PRODUCT, 1, false, true, check_reduce<payload::ReduceProductAttribute, kFloat>, run_product},
    {payload::Op_REDUCE_ALL, 1, false, true, check_reduce<payload::ReduceAllAttribute, kBool>, run_all},
    {payload::Op_REDUCE_ANY, 1, false, true, check_reduce<payload::ReduceAnyAttribute, kBool>, run_any},
    {payload::Op_REDUCE_MAX, 1, false, true, check_reduce<payload::ReduceMaxAttribute, kOrdered>,
     run_extreme<payload::ReduceMaxAttribute, true>},
    {payload::Op_REDUCE_MIN, 1, false, true, check_reduce<payload::ReduceMinAttribute, kOrdered>,
     run_extreme<payload::ReduceMinAttribute, false>},
    {payload::Op_ARGMAX, 1, false, true, check_argmax, run_argmax},
};

}  // namespace

Span<const OperatorRow> reduction_operators() { return kKept<kRows>; }

}  // namespace et::backends::tosa
