// LSTM, GRU and plain recurrent layers, all layers and directions of a call. The 16-bit types compute in float
// throughout. Source of the cells: the documentation of torch.nn.LSTM, GRU and RNN; projections: H. Sak et al., 2014.
#include "kernels/portable/op_recurrent.h"

#include <cmath>
#include <optional>

#include "kernels/portable/convert.h"
#include "kernels/portable/dot.h"
#include "kernels/portable/recurrent.h"

namespace et::kernels::portable {
namespace {

template <typename C>
C sigmoid_of(C x) {
  return C(1) / (C(1) + std::exp(-x));
}

// All elements of a row-major tensor as C: its own memory where it holds C, else a copy.
template <typename C>
Result<const C*> elements_as(KernelContext& context, const Tensor& tensor) {
  if (tensor.scalar_type() == dtype_of<C>) {
    return static_cast<const C*>(tensor.const_data_ptr());
  }
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(tensor.numel()) * sizeof(C)));
  load(tensor.scalar_type(), tensor.const_data_ptr(), 1, tensor.numel(), static_cast<C*>(memory));
  return static_cast<const C*>(memory);
}

template <typename C>
struct Weights {
  const C* input;       // [gates * hidden, width]
  const C* state;       // [gates * hidden, state]
  const C* input_bias;  // [gates * hidden], or nullptr
  const C* state_bias;  // [gates * hidden], or nullptr
  const C* projection;  // [state, hidden], or nullptr
};

template <typename C>
Result<Weights<C>> weights_of(KernelContext& context, const RecurrentCall& call, const RecurrentShape& s,
                              int64_t cell) {
  const auto at = [&](int64_t i) -> const Tensor& { return (*call.params)[static_cast<size_t>(cell * s.params + i)]; };
  Weights<C> weights{};
  ET_TRY(weights.input, elements_as<C>(context, at(0)));
  ET_TRY(weights.state, elements_as<C>(context, at(1)));
  if (call.has_biases) {
    ET_TRY(weights.input_bias, elements_as<C>(context, at(2)));
    ET_TRY(weights.state_bias, elements_as<C>(context, at(3)));
  }
  if (s.projects) {
    ET_TRY(weights.projection, elements_as<C>(context, at(s.params - 1)));
  }
  return weights;
}

// One step of one sequence: from x, the state before and the cell (in place) to the units' values.
template <typename C>
void run_cell(RecurrentCell kind, int64_t hidden, const C* x, const C* h, const C* before, C* cell, C* units) {
  for (int64_t j = 0; j < hidden; ++j) {
    if (kind == RecurrentCell::kLstm) {
      const auto gate = [&](int64_t g) { return x[g * hidden + j] + h[g * hidden + j]; };
      cell[j] = sigmoid_of(gate(1)) * cell[j] + sigmoid_of(gate(0)) * std::tanh(gate(2));
      units[j] = sigmoid_of(gate(3)) * std::tanh(cell[j]);
    } else if (kind == RecurrentCell::kGru) {
      const C reset = sigmoid_of(x[j] + h[j]);
      const C update = sigmoid_of(x[hidden + j] + h[hidden + j]);
      const C fresh = std::tanh(x[2 * hidden + j] + reset * h[2 * hidden + j]);
      units[j] = fresh + update * (before[j] - fresh);
    } else {
      const C sum = x[j] + h[j];
      units[j] = kind == RecurrentCell::kTanh ? std::tanh(sum) : maximum(sum, C(0));
    }
  }
}

// Products of one row with the rows of a weight.
template <typename C>
void multiply_row(const C* x, const C* weight, const C* bias, int64_t rows, int64_t depth, C* out) {
  for (int64_t i = 0; i < rows; ++i) {
    out[i] = dot<C>(x, int64_t{1}, weight + i * depth, int64_t{1}, depth) + (bias == nullptr ? C(0) : bias[i]);
  }
}

// One layer in one direction. in [rows, width] -> out [rows, out_width], from its column `direction * state` on.
template <typename C>
Error run_direction(KernelContext& context, const RecurrentCall& call, const RecurrentShape& s, int64_t layer,
                    int64_t direction, const C* in, C* out, C* scratch) {
  const int64_t index = layer * s.directions + direction;
  const int64_t width = s.width(layer);
  const int64_t out_width = s.directions * s.state;
  ET_TRY(const Weights<C> weights, weights_of<C>(context, call, s, index));
  C* const x = scratch;                        // [gates * hidden]
  C* const h = x + s.gates * s.hidden;         // [gates * hidden]
  C* const units = h + s.gates * s.hidden;     // [hidden]
  C* const first = units + s.hidden;           // [batch, state]
  C* const cells = first + s.batch * s.state;  // LSTM: [batch, hidden]
  const ScalarType dtype = call.input->scalar_type();
  const auto state_at = [&](const Tensor& tensor, int64_t b, int64_t columns) {
    return (index * s.batch + b) * columns * static_cast<int64_t>(tensor.element_size());
  };
  const auto load_states = [&](const Tensor& tensor, int64_t columns, C* to) {
    load(dtype, static_cast<const char*>(tensor.const_data_ptr()) + state_at(tensor, 0, columns), 1, s.batch * columns,
         to);
  };
  load_states(*call.first_state, s.state, first);
  if (call.cell == RecurrentCell::kLstm) {
    load_states(*call.first_cell, s.hidden, cells);
  }
  const auto store_state = [&](const Tensor& tensor, int64_t b, int64_t columns, const C* values) {
    store(dtype, values, columns, static_cast<char*>(tensor.mutable_data_ptr()) + state_at(tensor, b, columns), 1);
  };
  const bool reverse = direction == 1;
  const int64_t towards = reverse ? 1 : -1;  // where the step before is
  for (int64_t i = 0; i < s.steps; ++i) {
    ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", call.op);
    const int64_t t = reverse ? s.steps - 1 - i : i;
    const int64_t running = i == 0 ? 0 : s.count(t + towards);  // sequences that have had a step
    for (int64_t b = 0; b < s.count(t); ++b) {
      const C* const before =
          b < running ? out + s.row(t + towards, b) * out_width + direction * s.state : first + b * s.state;
      C* const after = out + s.row(t, b) * out_width + direction * s.state;
      C* const cell = cells + b * s.hidden;
      multiply_row(in + s.row(t, b) * width, weights.input, weights.input_bias, s.gates * s.hidden, width, x);
      multiply_row(before, weights.state, weights.state_bias, s.gates * s.hidden, s.state, h);
      run_cell(call.cell, s.hidden, x, h, before, cell, s.projects ? units : after);
      if (s.projects) {
        multiply_row<C>(units, weights.projection, nullptr, s.state, s.hidden, after);
      }
      const bool is_last = reverse ? t == 0 : t == s.steps - 1 || b >= s.count(t + 1);
      if (is_last) {
        store_state(*call.last_state, b, s.state, after);
        if (call.cell == RecurrentCell::kLstm) {
          store_state(*call.last_cell, b, s.hidden, cell);
        }
      }
    }
  }
  return Error::Ok;
}

template <typename C>
Error run_layers(KernelContext& context, const RecurrentCall& call, const RecurrentShape& s) {
  const int64_t out_width = s.directions * s.state;
  const auto allocate = [&](int64_t count) { return context.allocate_temp(static_cast<size_t>(count) * sizeof(C)); };
  ET_TRY(void* const scratch, allocate((2 * s.gates + 1) * s.hidden + s.batch * (s.state + s.hidden)));
  ET_TRY(const C* in, elements_as<C>(context, *call.input));
  C* between[2] = {};  // outputs of a layer: each is the input of the next one
  for (int64_t i = 0; i < (s.layers > 2 ? 2 : s.layers - 1); ++i) {
    ET_TRY(void* const memory, allocate(s.rows * out_width));
    between[i] = static_cast<C*>(memory);
  }
  const bool direct = call.out->scalar_type() == dtype_of<C>;
  C* out = static_cast<C*>(call.out->mutable_data_ptr());
  if (!direct) {
    ET_TRY(void* const memory, allocate(s.rows * out_width));
    out = static_cast<C*>(memory);
  }
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    C* const to = layer + 1 == s.layers ? out : between[layer % 2];
    for (int64_t direction = 0; direction < s.directions; ++direction) {
      ET_RETURN_IF_ERROR(run_direction(context, call, s, layer, direction, in, to, static_cast<C*>(scratch)));
    }
    in = to;
  }
  if (!direct) {
    store(call.out->scalar_type(), out, s.rows * out_width, call.out->mutable_data_ptr(), 1);
  }
  return Error::Ok;
}

Error run(KernelContext& context, const RecurrentCall& call) {
  RecurrentShape shape;
  ET_RETURN_IF_ERROR(prepare_recurrent(context, call, &shape));
  if (shape.is_empty()) {
    return Error::Ok;
  }
  return dispatch_float(call.input->scalar_type(),
                        [&](auto zero) { return run_layers<decltype(zero)>(context, call, shape); });
}

Error run_lstm(KernelContext& context, const char* op, const Tensor& input, const Tensor* batch_sizes,
               const TensorList& hx, const TensorList& params, bool has_biases, int64_t num_layers, double dropout,
               bool train, bool bidirectional, bool batch_first, Tensor& out, Tensor& state, Tensor& cell) {
  ET_CHECK_OR_RETURN(hx.size() == 2, InvalidArgument, "%s: hx has %zu tensors, must have 2", op, hx.size());
  return run(context, {op, RecurrentCell::kLstm, &input, batch_sizes, &hx[0], &hx[1], &params, has_biases, num_layers,
                       dropout, train, bidirectional, batch_first, &out, &state, &cell});
}

}  // namespace

Error lstm_input_out(KernelContext& context, const Tensor& input, TensorList hx, TensorList params, bool has_biases,
                     int64_t num_layers, double dropout, bool train, bool bidirectional, bool batch_first, Tensor& out0,
                     Tensor& out1, Tensor& out2) {
  return run_lstm(context, "aten::lstm.input", input, nullptr, hx, params, has_biases, num_layers, dropout, train,
                  bidirectional, batch_first, out0, out1, out2);
}

Error lstm_data_out(KernelContext& context, const Tensor& data, const Tensor& batch_sizes, TensorList hx,
                    TensorList params, bool has_biases, int64_t num_layers, double dropout, bool train,
                    bool bidirectional, Tensor& out0, Tensor& out1, Tensor& out2) {
  return run_lstm(context, "aten::lstm.data", data, &batch_sizes, hx, params, has_biases, num_layers, dropout, train,
                  bidirectional, false, out0, out1, out2);
}

#define ET_RECURRENT(function, name, cell)                                                                             \
  Error function##_input_out(KernelContext& context, const Tensor& input, const Tensor& hx, TensorList params,         \
                             bool has_biases, int64_t num_layers, double dropout, bool train, bool bidirectional,      \
                             bool batch_first, Tensor& out0, Tensor& out1) {                                           \
    return run(context, {name ".input", cell, &input, nullptr, &hx, nullptr, &params, has_biases, num_layers, dropout, \
                         train, bidirectional, batch_first, &out0, &out1, nullptr});                                   \
  }                                                                                                                    \
  Error function##_data_out(KernelContext& context, const Tensor& data, const Tensor& batch_sizes, const Tensor& hx,   \
                            TensorList params, bool has_biases, int64_t num_layers, double dropout, bool train,        \
                            bool bidirectional, Tensor& out0, Tensor& out1) {                                          \
    return run(context, {name ".data", cell, &data, &batch_sizes, &hx, nullptr, &params, has_biases, num_layers,       \
                         dropout, train, bidirectional, false, &out0, &out1, nullptr});                                \
  }

ET_RECURRENT(gru, "aten::gru", RecurrentCell::kGru)
ET_RECURRENT(rnn_tanh, "aten::rnn_tanh", RecurrentCell::kTanh)
ET_RECURRENT(rnn_relu, "aten::rnn_relu", RecurrentCell::kRelu)
#undef ET_RECURRENT

}  // namespace et::kernels::portable
