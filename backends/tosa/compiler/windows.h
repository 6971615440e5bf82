/// Windows of convolutions and poolings as TOSA wants them: sizes that divide, bounds of images that fit.
///
/// For: op_support.cpp and emit_*.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace et::backends::tosa::compiler {

/// Along one dimension. TOSA's results have (size + pads - (kernel - 1) * dilation - 1) / stride + 1 elements, without
/// remainder. What remains is taken from the padding behind, then from the image.
struct Window {
  int64_t size = 1, kernel = 1, stride = 1, dilation = 1, before = 0, after = 0;
  int64_t crop = 0;  ///< rows or columns at the end that no window reaches
  int64_t out = 1;
};

/// A window with `out` results; with a single one its stride does not matter and is 1.
Window make_window(int64_t size, int64_t kernel, int64_t stride, int64_t dilation, int64_t padding, int64_t out);

/// An argument with one number for each spatial dim, or one for all; `otherwise` where it is empty.
std::optional<std::vector<int64_t>> spatial(const ir::Argument& argument, size_t count,
                                            const std::vector<int64_t>& otherwise);

/// Windows along rows and columns, and as attributes have them.
struct Windows {
  Window rows, columns;

  std::vector<int32_t> stride() const { return numbers({rows.stride, columns.stride}); }
  std::vector<int32_t> kernel() const { return numbers({rows.kernel, columns.kernel}); }
  std::vector<int32_t> pad() const { return numbers({rows.before, rows.after, columns.before, columns.after}); }

 private:
  static std::vector<int32_t> numbers(std::initializer_list<int64_t> values) {
    return std::vector<int32_t>(values.begin(), values.end());
  }
};

/// The windows of a pooling of images with these positions of arguments.
Windows windows_of(const ir::Node& node, size_t kernel_size, size_t stride, size_t padding);
/// Those of an adaptive one, whose windows are all of one size.
Windows adaptive_windows_of(const ir::Node& node);

}  // namespace et::backends::tosa::compiler
