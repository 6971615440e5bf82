#include "kernels/cortex_m/kernels.h"

namespace et::kernels::cortex_m {

bool lie_alike(const Tensor& a, const Tensor& b) {
  if (a.dim() != b.dim()) {
    return false;
  }
  for (int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) != b.size(d) || (a.size(d) != 1 && a.stride(d) != b.stride(d))) {
      return false;
    }
  }
  return true;
}

bool lie_apart(const Tensor& a, const Tensor& b) {
  const auto first = reinterpret_cast<uintptr_t>(a.const_data_ptr());
  const auto second = reinterpret_cast<uintptr_t>(b.const_data_ptr());
  return first == 0 || second == 0 || second >= first + a.nbytes() || first >= second + b.nbytes();
}

bool is_channels_last(const Tensor& tensor, int64_t rank) {
  if (tensor.dim() != rank) {
    return false;
  }
  int64_t stride = 1;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t d = i == 0 ? 1 : (i + 1 == rank ? 0 : rank - i);  // 1, 3, 2, 0
    if (tensor.size(d) != 1 && tensor.stride(d) != stride) {
      return false;
    }
    stride *= tensor.size(d);
  }
  return stride <= INT32_MAX;
}

}  // namespace et::kernels::cortex_m
