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

}  // namespace et::backends::tosa::compiler
