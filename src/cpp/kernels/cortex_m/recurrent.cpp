#include "kernels/cortex_m/recurrent.h"

namespace et::kernels::cortex_m {

bool fits_recurrent(const EValue& input, const EValue& weight, int64_t gates) {
  if (!is_int8(input) || !is_int8(weight)) {
    return false;
  }
  const Tensor inputs = input.to_tensor(), rows = weight.to_tensor();
  return inputs.dim() == 3 && rows.dim() == 2 && rows.size(0) == inputs.size(2) && rows.size(0) > 0 &&
         gates * rows.size(1) == rows.size(0) && portable::is_contiguous(rows) &&
         (gates + 1) * inputs.size(1) * inputs.size(2) <= INT32_MAX;
}

Error StateProduct::start(KernelContext& context) {
  const auto count = static_cast<size_t>(plan_.batch * plan_.hidden);
  ET_RETURN_IF_ERROR(filter_.read(call_.op, call_.state.scale, call_.state.zero_point, *call_.weight,
                                  *call_.weight_scales, *call_.bias, plan_.product));
  ET_TRY(void* const bytes, context.allocate_temp((static_cast<size_t>(call_.gates) + 1) * count + 1, 1));
  state_ = static_cast<int8_t*>(bytes);
  rows_ = state_ + count;
  const int32_t row = num_rows();
  ET_RETURN_IF_ERROR(product_.start(context, (row + kBlock - 1) / kBlock));
  for (int32_t c = 0; c < row; c += kBlock) {
    ET_RETURN_IF_ERROR(product_.choose(c, std::min(kBlock, row - c), static_cast<int32_t>(plan_.batch), c / kBlock));
  }
  return Error::Ok;
}

void StateProduct::multiply(const float* before) {
  const auto hidden = static_cast<int32_t>(plan_.hidden), batch = static_cast<int32_t>(plan_.batch);
  const int32_t row = num_rows();
  const quantized::StateQuantizer quantize = plan_.state;  // else each byte that is written makes it be read again
  int8_t* const state = state_;
  for (int32_t i = 0; i < batch * hidden; ++i) {
    state[i] = static_cast<int8_t>(quantize(before[i]));
  }
  for (int32_t c = 0; c < row; c += kBlock) {
    product_.choose_again(c, std::min(kBlock, row - c), c / kBlock);
    product_.multiply(state_, hidden, batch, rows_ + c, row);
  }
}

}  // namespace et::kernels::cortex_m
