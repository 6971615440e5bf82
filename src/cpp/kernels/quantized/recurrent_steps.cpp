#include "kernels/quantized/recurrent_steps.h"

namespace et::kernels::quantized {
namespace {

/// A state [batch, hidden] of floats, with sizes of one in front or not.
Error check_state(const RecurrentCall& call, const char* name, const Tensor& state, const RecurrentShape& shape) {
  ET_CHECK_OR_RETURN(state.scalar_type() == ScalarType::Float, InvalidType, "%s: %s is %s, must be torch.float32",
                     call.op, name, to_string(state.scalar_type()));
  ET_RETURN_IF_ERROR(check_rank(call.op, name, state, 2, 3));
  ET_RETURN_IF_ERROR(check_row_major(call.op, {&state}));
  ET_CHECK_OR_RETURN(
      state.size(-1) == shape.hidden && state.size(-2) == shape.batch && (state.dim() == 2 || state.size(0) == 1),
      InvalidArgument, "%s: %s is %s, must be (%" PRId64 ", %" PRId64 ")", call.op, name, ShapeText(state.sizes()).text,
      shape.batch, shape.hidden);
  return Error::Ok;
}

Error check_first(const RecurrentCall& call, ScalarType wanted, RecurrentShape* shape) {
  if (!call.first->has_value()) {
    return Error::Ok;
  }
  const Tensor& first = **call.first;
  const int64_t row = call.gates * shape->hidden;
  ET_CHECK_OR_RETURN(first.scalar_type() == wanted, InvalidType, "%s: first is %s, must be %s", call.op,
                     to_string(first.scalar_type()), to_string(wanted));
  ET_RETURN_IF_ERROR(check_row_major(call.op, {&first}));
  const bool is_shared = first.numel() == row;
  ET_CHECK_OR_RETURN(first.dim() >= 1 && first.size(-1) == row && (is_shared || first.numel() == shape->batch * row),
                     InvalidArgument, "%s: first is %s, must be (%" PRId64 ",) or (%" PRId64 ", %" PRId64 ")", call.op,
                     ShapeText(first.sizes()).text, row, shape->batch, row);
  shape->first_stride = is_shared ? 0 : row;
  return Error::Ok;
}

}  // namespace

Error prepare_steps(KernelContext& context, const RecurrentCall& call, ScalarType first_type, RecurrentShape* shape) {
  const Tensor& input = *call.input;
  ET_RETURN_IF_ERROR(check_rank(call.op, "input", input, 3, 3));
  ET_RETURN_IF_ERROR(check_row_major(call.op, {&input}));
  // A quotient of 64 bits is a function of the compiler's library, and rows of 2^31 elements do not exist.
  const int64_t hidden = static_cast<int32_t>(input.size(2)) / static_cast<int32_t>(call.gates);
  *shape = {input.size(0), input.size(1), hidden, 0};
  ET_CHECK_OR_RETURN(input.size(2) == call.gates * shape->hidden, InvalidArgument,
                     "%s: rows of %" PRId64 " elements for %" PRId64 " gates", call.op, input.size(2), call.gates);
  ET_CHECK_OR_RETURN(call.hidden != nullptr || call.first->has_value(), InvalidArgument,
                     "%s: neither the first state nor its products are given", call.op);
  if (call.hidden != nullptr) {
    ET_RETURN_IF_ERROR(check_state(call, "hidden", *call.hidden, *shape));
  }
  if (call.cell != nullptr) {
    ET_RETURN_IF_ERROR(check_state(call, "cell", *call.cell, *shape));
  }
  ET_RETURN_IF_ERROR(check_first(call, first_type, shape));
  const int64_t sizes[] = {shape->steps, shape->batch, shape->hidden};
  for (const Tensor* out : {call.out, call.last_cell}) {
    if (out == nullptr) {
      continue;
    }
    ET_CHECK_OR_RETURN(out->scalar_type() == ScalarType::Float, InvalidType, "%s: out is %s, must be torch.float32",
                       call.op, to_string(out->scalar_type()));
    ET_RETURN_IF_ERROR(resize_tensor(context, *out, out == call.out ? IntArrayRef(sizes, 3) : call.cell->sizes()));
    ET_RETURN_IF_ERROR(check_row_major(call.op, {out}));
  }
  return Error::Ok;
}

Error check_weight_rows(const RecurrentCall& call, const RecurrentShape& shape, int64_t rows) {
  ET_CHECK_OR_RETURN(rows == call.gates * shape.hidden, InvalidArgument,
                     "%s: a weight of %" PRId64 " rows for %" PRId64 " gates of %" PRId64 " units", call.op, rows,
                     call.gates, shape.hidden);
  return Error::Ok;
}

}  // namespace et::kernels::quantized
