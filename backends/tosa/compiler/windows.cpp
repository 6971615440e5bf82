#include "backends/tosa/compiler/windows.h"

#include <algorithm>

#include "ir/literals.h"

namespace et::backends::tosa::compiler {

Window make_window(int64_t size, int64_t kernel, int64_t stride, int64_t dilation, int64_t padding, int64_t out) {
  Window w{size, kernel, out == 1 ? 1 : stride, dilation, padding, 0, 0, out};
  const int64_t last = (out - 1) * w.stride + (kernel - 1) * dilation + 1;  // elements that the windows reach over
  w.after = last - size - padding;
  if (w.after < 0) {
    w.crop = -w.after;
    w.after = 0;
  }
  return w;
}

std::optional<std::vector<int64_t>> spatial(const ir::Argument& argument, size_t count,
                                            const std::vector<int64_t>& otherwise) {
  auto list = ir::ints_of(argument);
  if (!list) {
    return std::nullopt;
  }
  if (list->empty()) {
    list = otherwise;
  }
  list->resize(count, list->empty() ? 0 : list->back());
  return list;
}

Windows windows_of(const ir::Node& node, size_t kernel_size, size_t stride_at, size_t padding_at) {
  const auto& args = node.args();
  const ir::TensorType &in = args[0].value()->type.tensor, &result = node.result()->type.tensor;
  const auto kernel = *spatial(args[kernel_size], 2, {}), stride = *spatial(args[stride_at], 2, kernel),
             padding = *spatial(args[padding_at], 2, {0});
  const auto along = [&](size_t i) {
    return make_window(in.dims[2 + i].max, kernel[i], stride[i], 1, padding[i], result.dims[2 + i].max);
  };
  return {along(0), along(1)};
}

Windows adaptive_windows_of(const ir::Node& node) {
  const ir::TensorType &in = node.args()[0].value()->type.tensor, &result = node.result()->type.tensor;
  const auto along = [&](size_t d) {
    const int64_t kernel = in.dims[d].max / result.dims[d].max;
    return make_window(in.dims[d].max, kernel, kernel, 1, 0, result.dims[d].max);
  };
  return {along(2), along(3)};
}

}  // namespace et::backends::tosa::compiler
