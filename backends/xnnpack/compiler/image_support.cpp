#include "backends/xnnpack/compiler/image_support.h"

#include <algorithm>

#include "backends/xnnpack/compiler/emitters.h"
#include "backends/xnnpack/compiler/quantization.h"
#include "ir/op_views.h"
#include "passes/rewrite.h"

namespace et::backends::xnnpack {
namespace {

using passes::int_of;
using passes::ints_of;

constexpr const char* kTaken = "";

bool is_image(const ir::TensorType* type) { return type != nullptr && type->rank() == 4; }

/// Windows of a pooling: a list of one or two numbers, empty = `otherwise`.
std::optional<std::pair<int64_t, int64_t>> pair_of(const ir::Argument& argument,
                                                   const ir::Argument* otherwise = nullptr) {
  const auto list = ints_of(argument);
  if (!list || list->size() > 2) {
    return std::nullopt;
  }
  if (list->empty()) {
    return otherwise == nullptr ? std::nullopt : pair_of(*otherwise);
  }
  return std::pair(list->front(), list->back());
}

std::string pooling(const Question& q, bool is_max) {
  const ops::MaxPool2d call(q.node);
  if (!is_image(type_of(call.self()))) {
    return "only 2-D pooling of a batch";
  }
  const auto window = pair_of(call.kernel_size()), stride = pair_of(call.stride(), &call.kernel_size()),
             padding = pair_of(call.padding());
  const auto dilation = is_max ? pair_of(call.dilation()) : std::optional(std::pair<int64_t, int64_t>(1, 1));
  if (!window || !stride || !padding || !dilation) {
    return "windows that are computed at run time";
  }
  if (window->first * window->second == 1) {
    return "a window of one element";
  }
  if (is_max && (stride->first > window->first || stride->second > window->second)) {
    return "strides larger than the window";
  }
  const ir::TensorType& in = *type_of(call.self());
  const ir::TensorType& out = q.result_type();
  if (!in.dims[1].is_static()) {
    return "a dynamic number of channels";
  }
  const bool ceil_mode = int_of(is_max ? call.ceil_mode() : ops::AvgPool2d(q.node).ceil_mode()).value_or(0) != 0;
  if (ceil_mode) {
    if (!in.dims[2].is_static() || !in.dims[3].is_static()) {
      return "ceil_mode of images of any size";
    }
    // Padding is smaller than a window is wide without its dilation.
    if (padding->first +
                overhang(in.dims[2], out.dims[2], padding->first, window->first, dilation->first, stride->first) >=
            window->first ||
        padding->second +
                overhang(in.dims[3], out.dims[3], padding->second, window->second, dilation->second, stride->second) >=
            window->second) {
      return "ceil_mode with windows that reach further over the edge than they are wide";
    }
  }
  return kTaken;
}

}  // namespace

size_t num_dynamic(const ir::TensorType& type) {
  return static_cast<size_t>(
      std::count_if(type.dims.begin(), type.dims.end(), [](const ir::Dim& d) { return !d.is_static(); }));
}

std::string convolution(const Question& q) {
  const ops::Convolution call(q.node);
  const ir::TensorType& x = *type_of(call.input());
  if (x.rank() != 4 && x.rank() != 3) {
    return "only 1-D and 2-D convolution";
  }
  const bool quantized = is_quantized_weight(call.weight().value());
  if (quantized) {
    if (const std::string why = quantized_product_refusal(q); !why.empty()) {
      return why;
    }
  } else if (!is_constant(call.weight())) {
    return "its filter is not constant";
  }
  if (!quantized && !call.bias().is_none() && !is_constant(call.bias())) {
    return "its bias is not constant";
  }
  const auto stride = ints_of(call.stride()), padding = ints_of(call.padding()), dilation = ints_of(call.dilation()),
             extra = ints_of(call.output_padding());
  const auto groups = int_of(call.groups());
  if (!stride || !padding || !dilation || !extra || !groups) {
    return "strides, paddings or groups that are computed at run time";
  }
  for (const auto* list : {&stride, &padding, &dilation, &extra}) {
    if ((*list)->size() != x.rank() - 2) {
      return "strides or paddings of another number of dimensions than the image has";
    }
  }
  if (std::any_of(padding->begin(), padding->end(), [](int64_t p) { return p < 0 || p > 1 << 15; })) {
    return "a negative padding";
  }
  if (x.rank() == 3 && num_dynamic(x) > 1) {
    return "a 1-D convolution with more than one dynamic dimension";
  }
  if (!x.dims[1].is_static()) {
    return "a dynamic number of channels";
  }
  const bool transposed = int_of(call.transposed()).value_or(0) != 0;
  if (transposed) {
    for (size_t i = 0; i < extra->size(); ++i) {
      if ((*extra)[i] >= (*stride)[i] && (*extra)[i] != 0) {
        return "an output padding that is no smaller than the stride";
      }
    }
    const ir::TensorType& out = q.node.result()->type.tensor;
    for (size_t i = 0; i < stride->size() && i + 2 < out.rank(); ++i) {
      if (out.dims[i + 2].min < (*stride)[i]) {
        return "a transposed convolution whose output may be smaller than its stride";
      }
    }
  }
  return kTaken;
}

std::string max_pool(const Question& q) {
  for (size_t i = 1; i < q.node.results().size(); ++i) {
    if (q.node.graph()->is_output(q.node.result(i)) || !q.node.result(i)->users().empty()) {
      return "its indices are used";
    }
  }
  return pooling(q, true);
}

std::string avg_pool(const Question& q) {
  if (!ops::AvgPool2d(q.node).divisor_override().is_none()) {
    return "a divisor of its own";
  }
  return pooling(q, false);
}

std::string mean(const Question& q) {
  const ops::MeanDim call(q.node);
  const ir::TensorType& in = *type_of(call.self());
  const size_t rank = in.rank();
  const auto dims = ints_of(call.dim());
  constexpr const char* kOnly = "only the mean over height and width of an image, or the length of a line";
  if ((rank != 4 && rank != 3) || !dims || !call.dtype().is_none()) {
    return kOnly;
  }
  std::vector<int64_t> axes;
  for (const int64_t dim : *dims) {
    axes.push_back(dim < 0 ? dim + static_cast<int64_t>(rank) : dim);
  }
  std::sort(axes.begin(), axes.end());
  if (rank == 3) {
    return axes == std::vector<int64_t>{2} && num_dynamic(in) <= 1 && is_made_as_image(call.self().value()) ? kTaken
                                                                                                            : kOnly;
  }
  return axes == std::vector<int64_t>{2, 3} ? kTaken : kOnly;
}

std::string resize(const Question& q) {
  const ops::UpsampleBilinear2dVec call(q.node);
  const ir::TensorType& in = *type_of(call.input());
  const ir::TensorType& out = q.result_type();
  if (in.rank() != 4 || !in.dims[1].is_static() || !in.dims[2].is_static() || !in.dims[3].is_static() ||
      !out.dims[2].is_static() || !out.dims[3].is_static()) {
    return "dynamic sizes";
  }
  // A scale that is not the ratio of sizes moves the pixels a little; the library only knows the ratio.
  if (const auto* scales = call.scale_factors().as<ir::Argument::Doubles>();
      scales != nullptr && int_of(call.align_corners()).value_or(0) == 0) {
    for (size_t i = 0; i < 2 && i < scales->size(); ++i) {
      if ((*scales)[i] * static_cast<double>(in.dims[2 + i].max) != static_cast<double>(out.dims[2 + i].max)) {
        return "a scale that is not the ratio of sizes";
      }
    }
  }
  return kTaken;
}

std::string nearest(const Question& q) {
  const ops::UpsampleNearest2dVec call(q.node);
  const ir::TensorType& in = *type_of(call.input());
  const ir::TensorType& out = q.result_type();
  if (in.rank() != 4 || !in.dims[1].is_static()) {
    return "dynamic sizes";
  }
  constexpr int64_t kMaxTimes =
      5;  // inputs of a Concatenate; up to there a source pixel is a whole quotient in floats, too
  for (size_t d = 2; d < 4; ++d) {
    if (!in.dims[d].is_static() || !out.dims[d].is_static()) {
      return "dynamic sizes";
    }
    if (out.dims[d].max % in.dims[d].max != 0 || out.dims[d].max > kMaxTimes * in.dims[d].max) {
      return "pixels that are not repeated one to five times";
    }
  }
  const auto* scales = call.scale_factors().as<ir::Argument::Doubles>();
  for (size_t i = 0; scales != nullptr && i < 2 && i < scales->size(); ++i) {
    if ((*scales)[i] * static_cast<double>(in.dims[2 + i].max) != static_cast<double>(out.dims[2 + i].max)) {
      return "a scale that is not the ratio of sizes";
    }
  }
  return kTaken;
}

}  // namespace et::backends::xnnpack
