// LSTM, GRU and plain recurrent layers with constant weights, of f32 and, computed in float, the 16-bit floats.
//
// Weights are packed once at load. Inputs of some steps are multiplied together, then the steps run one by one.
// Sequences are independent of each other, so groups of them run on different threads without ever waiting. With few
// sequences the threads share the two directions of a layer, or else the units of a step.

#include <algorithm>

#include "base/rounding.h"
#include "kernels/optimized/recurrent/recurrent_cells.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/prepared.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/convert.h"
#include "ops/signatures/portable/op_recurrent.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::recurrent {
namespace {

using portable::RecurrentCall;
using portable::RecurrentShape;

/// Rows of inputs that are multiplied at a time: enough to reuse the weights, few enough for the second cache.
constexpr size_t kChunkRows = 96;
/// Sequences that one thread takes at a time.
constexpr size_t kGroup = 48;
/// Products (of two numbers) that are worth a hand-over to another thread; it costs about 2 µs.
constexpr double kWorthSharing = 1 << 17;
/// Weights of this size no longer stay in a core's cache between two steps, so threads had better share them.
constexpr size_t kLargeWeights = size_t{1} << 19;

/// The packed weights of one layer and direction.
struct PackedCell {
  const float* input;       // [strips, width, gates, lanes]
  const float* state;       // [strips, state, gates, lanes]
  const float* bias;        // [strips, gates, lanes]: all biases that are only added
  const float* state_bias;  // GRU: [strips, lanes], what the reset gate scales
  const float* projection;  // [strips of the state, hidden, lanes], or nullptr
};

struct RecurrentState {
  RecurrentCell cell;
  bool packed_batch;
  PackedCell* cells;  // [layers * directions]
};

size_t strips_of(int64_t columns) {
  const size_t lanes = recurrent_lanes();
  return (static_cast<size_t>(columns) + lanes - 1) / lanes;
}

// ------------------------------------------------------------------------------------------------------------- at load

/// A weight [gates * units, depth] to be packed.
struct GatesWeight {
  const Tensor* weight;
  size_t gates, units, depth;

  size_t size() const { return strips_of(static_cast<int64_t>(units)) * depth * gates * recurrent_lanes(); }
};

void pack(const GatesWeight& p, float* out) {
  const size_t lanes = recurrent_lanes();
  const size_t width = p.gates * lanes;
  const ScalarType dtype = p.weight->scalar_type();
  const auto* const data = static_cast<const char*>(p.weight->const_data_ptr());
  std::fill_n(out, p.size(), 0.0f);
  constexpr size_t kRun = 64;
  float run[kRun];
  for (size_t unit = 0; unit < p.units; ++unit) {
    for (size_t gate = 0; gate < p.gates; ++gate) {
      const char* const row = data + (gate * p.units + unit) * p.depth * element_size(dtype);
      float* const to = out + unit / lanes * p.depth * width + gate * lanes + unit % lanes;
      for (size_t k = 0; k < p.depth; k += kRun) {
        const size_t n = std::min(kRun, p.depth - k);
        portable::load(dtype, row + k * element_size(dtype), 1, static_cast<int64_t>(n), run);
        for (size_t i = 0; i < n; ++i) {
          to[(k + i) * width] = run[i];
        }
      }
    }
  }
}

Result<const float*> packed_weight(runtime::PrepareContext& context, const GatesWeight& w) {
  const Packing packing{w.weight->const_data_ptr(), uint64_t{w.units} << 32 | w.depth << 3 | w.gates};
  return packed_once<float>(context, packing, w.size(), [&](float* to) { pack(w, to); });
}

/// Biases [gates * units] as [strips, gates, lanes], in the Method's memory; both may be nullptr. Of a GRU the third
/// one of `of_state` stays apart.
Error pack_biases(runtime::PrepareContext& context, bool is_gru, size_t gates, size_t units, const Tensor* of_input,
                  const Tensor* of_state, PackedCell* cell) {
  const size_t lanes = recurrent_lanes();
  const size_t strips = strips_of(static_cast<int64_t>(units));
  const size_t count = strips * (gates + 1) * lanes;
  ET_TRY(void* const memory, context.allocate(count * sizeof(float), 64));
  auto* const bias = static_cast<float*>(memory);
  float* const state_bias = bias + strips * gates * lanes;
  std::fill_n(bias, count, 0.0f);
  for (size_t unit = 0; of_input != nullptr && unit < units; ++unit) {
    for (size_t gate = 0; gate < gates; ++gate) {
      const auto at = static_cast<int64_t>(gate * units + unit);
      float* const sum = bias + unit / lanes * gates * lanes + gate * lanes + unit % lanes;
      float* const to = is_gru && gate == 2 ? state_bias + unit : sum;
      *sum += portable::load_one<float>(of_input->scalar_type(), of_input->const_data_ptr(), at);
      *to += portable::load_one<float>(of_state->scalar_type(), of_state->const_data_ptr(), at);
    }
  }
  cell->bias = bias;
  cell->state_bias = state_bias;
  return Error::Ok;
}

/// Where the arguments of a call stand: (input, [batch_sizes,] hx, params, has_biases, num_layers, dropout, train,
/// bidirectional, [batch_first,] outs…).
struct Positions {
  size_t hx, params, outs;
  explicit Positions(bool packed_batch) : hx(packed_batch ? 2 : 1), params(hx + 1), outs(9) {}
};

bool is_fitting(const EValue& value, ScalarType dtype) {
  return value.is_tensor() && value.to_tensor().scalar_type() == dtype && is_row_major(value);
}

bool has_sizes(const Tensor& tensor, std::initializer_list<size_t> sizes) {
  if (static_cast<size_t>(tensor.dim()) != sizes.size()) {
    return false;
  }
  int64_t d = 0;
  for (const size_t size : sizes) {
    if (tensor.size(d++) != static_cast<int64_t>(size)) {
      return false;
    }
  }
  return true;
}

template <RecurrentCell kCell, bool kPackedBatch>
Error prepare(runtime::PrepareContext& context, Arguments args, void** made) {
  constexpr bool kIsLstm = kCell == RecurrentCell::kLstm;
  const Positions at(kPackedBatch);
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  if (!is_up_to_float(dtype)) {
    return Error::NotSupported;
  }
  const auto& params = args[at.params]->tensor_list_items();
  for (uint32_t i = 0; i < params.size; ++i) {
    if (!context.is_constant(*params.items[i]) || !is_fitting(*params.items[i], dtype)) {
      return Error::NotSupported;
    }
  }
  for (size_t i = at.params + 1; i < at.outs; ++i) {
    if (!context.is_constant(*args[i])) {
      return Error::NotSupported;
    }
  }
  for (size_t i = 0; i < (kIsLstm ? 3 : 2); ++i) {
    if (!is_fitting(*args[at.outs + i], dtype)) {
      return Error::NotSupported;
    }
  }
  if (kIsLstm && args[at.hx]->tensor_list_items().size != 2) {
    return Error::NotSupported;
  }
  const EValue& hx = kIsLstm ? *args[at.hx]->tensor_list_items().items[0] : *args[at.hx];
  const EValue& cx = kIsLstm ? *args[at.hx]->tensor_list_items().items[1] : *args[at.hx];
  const auto input = args[0]->to_tensor();
  if (!is_fitting(*args[0], dtype) || !is_fitting(hx, dtype) || !is_fitting(cx, dtype) || hx.to_tensor().dim() != 3 ||
      cx.to_tensor().dim() != 3 || input.dim() < 2) {
    return Error::NotSupported;
  }
  constexpr auto kGates = static_cast<size_t>(portable::gates_of(kCell));
  const auto state_size = static_cast<size_t>(hx.to_tensor().size(2));
  const auto hidden = static_cast<size_t>(cx.to_tensor().size(2));
  const bool has_biases = args[at.params + 1]->number_as_bool();
  const bool projects = hidden != state_size;
  const size_t per_cell = (has_biases ? 4u : 2u) + (projects ? 1u : 0u);
  const size_t directions = args[at.params + 5]->number_as_bool() ? 2 : 1;
  const int64_t layers = args[at.params + 2]->number_as_int();
  if (layers <= 0 || layers > params.size || params.size != static_cast<size_t>(layers) * directions * per_cell ||
      hidden == 0 || state_size == 0) {
    return Error::NotSupported;
  }
  ET_TRY(void* const cells_memory, context.allocate(params.size / per_cell * sizeof(PackedCell), alignof(PackedCell)));
  auto* const cells = static_cast<PackedCell*>(cells_memory);
  for (size_t index = 0; index < params.size / per_cell; ++index) {
    const auto param = [&](size_t i) { return params.items[index * per_cell + i]->to_tensor(); };
    const size_t width = index < directions ? static_cast<size_t>(input.size(-1)) : directions * state_size;
    const Tensor of_input = param(0);
    const Tensor of_state = param(1);
    if (!has_sizes(of_input, {kGates * hidden, width}) || !has_sizes(of_state, {kGates * hidden, state_size})) {
      return Error::NotSupported;
    }
    PackedCell cell{};
    ET_TRY(cell.input, packed_weight(context, {&of_input, kGates, hidden, width}));
    ET_TRY(cell.state, packed_weight(context, {&of_state, kGates, hidden, state_size}));
    if (has_biases && (!has_sizes(param(2), {kGates * hidden}) || !has_sizes(param(3), {kGates * hidden}))) {
      return Error::NotSupported;
    }
    const Tensor input_bias = param(has_biases ? 2 : 0);
    const Tensor state_bias = param(has_biases ? 3 : 0);
    ET_RETURN_IF_ERROR(pack_biases(context, kCell == RecurrentCell::kGru, kGates, hidden,
                                   has_biases ? &input_bias : nullptr, &state_bias, &cell));
    if (projects) {
      const Tensor projection = param(per_cell - 1);
      if (!has_sizes(projection, {state_size, hidden})) {
        return Error::NotSupported;
      }
      ET_TRY(cell.projection, packed_weight(context, {&projection, 1, state_size, hidden}));
    }
    new (&cells[index]) PackedCell(cell);
  }
  return keep_state(context, RecurrentState{kCell, kPackedBatch, cells}, made);
}

// ------------------------------------------------------------------------------------------------------------- a call

/// What all threads of a call read.
struct Run {
  const RecurrentShape* shape;
  const RecurrentState* state;
  const float* first_state;  // [cells, batch, state]
  const float* first_cell;   // LSTM: [cells, batch, hidden]
  float* last_state;
  float* last_cell;
  KernelContext* context;
};

/// Sequences [begin, end), scratch of their own, and the threads that share each step (nullptr: none).
struct Group {
  int64_t begin, end;
  float* scratch;
  threads::ThreadPool* pool;

  size_t count(const RecurrentShape& s, int64_t t) const {
    const int64_t running = std::min(s.count(t), end);
    return running > begin ? static_cast<size_t>(running - begin) : 0;
  }
};

size_t padded_hidden(const RecurrentShape& s) { return strips_of(s.hidden) * recurrent_lanes(); }
size_t padded_products(const RecurrentShape& s) { return padded_hidden(s) * static_cast<size_t>(s.gates); }
size_t product_rows(const RecurrentShape& s, size_t sequences) {
  return std::max(sequences, std::min(kChunkRows, static_cast<size_t>(s.steps) * sequences));
}
size_t scratch_size(const RecurrentShape& s, size_t sequences) {
  return product_rows(s, sequences) * padded_products(s) + 2 * sequences * padded_hidden(s);
}

template <typename Body>
void over_strips(threads::ThreadPool* pool, size_t strips, double work, const Body& body) {
  const double per_strip = work / static_cast<double>(strips);
  const auto grain = static_cast<size_t>(kWorthSharing / std::max(per_strip, 1.0)) + 1;
  threads::parallel_for(pool, strips, grain, body);
}

/// One layer in one direction for one group: in [rows, width] -> out [rows, directions * state], some columns.
void run_direction(const Run& run, const Group& group, int64_t layer, int64_t direction, const float* in, float* out) {
  const RecurrentShape& s = *run.shape;
  const RecurrentCell kind = run.state->cell;
  const int64_t index = layer * s.directions + direction;
  const PackedCell& packed = run.state->cells[index];
  const int64_t width = s.width(layer);
  const int64_t out_width = s.directions * s.state;
  float* const out_columns = out + direction * s.state;
  const auto sequences = static_cast<size_t>(group.end - group.begin);
  const size_t hidden = padded_hidden(s);
  const size_t strips = strips_of(s.hidden);
  float* const products = group.scratch;
  float* const cells = products + product_rows(s, sequences) * padded_products(s);
  float* const units = cells + sequences * hidden;
  const auto first_row = [&](const float* rows, int64_t b, int64_t columns) {
    return rows + (index * s.batch + group.begin + b) * columns;
  };
  if (kind == RecurrentCell::kLstm) {
    for (size_t b = 0; b < sequences; ++b) {
      std::copy_n(first_row(run.first_cell, static_cast<int64_t>(b), s.hidden), s.hidden, cells + b * hidden);
      std::fill_n(cells + b * hidden + s.hidden, hidden - static_cast<size_t>(s.hidden), 0.0f);
    }
  }
  const bool reverse = direction == 1;
  const auto time = [&](int64_t i) { return reverse ? s.steps - 1 - i : i; };
  const int64_t towards = reverse ? 1 : -1;  // where the step before is

  const float* rows[kChunkRows];
  float* product_row[kChunkRows];
  for (int64_t i = 0; i < s.steps && !run.context->cancelled();) {
    // The inputs of as many steps as fit.
    size_t count = 0;
    int64_t end = i;
    for (; end < s.steps; ++end) {
      const int64_t t = time(end);
      const size_t running = group.count(s, t);
      if (count + running > kChunkRows) {
        break;
      }
      for (size_t b = 0; b < running; ++b, ++count) {
        rows[count] = in + s.row(t, group.begin + static_cast<int64_t>(b)) * width;
        product_row[count] = products + count * padded_products(s);
      }
    }
    const auto gates = static_cast<size_t>(s.gates);
    const RowsProduct product{rows,        count, static_cast<size_t>(width), gates, packed.input, packed.bias,
                              product_row, hidden};
    over_strips(group.pool, strips, static_cast<double>(count * gates * hidden) * static_cast<double>(width),
                [&](size_t begin_strip, size_t end_strip) { multiply_rows(product, begin_strip, end_strip); });

    for (size_t done = 0; i < end; ++i) {
      const int64_t t = time(i);
      const size_t running = group.count(s, t);
      const size_t before_running = i == 0 ? 0 : group.count(s, t + towards);
      const float* before[kGroup];
      float* after[kGroup];
      float* unit_rows[kGroup];
      for (size_t b = 0; b < running; ++b) {
        const int64_t sequence = group.begin + static_cast<int64_t>(b);
        before[b] = b < before_running ? out_columns + s.row(t + towards, sequence) * out_width
                                       : first_row(run.first_state, static_cast<int64_t>(b), s.state);
        after[b] = out_columns + s.row(t, sequence) * out_width;
        unit_rows[b] = s.projects ? units + b * hidden : after[b];
      }
      const CellStep step{product_row + done,
                          before,
                          unit_rows,
                          cells,
                          running,
                          static_cast<size_t>(s.state),
                          static_cast<size_t>(s.hidden),
                          packed.state,
                          packed.state_bias};
      over_strips(group.pool, strips, static_cast<double>(running * gates * hidden) * static_cast<double>(s.state),
                  [&](size_t begin_strip, size_t end_strip) { step_cells(kind, step, begin_strip, end_strip); });
      if (s.projects) {
        const RowsProduct projection{unit_rows, running, static_cast<size_t>(s.hidden), 1, packed.projection,
                                     nullptr,   after,   static_cast<size_t>(s.state)};
        over_strips(group.pool, strips_of(s.state),
                    static_cast<double>(running * hidden) * static_cast<double>(s.state),
                    [&](size_t begin_strip, size_t end_strip) { multiply_rows(projection, begin_strip, end_strip); });
      }
      done += running;
      const size_t go_on = i + 1 == s.steps ? 0 : reverse ? running : group.count(s, t + 1);
      for (size_t b = go_on; b < running; ++b) {  // sequences that end here
        const int64_t at = index * s.batch + group.begin + static_cast<int64_t>(b);
        std::copy_n(after[b], s.state, run.last_state + at * s.state);
        if (kind == RecurrentCell::kLstm) {
          std::copy_n(cells + b * hidden, s.hidden, run.last_cell + at * s.hidden);
        }
      }
    }
  }
}

/// How the work is shared.
struct Sharing {
  size_t groups;      // of sequences
  size_t workers;     // that run groups at the same time
  size_t directions;  // of a layer, that run at the same time
  bool within_steps;  // threads share the units of each step
};

Sharing share(const RecurrentShape& s, size_t threads) {
  const auto batch = static_cast<size_t>(s.batch);
  const size_t least_groups = divide_up(batch, kGroup);
  const Sharing alone{least_groups, 1, 1, false};
  double products = 0;
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    products += static_cast<double>(s.rows * s.directions) * static_cast<double>(s.width(layer) + s.state) *
                static_cast<double>(s.gates * s.hidden);
  }
  if (threads == 1 || products < 2 * kWorthSharing) {
    return alone;
  }
  const auto weight_nbytes = static_cast<size_t>(s.gates * s.hidden * s.state) * sizeof(float);
  const bool few = batch < threads || (weight_nbytes > kLargeWeights && batch < 8 * threads);
  if (!few) {
    const auto worth = static_cast<size_t>(products / kWorthSharing);
    const size_t groups = std::max(least_groups, std::min({threads, batch, worth}));
    return {groups, std::min(groups, threads), 1, false};
  }
  if (s.directions == 2) {
    return {least_groups, 1, 2, false};
  }
  return {least_groups, 1, 1, true};
}

Error run_layers(KernelContext& context, const Run& run, const float* in, float* out) {
  const RecurrentShape& s = *run.shape;
  threads::ThreadPool* const pool = context.pool();
  const Sharing sharing = share(s, pool == nullptr ? 1 : pool->num_threads());
  const auto batch = static_cast<size_t>(s.batch);
  const size_t scratch_each = scratch_size(s, divide_up(batch, sharing.groups));
  const size_t between_size = s.layers == 1 ? 0 : static_cast<size_t>(s.rows * s.directions * s.state);
  const size_t betweens = s.layers > 2 ? 2 : 1;
  ET_TRY(void* const memory,
         context.allocate_temp((scratch_each * sharing.workers * sharing.directions + betweens * between_size) *
                               sizeof(float)));
  auto* const scratch = static_cast<float*>(memory);
  float* const between = scratch + scratch_each * sharing.workers * sharing.directions;

  threads::parallel_tasks(pool, sharing.workers, [&](size_t worker) {
    for (size_t g = worker; g < sharing.groups; g += sharing.workers) {
      Group group{static_cast<int64_t>(batch * g / sharing.groups),
                  static_cast<int64_t>(batch * (g + 1) / sharing.groups), scratch + worker * scratch_each,
                  sharing.within_steps ? pool : nullptr};
      const float* from = in;
      for (int64_t layer = 0; layer < s.layers; ++layer) {
        float* const to = layer + 1 == s.layers ? out : between + static_cast<size_t>(layer % 2) * between_size;
        if (sharing.directions == 2) {
          threads::parallel_tasks(pool, 2, [&](size_t direction) {
            Group one = group;
            one.scratch += direction * scratch_each;
            run_direction(run, one, layer, static_cast<int64_t>(direction), from, to);
          });
        } else {
          for (int64_t direction = 0; direction < s.directions; ++direction) {
            run_direction(run, group, layer, direction, from, to);
          }
        }
        from = to;
      }
    }
  });
  return context.cancelled() ? Error::Cancelled : Error::Ok;
}

/// The elements of a tensor as floats: its own, or converted ones in temporary memory.
Result<const float*> floats_of(KernelContext& context, const Tensor& tensor) {
  if (tensor.scalar_type() == ScalarType::Float) {
    return tensor.const_data_ptr<float>();
  }
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(tensor.numel()) * sizeof(float)));
  portable::load(tensor.scalar_type(), tensor.const_data_ptr(), 1, tensor.numel(), static_cast<float*>(memory));
  return static_cast<const float*>(memory);
}

/// Memory for the elements of an output as floats: its own, or temporary memory.
Result<float*> float_room(KernelContext& context, const Tensor& tensor) {
  if (tensor.scalar_type() == ScalarType::Float) {
    return tensor.mutable_data_ptr<float>();
  }
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(tensor.numel()) * sizeof(float)));
  return static_cast<float*>(memory);
}

Error run_call(KernelContext& context, const RecurrentCall& call, const RecurrentState& state) {
  RecurrentShape shape;
  ET_RETURN_IF_ERROR(portable::prepare_recurrent(context, call, &shape));
  if (shape.is_empty()) {
    return Error::Ok;
  }
  const bool is_lstm = state.cell == RecurrentCell::kLstm;
  Run run{&shape, &state, nullptr, nullptr, nullptr, nullptr, &context};
  ET_TRY(const float* const in, floats_of(context, *call.input));
  ET_TRY(run.first_state, floats_of(context, *call.first_state));
  ET_TRY(float* const out, float_room(context, *call.out));
  ET_TRY(run.last_state, float_room(context, *call.last_state));
  if (is_lstm) {
    ET_TRY(run.first_cell, floats_of(context, *call.first_cell));
    ET_TRY(run.last_cell, float_room(context, *call.last_cell));
  }
  ET_RETURN_IF_ERROR(run_layers(context, run, in, out));
  if (call.out->scalar_type() != ScalarType::Float) {
    const auto store = [&](const float* from, const Tensor& to) {
      portable::store(to.scalar_type(), from, to.numel(), to.mutable_data_ptr(), 1);
    };
    store(out, *call.out);
    store(run.last_state, *call.last_state);
    if (is_lstm) {
      store(run.last_cell, *call.last_cell);
    }
  }
  return Error::Ok;
}

Error run(KernelContext& context, Arguments args, void* opaque) {
  const auto& state = *static_cast<const RecurrentState*>(opaque);
  const bool is_lstm = state.cell == RecurrentCell::kLstm;
  const Positions at(state.packed_batch);
  const Tensor input = args[0]->to_tensor();
  const Tensor batch_sizes = state.packed_batch ? args[1]->to_tensor() : input;
  const TensorList hx = is_lstm ? args[at.hx]->to_tensor_list() : TensorList();
  const Tensor first = is_lstm ? hx[0] : args[at.hx]->to_tensor();
  const Tensor first_cell = is_lstm ? hx[1] : first;
  const TensorList params = args[at.params]->to_tensor_list();
  const Tensor out = args[at.outs]->to_tensor();
  const Tensor last = args[at.outs + 1]->to_tensor();
  const Tensor last_cell = is_lstm ? args[at.outs + 2]->to_tensor() : last;
  const EValue* const* const options = &args[at.params + 1];
  const RecurrentCall call{is_lstm                             ? "aten::lstm"
                           : state.cell == RecurrentCell::kGru ? "aten::gru"
                                                               : "aten::rnn",
                           state.cell,
                           &input,
                           state.packed_batch ? &batch_sizes : nullptr,
                           &first,
                           &first_cell,
                           &params,
                           options[0]->number_as_bool(),
                           options[1]->number_as_int(),
                           options[2]->number_as_double(),
                           options[3]->number_as_bool(),
                           options[4]->number_as_bool(),
                           !state.packed_batch && options[5]->number_as_bool(),
                           &out,
                           &last,
                           &last_cell};
  return run_call(context, call, state);
}

template <RecurrentCell kCell, bool kPackedBatch>
constexpr Kernel kernel(const Signature& signature) {
  return make_stateful_kernel<&prepare<kCell, kPackedBatch>, &run>(signature);
}

constexpr Kernel kKernels[] = {
    kernel<RecurrentCell::kGru, true>(signature::gru_data_out),
    kernel<RecurrentCell::kGru, false>(signature::gru_input_out),
    kernel<RecurrentCell::kLstm, true>(signature::lstm_data_out),
    kernel<RecurrentCell::kLstm, false>(signature::lstm_input_out),
    kernel<RecurrentCell::kRelu, true>(signature::rnn_relu_data_out),
    kernel<RecurrentCell::kRelu, false>(signature::rnn_relu_input_out),
    kernel<RecurrentCell::kTanh, true>(signature::rnn_tanh_data_out),
    kernel<RecurrentCell::kTanh, false>(signature::rnn_tanh_input_out),
};

}  // namespace

ET_KERNEL_TABLE(recurrent, kKernels)

}  // namespace et::kernels::optimized::recurrent
