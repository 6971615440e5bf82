/// Recurrent layers (LSTM, GRU, plain RNN): the arguments of a call, checked, and where the rows of its sequences lie.
///
/// For: the portable kernels (op_recurrent.cpp) and faster ones of other libraries, so that all of them refuse the same
/// calls and number rows alike. Not for: cells that a program calls step by step; those are products and gates.
///
/// A sequence is a matrix of rows, one for each step of each sequence in the batch. Sequences of one length are [batch,
/// steps, features] or [steps, batch, features]. A packed batch has its rows step after step, and at each step only
/// those of the sequences that have not ended, the longest first.
///
///     RecurrentShape shape;
///     ET_RETURN_IF_ERROR(prepare_recurrent(context, call, &shape));       // outputs have their sizes now
///     for (int64_t t = 0; t < shape.steps; ++t)
///       for (int64_t b = 0; b < shape.count(t); ++b) … shape.row(t, b) …
#pragma once

#include "kernels/portable/shape.h"

namespace et::kernels::portable {

enum class RecurrentCell : uint8_t { kLstm, kGru, kTanh, kRelu };

/// Rows of a weight for each unit of a cell.
constexpr int64_t gates_of(RecurrentCell cell) {
  return cell == RecurrentCell::kLstm ? 4 : cell == RecurrentCell::kGru ? 3 : 1;
}

/// The arguments of aten::lstm, gru, rnn_tanh and rnn_relu, of the forms `.input` and `.data`.
struct RecurrentCall {
  const char* op;
  RecurrentCell cell;
  const Tensor* input;        // [batch, steps, features], [steps, batch, features], or packed: [rows, features]
  const Tensor* batch_sizes;  // i64 [steps] of a packed batch; nullptr = not packed
  const Tensor* first_state;  // [layers * directions, batch, state]
  const Tensor* first_cell;   // LSTM: [layers * directions, batch, hidden]
  const TensorList* params;   // each layer and direction: weights of input and state, their biases, a projection
  bool has_biases;
  int64_t num_layers;
  double dropout;
  bool train;
  bool bidirectional;
  bool batch_first;
  const Tensor* out;         // as input, with directions * state columns
  const Tensor* last_state;  // as first_state
  const Tensor* last_cell;   // as first_cell
};

struct RecurrentShape {
  int64_t layers, directions;
  int64_t steps;                     // of the longest sequence
  int64_t batch;                     // number of sequences
  int64_t rows;                      // of all steps and sequences together
  int64_t features;                  // columns of the input
  int64_t hidden;                    // units of a cell
  int64_t state;                     // columns that a cell hands on: `hidden`, or the size of the projection
  int64_t gates;                     // gates_of(cell)
  int64_t params;                    // tensors of a layer and direction
  bool projects;                     // the last of these is a projection
  int64_t step_rows, sequence_rows;  // from a row to that of the next step, of the next sequence; not of packed batches
  const int64_t* counts = nullptr;   // packed: [steps] sequences that have this step; else nullptr
  const int64_t* starts = nullptr;   // packed: [steps] first row of a step

  /// True where no output has an element, however many steps there are.
  bool is_empty() const { return rows == 0 || (state == 0 && hidden == 0); }
  /// How many sequences have step t.
  int64_t count(int64_t t) const { return counts != nullptr ? counts[t] : batch; }
  /// The row of sequence b < count(t) at step t.
  int64_t row(int64_t t, int64_t b) const {
    return starts != nullptr ? starts[t] + b : t * step_rows + b * sequence_rows;
  }
  /// Columns that layer `layer` reads.
  int64_t width(int64_t layer) const { return layer == 0 ? features : directions * state; }
};

/// Checks all arguments and gives the outputs their sizes.
///
/// Shapes: see RecurrentCall. DTypes: one floating type for all tensors but batch_sizes.
/// Errors: InvalidArgument, InvalidType; NotSupported for dropout in training and for tensors that are not row-major.
/// Memory: `counts` and `starts` live until the end of the instruction.
Error prepare_recurrent(KernelContext& context, const RecurrentCall& call, RecurrentShape* shape);

}  // namespace et::kernels::portable
