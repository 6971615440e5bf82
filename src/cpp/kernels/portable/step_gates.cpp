// Source of the cells: the documentation of torch.nn.LSTM and GRU.
#include "kernels/portable/step_gates.h"

#include <cmath>

namespace et::kernels::portable {
namespace {

Error check_sums(const StepGates& step, const Tensor& sums) {
  const Tensor& before = *step.before;
  ET_RETURN_IF_ERROR(check_same_dtype(step.op, "gates", sums, before));
  ET_RETURN_IF_ERROR(check_rank(step.op, "gates", sums, 1, before.dim()));
  ET_RETURN_IF_ERROR(check_row_major(step.op, {&sums}));
  const int64_t missing = before.dim() - sums.dim();
  for (int64_t i = 0; i < before.dim(); ++i) {
    const int64_t wanted = i == before.dim() - 1 ? step.gates * before.size(i) : before.size(i);
    const int64_t given = i < missing ? 1 : sums.size(i - missing);
    ET_CHECK_OR_RETURN(given == wanted, InvalidArgument,
                       "%s: size %" PRId64 " of dim %" PRId64 " of the gates must be %" PRId64, step.op, given, i,
                       wanted);
  }
  return Error::Ok;
}

}  // namespace

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

Error prepare_step(KernelContext& context, const StepGates& step, StepSize* size) {
  const Tensor& before = *step.before;
  ET_CHECK_OR_RETURN(before.scalar_type() == ScalarType::Float, InvalidType,
                     "%s: the state is %s, must be torch.float32", step.op, to_string(before.scalar_type()));
  ET_RETURN_IF_ERROR(check_rank(step.op, "state", before, 1, kMaxRank));
  ET_RETURN_IF_ERROR(check_row_major(step.op, {&before}));
  for (const Tensor* sums : step.sums) {
    ET_RETURN_IF_ERROR(check_sums(step, *sums));
  }
  for (const Tensor* after : step.after) {
    ET_RETURN_IF_ERROR(check_same_dtype(step.op, "out", *after, before));
    ET_RETURN_IF_ERROR(resize_tensor(context, *after, before.sizes()));
    ET_RETURN_IF_ERROR(check_row_major(step.op, {after}));
  }
  size->hidden = before.size(before.dim() - 1);
  size->rows = size->hidden == 0 ? 0 : before.numel() / size->hidden;
  return Error::Ok;
}

void lstm_row(const float* gates, const float* before, float* state, float* after, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const float kept = sigmoid(gates[n + j]) * before[j];
    const float value = kept + sigmoid(gates[j]) * std::tanh(gates[2 * n + j]);
    after[j] = value;
    state[j] = sigmoid(gates[3 * n + j]) * std::tanh(value);
  }
}

void gru_row(const float* input, const float* own, const float* before, float* after, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const float reset = sigmoid(own[j] + input[j]);
    const float update = sigmoid(own[n + j] + input[n + j]);
    const float candidate = std::tanh(input[2 * n + j] + own[2 * n + j] * reset);
    after[j] = (before[j] - candidate) * update + candidate;
  }
}

}  // namespace et::kernels::portable
