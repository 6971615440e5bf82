#include "backends/ethos_u/runtime/delegate.h"

#include <cinttypes>
#include <cstring>

namespace et::backends::ethos_u {

Error check_arguments(const CommandPayload& payload, Span<runtime::EValue* const> args) {
  const size_t count = size_t{payload.num_inputs} + payload.num_outputs;
  ET_CHECK_OR_RETURN(args.size() == count, InvalidArgument,
                     "Ethos-U: the payload has %zu inputs and outputs, the call %zu arguments", count, args.size());
  for (uint32_t i = 0; i < count; ++i) {
    ET_CHECK_OR_RETURN(args[i]->is_tensor(), InvalidArgument, "Ethos-U: argument %" PRIu32 " is no tensor", i);
    const runtime::Tensor tensor = args[i]->to_tensor();
    ET_CHECK_OR_RETURN(tensor.nbytes() == payload.place(i).nbytes, InvalidArgument,
                       "Ethos-U: argument %" PRIu32 " has %zu bytes, the payload %" PRIu32, i, tensor.nbytes(),
                       payload.place(i).nbytes);
    ET_CHECK_OR_RETURN(i < payload.num_inputs || !tensor.unsafe_impl()->read_only(), InvalidArgument,
                       "Ethos-U: output %" PRIu32 " is a constant", i - payload.num_inputs);
  }
  return Error::Ok;
}

Error execute(const CommandPayload& payload, runtime::KernelContext& context, Span<runtime::EValue* const> args) {
  ET_TRY(void* memory, context.allocate_temp(payload.scratch_nbytes, 16));
  auto* const scratch = static_cast<uint8_t*>(memory);
  for (uint32_t i = 0; i < payload.num_inputs; ++i) {
    const Place place = payload.place(i);
    std::memcpy(scratch + place.offset, args[i]->to_tensor().const_data_ptr(), place.nbytes);
  }
  ET_RETURN_IF_ERROR(invoke({payload.commands, payload.weights, {scratch, payload.scratch_nbytes}}));
  for (uint32_t i = payload.num_inputs; i < args.size(); ++i) {
    const Place place = payload.place(i);
    std::memcpy(args[i]->to_tensor().mutable_data_ptr(), scratch + place.offset, place.nbytes);
  }
  return Error::Ok;
}

}  // namespace et::backends::ethos_u
