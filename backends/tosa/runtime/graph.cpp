#include "backends/tosa/runtime/graph.h"

#include <cstring>

#include "backends/tosa/runtime/graph_loader.h"

namespace et::backends::tosa {
namespace {

using runtime::EValue;
using runtime::Tensor;

/// Whether elements of a tensor are held as those of a value. INT48 is an int64; INT8 may be unsigned (RESCALE).
bool holds(ScalarType dtype, payload::DType of) {
  switch (of) {
    case payload::DType_BOOL: return dtype == ScalarType::Bool;
    case payload::DType_INT8: return dtype == ScalarType::Char || dtype == ScalarType::Byte;
    case payload::DType_INT16: return dtype == ScalarType::Short;
    case payload::DType_INT32: return dtype == ScalarType::Int;
    case payload::DType_INT48: return dtype == ScalarType::Long;
    case payload::DType_FP32: return dtype == ScalarType::Float;
    case payload::DType_FP16: return dtype == ScalarType::Half;
    case payload::DType_BF16: return dtype == ScalarType::BFloat16;
    default: return false;
  }
}

/// Sizes in memory order are the payload's.
bool has_shape(const Tensor& tensor, Span<const int32_t> shape) {
  const Span<const uint8_t> order = runtime::dim_order(tensor);
  if (order.size() != shape.size()) {
    return false;
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    if (tensor.sizes()[order[i]] != shape[i]) {
      return false;
    }
  }
  return true;
}

}  // namespace

Error Graph::load(Span<const uint8_t> payload, runtime::MemoryAllocator& allocator) {
  return GraphLoader(*this, allocator).load(payload);
}

Error Graph::check_arguments(Span<EValue* const> args) const {
  ET_CHECK_OR_RETURN(args.size() == num_arguments_, InvalidArgument,
                     "TOSA: the payload has %" PRIu32 " inputs and outputs, the call %zu arguments", num_arguments_,
                     args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    const Value& value = *arguments_[i];
    ET_CHECK_OR_RETURN(args[i]->is_tensor(), InvalidArgument, "TOSA: argument %zu is no tensor", i);
    const Tensor tensor = args[i]->to_tensor();
    ET_CHECK_OR_RETURN(holds(tensor.scalar_type(), value.dtype) && has_shape(tensor, value.shape()), InvalidArgument,
                       "TOSA: argument %zu is %s of rank %" PRId64 " with %" PRId64
                       " elements; the payload has %s of rank %u with %" PRId32 " (same sizes in memory order)",
                       i, to_string(tensor.scalar_type()), tensor.dim(), tensor.numel(), dtype_name(value.dtype),
                       value.rank, value.numel);
    ET_CHECK_OR_RETURN(i < num_inputs_ || !tensor.unsafe_impl()->read_only(), InvalidArgument,
                       "TOSA: output %zu is a constant", i - size_t{num_inputs_});
  }
  return Error::Ok;
}

Error Graph::run(runtime::KernelContext& context, Span<EValue* const> args) const {
  ET_TRY(void* arena, context.allocate_temp(arena_nbytes_));
  ET_TRY(void* list, context.allocate_temp(args.size() * sizeof(void*)));
  auto** arguments = static_cast<void**>(list);
  for (size_t i = 0; i < args.size(); ++i) {
    arguments[i] = args[i]->to_tensor().mutable_data_ptr();
  }
  const Memory memory{static_cast<uint8_t*>(arena), {arguments, args.size()}};
  for (uint32_t i = 0; i < num_operations_; ++i) {
    if (context.cancelled()) {
      return Error::Cancelled;
    }
    ET_RETURN_IF_ERROR(operations_[i].row->run(operations_[i], memory));
  }
  for (uint32_t i = num_inputs_; i < num_arguments_; ++i) {
    const Value& value = *arguments_[i];
    if (memory.data<void>(value) != arguments[i]) {  // an input, a constant, or an output once more
      std::memcpy(arguments[i], memory.data<const void>(value), value.nbytes);
    }
  }
  return Error::Ok;
}

}  // namespace et::backends::tosa
