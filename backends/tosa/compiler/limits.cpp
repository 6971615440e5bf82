#include "backends/tosa/compiler/limits.h"

#include <algorithm>

#include "passes/rewrite.h"

namespace et::backends::tosa::compiler {
namespace {

using passes::int_of;

constexpr const char* kTaken = "";

std::string number(int64_t value) { return std::to_string(value); }

std::string transposed_refusal(const Question& q, const ConvolutionArguments& at) {
  const std::vector<ir::Dim>& weight = q.type(at.weight).dims;
  const size_t dims = weight.size() - 2;
  const std::vector<int64_t> dilation = *spatial(q.arg(at.dilation), dims, {1});
  if (std::any_of(dilation.begin(), dilation.end(), [](int64_t d) { return d != 1; })) {
    return "a transposed convolution with dilation";
  }
  const std::vector<int64_t> stride = *spatial(q.arg(at.stride), dims, {1}),
                             padding = *spatial(q.arg(at.padding), dims, {0});
  const Accelerator* device = q.target.accelerator;
  for (size_t d = 0; d < dims; ++d) {
    if (padding[d] >= weight[2 + d].max) {
      return "a transposed convolution whose padding is not smaller than its kernel";
    }
    if (device != nullptr && stride[d] > device->max_transposed_stride) {
      return "a transposed convolution with a stride of " + number(stride[d]) + ", " + std::string(device->prefix) +
             " has " + number(device->max_transposed_stride);
    }
  }
  return kTaken;
}

}  // namespace

std::string window_refusal(const Question& q, const Windows& windows, bool is_pool) {
  const auto& [rows, columns] = windows;
  for (const Window* w : {&rows, &columns}) {
    if (w->kernel * w->dilation > kMaxKernel || w->stride > kMaxKernel || w->before > kMaxKernel ||
        w->after > kMaxKernel) {
      return "a kernel, stride or padding above TOSA's level 8K, which has 8192";
    }
    if (w->crop >= w->size) {
      return "windows that reach no element";
    }
  }
  const Accelerator* device = q.target.accelerator;
  if (device == nullptr) {
    return kTaken;
  }
  const std::string name(device->prefix);
  if (!is_pool && std::max(rows.stride, columns.stride) > device->max_stride) {
    return "a stride of " + number(std::max(rows.stride, columns.stride)) + ", " + name + " has " +
           number(device->max_stride);
  }
  const int64_t height = is_pool ? device->max_pool_height : device->max_kernel_height;
  const int64_t area = is_pool ? device->max_pool_area : device->max_kernel_area;
  const int64_t tall = (rows.kernel - 1) * rows.dilation + 1, wide = (columns.kernel - 1) * columns.dilation + 1;
  if (tall > height || tall * wide > area) {
    return "a kernel of " + number(tall) + " x " + number(wide) + ", " + name + " has " + number(height) +
           " rows and an area of " + number(area);
  }
  return kTaken;
}

std::string pool_refusal(const Question& q, size_t kernel_size, size_t stride, size_t padding) {
  if (q.type(0).rank() != 4) {
    return "only images of rank 4";
  }
  const auto kernel = spatial(q.arg(kernel_size), 2, {});
  return kernel && spatial(q.arg(stride), 2, *kernel) && spatial(q.arg(padding), 2, {0})
             ? kTaken
             : "windows that are computed at run time";
}

std::string adaptive_pool_refusal(const Question& q) {
  if (q.type(0).rank() != 4) {
    return "only images of rank 4";
  }
  const auto divides = [&](size_t d) { return q.type(0).dims[d].max % q.result_type().dims[d].max == 0; };
  return divides(2) && divides(3) ? kTaken : "windows of different sizes";
}

std::string convolution_refusal(const Question& q, const ConvolutionArguments& at) {
  const size_t dims = q.type(at.input).rank() - 2;
  if (dims != 1 && dims != 2) {
    return "only 1-D and 2-D convolution";
  }
  if (!spatial(q.arg(at.stride), dims, {1}) || !spatial(q.arg(at.padding), dims, {0}) ||
      !spatial(q.arg(at.dilation), dims, {1})) {
    return "strides, paddings or dilations that are computed at run time";
  }
  if (*int_of(q.arg(at.transposed)) != 0) {
    return transposed_refusal(q, at);
  }
  const Accelerator* device = q.target.accelerator;
  Convolution c(q.node, at);
  if (device != nullptr && c.takes_blocks(device->max_stride)) {
    c = c.in_blocks();
    if (c.in_channels > device->max_depth) {
      return "a stride above " + number(device->max_stride) + " over too many channels for " +
             std::string(device->prefix);
    }
  }
  return window_refusal(q, {c.rows, c.columns}, false);
}

std::string constants_refusal(const Question& q, const std::vector<size_t>& positions) {
  for (const size_t i : positions) {
    if (!q.arg(i).is_none() && passes::constant_of(q.program, q.arg(i)) == nullptr) {
      return "a weight, scale or bias that is not constant";
    }
  }
  return kTaken;
}

}  // namespace et::backends::tosa::compiler
