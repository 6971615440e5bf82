#include "planning/overlapping_results.h"

#include "ir/op_views.h"
#include "ops/names.h"

namespace et::planning {
namespace {

constexpr int64_t kMost = 1 << 15;  // of a size; kernels compute positions in 32 bits

/// Batch, rows, columns, channels: wherever those of size 1 stand.
bool has_channels_innermost(const ir::TensorType& type) {
  uint8_t previous = 0;
  for (const uint8_t dim : type.dim_order) {
    const auto place = static_cast<uint8_t>(dim == 1 ? type.rank() : dim);
    if (type.dims[dim].max != 1) {
      if (place < previous) {
        return false;
      }
      previous = place;
    }
  }
  return type.rank() == 4;
}

/// An image of int8 of fixed sizes, its channels innermost.
bool is_image(const ir::Value* value) {
  if (value == nullptr || !value->type.is_tensor()) {
    return false;
  }
  const ir::TensorType& type = value->type.tensor;
  return type.dtype == ScalarType::Char && type.is_static() && has_channels_innermost(type) && type.max_nbytes() > 0 &&
         type.max_nbytes() <= INT32_MAX &&
         std::all_of(type.dims.begin(), type.dims.end(), [](const ir::Dim& d) { return d.min < kMost; });
}

/// Both numbers of a list.
bool read_pair(const ir::Argument& argument, int32_t* to) {
  const auto* const list = argument.as<ir::Argument::List>();
  if (list == nullptr || list->size() != 2) {
    return false;
  }
  for (size_t d = 0; d < 2; ++d) {
    const auto* const number = (*list)[d].as<int64_t>();
    if (number == nullptr || *number < 0 || *number >= kMost) {
      return false;
    }
    to[d] = static_cast<int32_t>(*number);
  }
  return true;
}

int64_t size_of(const ir::Value* value, size_t d) { return value->type.tensor.dims[d].min; }

/// Rows and columns of both images.
void read_sizes(const ir::Value* input, const ir::Value* result, ops::ImageWindows* windows) {
  for (size_t d = 0; d < 2; ++d) {
    windows->in[d] = static_cast<int32_t>(size_of(input, d + 2));
    windows->out[d] = static_cast<int32_t>(size_of(result, d + 2));
  }
}

std::optional<OverlappingResult> overlapping_pool(const ir::Node& node) {
  const ops::MaxPool2d call(node);
  const ir::Value* const input = call.self().value();
  ops::ImageWindows windows;
  if (!is_image(input) || !is_image(node.result()) || size_of(input, 0) != 1 ||
      !read_pair(call.kernel_size(), windows.kernel) || !read_pair(call.padding(), windows.padding) ||
      !read_pair(call.dilation(), windows.dilation) || windows.dilation[0] != 1 || windows.dilation[1] != 1) {
    return std::nullopt;
  }
  if (!read_pair(call.stride(), windows.stride)) {  // none: the windows lie side by side
    std::copy(windows.kernel, windows.kernel + 2, windows.stride);
  }
  read_sizes(input, node.result(), &windows);
  const auto channels = static_cast<int32_t>(size_of(input, 1));
  return OverlappingResult{input, ops::distances(windows, channels, channels, 1)};
}

std::optional<OverlappingResult> overlapping_convolution(const ir::Node& node) {
  const ops::EtQuantizedConvolution call(node);
  const ir::Value* const input = call.input().value();
  const ir::Value* const weight = call.weight().value();
  const auto* const transposed = call.transposed().as<bool>();
  const auto* const groups = call.groups().as<int64_t>();
  ops::ImageWindows windows;
  if (!is_image(input) || !is_image(node.result()) || weight == nullptr || weight->type.tensor.rank() != 4 ||
      weight->type.tensor.dtype != ScalarType::Char || transposed == nullptr || *transposed || groups == nullptr ||
      !read_pair(call.stride(), windows.stride) || !read_pair(call.padding(), windows.padding) ||
      !read_pair(call.dilation(), windows.dilation)) {
    return std::nullopt;
  }
  read_sizes(input, node.result(), &windows);
  windows.kernel[0] = static_cast<int32_t>(size_of(weight, 2));
  windows.kernel[1] = static_cast<int32_t>(size_of(weight, 3));
  OverlappingResult found{input, {}};
  if (!ops::may_overlap(windows, size_of(input, 0), size_of(input, 1), size_of(weight, 0), *groups, &found.least)) {
    return std::nullopt;
  }
  return found;
}

}  // namespace

std::optional<OverlappingResult> overlapping_result(const ir::Node& node) {
  return node.op == op::et_quantized_convolution_out ? overlapping_convolution(node)
         : node.op == op::et_max_pool2d_out          ? overlapping_pool(node)
                                                     : std::nullopt;
}

}  // namespace et::planning
