/// Steps of recurrent layers behind their products, for rows of floats: et::lstm_gates and et::gru_gates without
/// tensors.
///
/// For: step_gates.cpp, which defines them, and layers whose steps end in them (float_recurrent.cpp). Not for: layers
/// that have gates in registers when their product is done (recurrent_cells.h, quantized_recurrent.cpp).
#pragma once

#include "runtime/kernel.h"

namespace et::kernels::optimized::recurrent {

/// Rows of a step.
struct GateRows {
  size_t rows, hidden;
};

/// gates [rows, 4 * hidden], and others that are added to them, or nullptr; before [rows, hidden] -> state, after
/// [rows, hidden]. `after` or `state` may be `before`.
struct LstmRows : GateRows {
  const float *gates, *added, *before;
  float *state, *after;
};
/// input, own [rows, 3 * hidden], before [rows, hidden] -> after [rows, hidden], which may be `before`.
struct GruRows : GateRows {
  const float *input, *own, *before;
  float* after;
};

/// On the pool's threads where that is worth it.
void step_rows(threads::ThreadPool* pool, const LstmRows& step);
void step_rows(threads::ThreadPool* pool, const GruRows& step);

}  // namespace et::kernels::optimized::recurrent
