#include "kernels/portable/recurrent.h"

namespace et::kernels::portable {
namespace {

Error check_sizes(const RecurrentCall& call, const char* name, int64_t index, const Tensor& tensor, IntArrayRef want) {
  ET_RETURN_IF_ERROR(check_same_dtype(call.op, name, tensor, *call.input));
  ET_CHECK_OR_RETURN(equal(IntArrayRef(Sizes(tensor.sizes())), want), InvalidArgument,
                     "%s: %s[%" PRId64 "] has shape %s, must have %s", call.op, name, index,
                     ShapeText(tensor.sizes()).text, ShapeText(want).text);
  return check_row_major(call.op, {&tensor});
}

Error check_params(const RecurrentCall& call, const RecurrentShape& shape) {
  const int64_t rows = shape.gates * shape.hidden;
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    for (int64_t direction = 0; direction < shape.directions; ++direction) {
      const int64_t first = (layer * shape.directions + direction) * shape.params;
      const auto check = [&](int64_t i, std::initializer_list<int64_t> want) {
        return check_sizes(call, "params", first + i, (*call.params)[static_cast<size_t>(first + i)],
                           {want.begin(), want.size()});
      };
      ET_RETURN_IF_ERROR(check(0, {rows, shape.width(layer)}));
      ET_RETURN_IF_ERROR(check(1, {rows, shape.state}));
      if (call.has_biases) {
        ET_RETURN_IF_ERROR(check(2, {rows}));
        ET_RETURN_IF_ERROR(check(3, {rows}));
      }
      if (shape.projects) {
        ET_RETURN_IF_ERROR(check(shape.params - 1, {shape.state, shape.hidden}));
      }
    }
  }
  return Error::Ok;
}

// Sequences of a packed batch: at least one at each step, never more than at the step before.
Error read_batch_sizes(KernelContext& context, const RecurrentCall& call, RecurrentShape* shape) {
  ET_RETURN_IF_ERROR(check_rank(call.op, "input", *call.input, 2, 2));
  ET_RETURN_IF_ERROR(check_rank(call.op, "batch_sizes", *call.batch_sizes, 1, 1));
  ET_CHECK_OR_RETURN(call.batch_sizes->scalar_type() == ScalarType::Long, InvalidType,
                     "%s: batch_sizes is %s, must be torch.int64", call.op, to_string(call.batch_sizes->scalar_type()));
  shape->steps = call.batch_sizes->size(0);
  shape->rows = call.input->size(0);
  ET_CHECK_OR_RETURN(shape->steps > 0, InvalidArgument, "%s: batch_sizes is empty", call.op);
  ET_TRY(void* const memory, context.allocate_temp(2 * static_cast<size_t>(shape->steps) * sizeof(int64_t)));
  auto* const counts = static_cast<int64_t*>(memory);
  int64_t* const starts = counts + shape->steps;
  const auto* const from = static_cast<const int64_t*>(call.batch_sizes->const_data_ptr());
  int64_t rows = 0;
  for (int64_t t = 0; t < shape->steps; ++t) {
    const int64_t most = t == 0 ? shape->rows : counts[t - 1];
    ET_CHECK_OR_RETURN(from[t] > 0 && from[t] <= most && from[t] <= shape->rows - rows, InvalidArgument,
                       "%s: batch_sizes[%" PRId64 "] is %" PRId64 ", must be in [1, %" PRId64
                       "], and all together %" PRId64 ", the rows of the input",
                       call.op, t, from[t], most, shape->rows);
    counts[t] = from[t];
    starts[t] = rows;
    rows += from[t];
  }
  ET_CHECK_OR_RETURN(rows == shape->rows, InvalidArgument,
                     "%s: batch_sizes add up to %" PRId64 ", but the input has %" PRId64 " rows", call.op, rows,
                     shape->rows);
  shape->batch = counts[0];
  shape->counts = counts;
  shape->starts = starts;
  shape->step_rows = shape->sequence_rows = 0;
  return Error::Ok;
}

}  // namespace

Error prepare_recurrent(KernelContext& context, const RecurrentCall& call, RecurrentShape* shape) {
  const bool is_lstm = call.cell == RecurrentCell::kLstm;
  const Tensor& input = *call.input;
  ET_CHECK_OR_RETURN(is_floating(input.scalar_type()), InvalidType, "%s: input is %s, must be floating", call.op,
                     to_string(input.scalar_type()));
  ET_CHECK_OR_RETURN(!call.train || call.dropout == 0.0, NotSupported,
                     "%s: dropout is %g in training; only inference is supported", call.op, call.dropout);
  if (call.batch_sizes != nullptr) {
    ET_RETURN_IF_ERROR(read_batch_sizes(context, call, shape));
  } else {
    ET_RETURN_IF_ERROR(check_rank(call.op, "input", input, 3, 3));
    shape->steps = input.size(call.batch_first ? 1 : 0);
    shape->batch = input.size(call.batch_first ? 0 : 1);
    shape->rows = shape->steps * shape->batch;
    shape->step_rows = call.batch_first ? 1 : shape->batch;
    shape->sequence_rows = call.batch_first ? shape->steps : 1;
    ET_CHECK_OR_RETURN(shape->steps > 0, InvalidArgument, "%s: the sequence in input %s has no steps", call.op,
                       ShapeText(input.sizes()).text);
  }
  ET_RETURN_IF_ERROR(check_rank(call.op, "hx", *call.first_state, 3, 3));
  if (is_lstm) {
    ET_RETURN_IF_ERROR(check_rank(call.op, "hx", *call.first_cell, 3, 3));
  }
  shape->layers = call.num_layers;
  shape->directions = call.bidirectional ? 2 : 1;
  shape->features = input.size(-1);
  shape->gates = gates_of(call.cell);
  shape->state = call.first_state->size(2);
  shape->hidden = is_lstm ? call.first_cell->size(2) : shape->state;
  shape->projects = shape->hidden != shape->state;
  shape->params = (call.has_biases ? 4 : 2) + (shape->projects ? 1 : 0);
  const auto given = static_cast<int64_t>(call.params->size());
  ET_CHECK_OR_RETURN(
      shape->layers > 0 && shape->layers <= given && given == shape->layers * shape->directions * shape->params,
      InvalidArgument,
      "%s: %" PRId64 " parameters for %" PRId64 " layers of %" PRId64 " directions, %" PRId64 " for each", call.op,
      given, shape->layers, shape->directions, shape->params);
  const int64_t cells = shape->layers * shape->directions;
  const int64_t state_dims[] = {cells, shape->batch, shape->state};
  const int64_t cell_dims[] = {cells, shape->batch, shape->hidden};
  const IntArrayRef state_sizes(state_dims, 3);
  const IntArrayRef cell_sizes(cell_dims, 3);
  ET_RETURN_IF_ERROR(check_sizes(call, "hx", 0, *call.first_state, state_sizes));
  if (is_lstm) {
    ET_RETURN_IF_ERROR(check_sizes(call, "hx", 1, *call.first_cell, cell_sizes));
  }
  ET_RETURN_IF_ERROR(check_params(call, *shape));
  ET_RETURN_IF_ERROR(check_row_major(call.op, {&input}));

  Sizes sizes(input.sizes());
  sizes[static_cast<int64_t>(sizes.size()) - 1] = shape->directions * shape->state;
  ET_RETURN_IF_ERROR(check_same_dtype(call.op, "out0", *call.out, input));
  ET_RETURN_IF_ERROR(check_same_dtype(call.op, "out1", *call.last_state, input));
  ET_RETURN_IF_ERROR(resize_tensor(context, *call.out, sizes));
  ET_RETURN_IF_ERROR(resize_tensor(context, *call.last_state, state_sizes));
  ET_RETURN_IF_ERROR(check_row_major(call.op, {call.out, call.last_state}));
  if (is_lstm) {
    ET_RETURN_IF_ERROR(check_same_dtype(call.op, "out2", *call.last_cell, input));
    ET_RETURN_IF_ERROR(resize_tensor(context, *call.last_cell, cell_sizes));
    ET_RETURN_IF_ERROR(check_row_major(call.op, {call.last_cell}));
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
