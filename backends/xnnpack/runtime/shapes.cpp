#include "backends/xnnpack/runtime/shapes.h"

#include <algorithm>

#include "backends/xnnpack/kernels/transposed.h"

namespace et::backends::xnnpack {
namespace {

/// The library keeps a pointer for each tap of each output pixel of a convolution or pooling.
constexpr size_t kMaxTaps = size_t{1} << 32;

class Inference {
 public:
  Inference(const Model& model, Span<Shape> shapes) : model_(model), shapes_(shapes) {}

  Error run() {
    for (const Node& node : model_.nodes) {
      node_ = &node;
      ET_RETURN_IF_ERROR(infer());
      for (uint32_t i = 0; i < node.num_outputs; ++i) {
        size_t count;
        ET_RETURN_IF_ERROR(require(num_elements(output(i), &count), "its output is too large"));
      }
    }
    return Error::Ok;
  }

  const Node* node() const { return node_; }

 private:
  const Shape& input(uint32_t i) const { return shapes_[node_->inputs[i]]; }
  Shape& output(uint32_t i = 0) const { return shapes_[node_->outputs[i]]; }

  Error require(bool condition, const char* what) const {
    ET_CHECK_OR_RETURN(condition, InvalidArgument, "xnnpack delegate: a %s node: %s", node_->type->name, what);
    return Error::Ok;
  }

  Error infer() {
    switch (node_->type->form) {
      case NodeForm::kUnary:
      case NodeForm::kCopy: output() = input(0); return Error::Ok;
      case NodeForm::kSoftmax: output() = input(0); return require(input(0).rank >= 1, "an input without dims");
      case NodeForm::kConvert: return infer_convert();
      case NodeForm::kBinary: return infer_broadcast();
      case NodeForm::kFullyConnected: return infer_fully_connected();
      case NodeForm::kMatMul: return infer_matmul();
      case NodeForm::kConvolution:
      case NodeForm::kDepthwise:
      case NodeForm::kDeconvolution: return infer_convolution();
      case NodeForm::kMaxPool:
      case NodeForm::kAvgPool: return infer_pooling();
      case NodeForm::kArgMaxPool: return infer_argmax_pooling();
      case NodeForm::kGlobalPool: return infer_global_pooling();
      case NodeForm::kConcatenate: return infer_concatenate();
      case NodeForm::kTranspose: return infer_transpose();
      case NodeForm::kReshape: return infer_reshape();
      case NodeForm::kSlice: return infer_slice();
      case NodeForm::kPad: return infer_pad();
      case NodeForm::kResize: return infer_resize();
      case NodeForm::kAttention: return infer_attention();
    }
    return Error::Internal;
  }

  Error infer_convert() {
    output() = input(0);
    const Value& to = model_.values[node_->outputs[0]];
    return require(to.datatype != xnn_datatype_qdint8 || to.quantization.num_nonbatch_dims <= input(0).rank,
                   "an input of too low a rank");
  }

  Error infer_broadcast() {
    const Shape &a = input(0), &b = input(1);
    Shape out;
    out.rank = std::max(a.rank, b.rank);
    for (size_t i = 0; i < out.rank; ++i) {  // from the innermost dim
      const size_t da = i < a.rank ? a.dims[a.rank - 1 - i] : 1;
      const size_t db = i < b.rank ? b.dims[b.rank - 1 - i] : 1;
      ET_RETURN_IF_ERROR(require(da == db || da == 1 || db == 1, "operands whose sizes do not broadcast"));
      out.dims[out.rank - 1 - i] = da == 1 ? db : da;
    }
    output() = out;
    return Error::Ok;
  }

  Error infer_fully_connected() {
    const Shape &x = input(0), &filter = input(1);
    const bool transposed = (node_->flags & XNN_FLAG_TRANSPOSE_WEIGHTS) != 0;
    ET_RETURN_IF_ERROR(require(filter.rank == 2 && x.rank >= 1 && x.last() == filter.dims[transposed ? 0 : 1],
                               "an input whose last dim is not the filter's"));
    const size_t channels = filter.dims[transposed ? 1 : 0];
    ET_RETURN_IF_ERROR(require(node_->num_inputs == 2 || (input(2).rank == 1 && input(2).dims[0] == channels),
                               "a bias that does not fit"));
    // Parameters of run-time quantization are those of rows.
    const Value& source = model_.values[node_->inputs[0]];
    ET_RETURN_IF_ERROR(require(source.datatype != xnn_datatype_qdint8 || source.quantization.num_nonbatch_dims == 1,
                               "an input that is not quantized by rows"));
    output() = x;
    output().dims[x.rank - 1] = channels;
    return Error::Ok;
  }

  Error infer_matmul() {
    const Shape &a = input(0), &b = input(1);
    ET_RETURN_IF_ERROR(require(a.rank >= 2 && b.rank >= 2, "a factor that is no matrix"));
    const bool transposed = (node_->flags & XNN_FLAG_TRANSPOSE_B) != 0;
    const size_t k = b.dims[transposed ? b.rank - 1 : b.rank - 2];
    const size_t n = b.dims[transposed ? b.rank - 2 : b.rank - 1];
    ET_RETURN_IF_ERROR(require(a.last() == k, "matrices whose sizes do not fit"));
    const Value& source = model_.values[node_->inputs[0]];
    ET_RETURN_IF_ERROR(require(source.datatype != xnn_datatype_qdint8 || source.quantization.num_nonbatch_dims == 1,
                               "an input that is not quantized by rows"));
    Shape out;
    out.rank = std::max(a.rank, b.rank);
    for (size_t i = 2; i < out.rank; ++i) {
      const size_t da = i < a.rank ? a.dims[a.rank - 1 - i] : 1;
      const size_t db = i < b.rank ? b.dims[b.rank - 1 - i] : 1;
      ET_RETURN_IF_ERROR(require(da == db || da == 1 || db == 1, "batches that do not broadcast"));
      out.dims[out.rank - 1 - i] = da == 1 ? db : da;
    }
    out.dims[out.rank - 2] = a.dims[a.rank - 2];
    out.dims[out.rank - 1] = n;
    output() = out;
    return Error::Ok;
  }

  /// Windows along one dimension. False when the window does not fit.
  static bool windows(size_t size, size_t padding, size_t window, size_t stride, size_t* count) {
    if (size + padding < window) {
      return false;
    }
    *count = (size + padding - window) / stride + 1;
    return true;
  }

  Error set_image(const Shape& from, size_t height, size_t width, size_t channels, size_t taps) {
    Shape out;
    out.rank = 4;
    out.dims[0] = from.dims[0];
    out.dims[1] = height;
    out.dims[2] = width;
    out.dims[3] = channels;
    output() = out;
    return require(height <= kMaxTaps / std::max<size_t>(width, 1) / std::max<size_t>(taps, 1),
                   "its output is too large");
  }

  Error infer_convolution() {
    const auto& c = node_->as<payload::Convolution>();
    const Shape& x = input(0);
    const size_t channels = size_t{c.groups()} * c.group_output_channels();
    ET_RETURN_IF_ERROR(require(x.rank == 4 && x.dims[3] == size_t{c.groups()} * c.group_input_channels(),
                               "an input whose channels are not the filter's"));
    const Value& source = model_.values[node_->inputs[0]];
    ET_RETURN_IF_ERROR(require(source.datatype != xnn_datatype_qdint8 || source.quantization.num_nonbatch_dims == 3,
                               "an input that is not quantized by images"));
    const size_t window_h = size_t{c.kernel_height() - 1} * c.dilation_height() + 1;
    const size_t window_w = size_t{c.kernel_width() - 1} * c.dilation_width() + 1;
    const size_t padding_h = size_t{c.padding_top()} + c.padding_bottom();
    const size_t padding_w = size_t{c.padding_left()} + c.padding_right();
    size_t height = 0, width = 0;
    if (node_->type->form == NodeForm::kDeconvolution) {
      ET_RETURN_IF_ERROR(require(x.dims[1] > 0 && x.dims[2] > 0, "an empty image"));
      height = c.subsampling_height() * (x.dims[1] - 1) + c.adjustment_height() + window_h;
      width = c.subsampling_width() * (x.dims[2] - 1) + c.adjustment_width() + window_w;
      ET_RETURN_IF_ERROR(require(height > padding_h && width > padding_w, "more padding than output"));
      height -= padding_h;
      width -= padding_w;
      ET_RETURN_IF_ERROR(
          require(has_each_place({c.kernel_height(), c.kernel_width()}, {c.subsampling_height(), c.subsampling_width()},
                                 {c.dilation_height(), c.dilation_width()}, static_cast<int64_t>(height),
                                 static_cast<int64_t>(width)),
                  "a transposed convolution whose output is smaller than its stride"));
    } else {
      ET_RETURN_IF_ERROR(require(windows(x.dims[1], padding_h, window_h, c.subsampling_height(), &height) &&
                                     windows(x.dims[2], padding_w, window_w, c.subsampling_width(), &width),
                                 "a filter that is larger than the padded image"));
    }
    return set_image(x, height, width, channels, size_t{c.kernel_height()} * c.kernel_width());
  }

  Error infer_pooling() {
    const auto& p = node_->as<payload::Pooling>();
    const Shape& x = input(0);
    ET_RETURN_IF_ERROR(require(x.rank == 4, "an input that is no image"));
    const bool dilates = node_->type->form == NodeForm::kMaxPool;
    const size_t window_h = dilates ? size_t{p.pooling_height() - 1} * p.dilation_height() + 1 : p.pooling_height();
    const size_t window_w = dilates ? size_t{p.pooling_width() - 1} * p.dilation_width() + 1 : p.pooling_width();
    size_t height = 0, width = 0;
    ET_RETURN_IF_ERROR(require(
        x.dims[1] > 0 && x.dims[2] > 0 &&
            windows(x.dims[1], size_t{p.padding_top()} + p.padding_bottom(), window_h, p.stride_height(), &height) &&
            windows(x.dims[2], size_t{p.padding_left()} + p.padding_right(), window_w, p.stride_width(), &width),
        "a window that is larger than the padded image"));
    return set_image(x, height, width, x.dims[3], size_t{p.pooling_height()} * p.pooling_width());
  }

  Error infer_argmax_pooling() {
    const auto& p = node_->as<payload::ArgMaxPooling>();
    const Shape& x = input(0);
    ET_RETURN_IF_ERROR(require(x.rank == 4, "an input that is no image"));
    size_t height = 0, width = 0;
    ET_RETURN_IF_ERROR(require(windows(x.dims[1], size_t{p.padding_top()} + p.padding_bottom(), p.pooling_height(),
                                       p.pooling_height(), &height) &&
                                   windows(x.dims[2], size_t{p.padding_left()} + p.padding_right(), p.pooling_width(),
                                           p.pooling_width(), &width),
                               "a window that is larger than the padded image"));
    ET_RETURN_IF_ERROR(set_image(x, height, width, x.dims[3], size_t{p.pooling_height()} * p.pooling_width()));
    output(1) = output(0);
    return Error::Ok;
  }

  Error infer_global_pooling() {
    const Shape& x = input(0);
    ET_RETURN_IF_ERROR(require(x.rank >= 3, "an input that is no image"));
    Shape out = x;
    if ((node_->flags & XNN_FLAG_KEEP_DIMS) != 0) {
      out.dims[x.rank - 3] = out.dims[x.rank - 2] = 1;
    } else {
      out.dims[x.rank - 3] = x.last();
      out.rank = x.rank - 2;
    }
    output() = out;
    return Error::Ok;
  }

  Error infer_concatenate() {
    const auto axis = static_cast<int32_t>(node_->as<payload::Concatenate>().axis());
    Shape out = input(0);
    ET_RETURN_IF_ERROR(require(axis >= 0 && static_cast<size_t>(axis) < out.rank, "an axis that is not there"));
    const auto along = static_cast<size_t>(axis);
    for (uint32_t i = 1; i < node_->num_inputs; ++i) {
      const Shape& next = input(i);
      bool fits = next.rank == out.rank;
      for (size_t d = 0; fits && d < out.rank; ++d) {
        fits = d == along || next.dims[d] == out.dims[d];
      }
      ET_RETURN_IF_ERROR(require(fits, "inputs whose sizes differ"));
      out.dims[along] += next.dims[along];
    }
    output() = out;
    return Error::Ok;
  }

  Error infer_transpose() {
    const auto& perm = *node_->as<payload::Transpose>().perm();
    const Shape& x = input(0);
    ET_RETURN_IF_ERROR(require(x.rank == perm.size(), "a permutation of another rank"));
    Shape out = x;
    for (uint32_t d = 0; d < perm.size(); ++d) {
      out.dims[d] = x.dims[perm.Get(d)];
    }
    output() = out;
    return Error::Ok;
  }

  Error infer_reshape() {
    const auto& sizes = *node_->as<payload::Reshape>().new_shape();
    size_t count, known = 1;
    ET_RETURN_IF_ERROR(require(num_elements(input(0), &count), "its input is too large"));
    Shape out;
    out.rank = sizes.size();
    size_t open = out.rank;
    for (uint32_t d = 0; d < sizes.size(); ++d) {
      out.dims[d] = sizes.Get(d);
      if (out.dims[d] == 0) {
        ET_RETURN_IF_ERROR(require(open == out.rank, "two sizes that are left open"));
        open = d;
      } else {
        ET_RETURN_IF_ERROR(require(out.dims[d] <= SIZE_MAX / known, "its output is too large"));
        known *= out.dims[d];
      }
    }
    if (open < out.rank) {
      ET_RETURN_IF_ERROR(require(count % known == 0, "a shape with another number of elements"));
      out.dims[open] = count / known;
    }
    output() = out;
    return require(open < out.rank || known == count, "a shape with another number of elements");
  }

  Error infer_slice() {
    const auto& s = node_->as<payload::Slice>();
    const Shape& x = input(0);
    ET_RETURN_IF_ERROR(require(x.rank == s.offsets()->size(), "lists of another rank"));
    Shape out = x;
    for (uint32_t d = 0; d < s.offsets()->size(); ++d) {
      const size_t offset = s.offsets()->Get(d);
      const size_t size = s.sizes()->Get(d);
      // The library takes size 0 as the whole dim, which leaves no room for an offset.
      ET_RETURN_IF_ERROR(require(size == 0 ? offset == 0 : offset <= x.dims[d] && size <= x.dims[d] - offset,
                                 "a part that is outside of the input"));
      out.dims[d] = size == 0 ? x.dims[d] : size;
    }
    output() = out;
    return Error::Ok;
  }

  Error infer_pad() {
    const auto& p = node_->as<payload::Pad>();
    const Shape& x = input(0);
    ET_RETURN_IF_ERROR(require(x.rank == p.pre_paddings()->size(), "paddings of another rank"));
    Shape out = x;
    for (uint32_t d = 0; d < p.pre_paddings()->size(); ++d) {
      out.dims[d] += size_t{p.pre_paddings()->Get(d)} + p.post_paddings()->Get(d);
    }
    output() = out;
    return Error::Ok;
  }

  Error infer_resize() {
    const auto& r = node_->as<payload::Resize>();
    const Shape& x = input(0);
    ET_RETURN_IF_ERROR(require(x.rank == 4 && x.dims[1] > 0 && x.dims[2] > 0, "an input that is no image"));
    return set_image(x, r.new_height(), r.new_width(), x.dims[3], 4);
  }

  Error infer_attention() {
    const Shape &query = input(0), &key = input(1), &value = input(2), &scale = input(3), &mask = input(4);
    const size_t rank = query.rank;
    ET_RETURN_IF_ERROR(require(rank >= 3 && key.rank == rank && value.rank == rank, "tensors of different ranks"));
    bool fits = key.dims[rank - 1] == query.dims[rank - 1] && value.dims[rank - 2] == key.dims[rank - 2];
    for (size_t d = 0; d + 2 < rank; ++d) {
      fits = fits && key.dims[d] == query.dims[d] && value.dims[d] == query.dims[d];
    }
    fits = fits && scale.rank == 1 && scale.dims[0] == query.last() && mask.rank == 2 &&
           mask.dims[0] == query.dims[rank - 2] && mask.dims[1] == key.dims[rank - 2];
    ET_RETURN_IF_ERROR(require(fits, "sizes that do not fit together"));
    output() = query;
    output().dims[rank - 1] = value.last();
    return Error::Ok;
  }

  const Model& model_;
  Span<Shape> shapes_;          // [values]
  const Node* node_ = nullptr;  // that is looked at
};

double elements(const Shape& shape) {
  double count = 1;
  for (size_t d = 0; d < shape.rank; ++d) {
    count *= static_cast<double>(shape.dims[d]);
  }
  return count;
}

}  // namespace

Error infer_shapes(const Model& model, Span<Shape> shapes, int32_t* failed) {
  Inference inference(model, shapes);
  const Error error = inference.run();
  if (error != Error::Ok && inference.node() != nullptr) {
    *failed = static_cast<int32_t>(inference.node()->debug_handle);
  }
  return error;
}

double num_multiplications(const Model& model, Span<const Shape> shapes) {
  double total = 0;
  for (const Node& node : model.nodes) {
    const double outputs = elements(shapes[node.outputs[0]]);
    switch (node.type->form) {
      case NodeForm::kConvolution:
      case NodeForm::kDepthwise:
      case NodeForm::kDeconvolution: {
        const auto& c = node.as<payload::Convolution>();
        total += outputs * c.kernel_height() * c.kernel_width() * c.group_input_channels();
        break;
      }
      case NodeForm::kFullyConnected:
      case NodeForm::kMatMul: total += outputs * static_cast<double>(shapes[node.inputs[0]].last()); break;
      case NodeForm::kAttention: total += 2 * outputs * static_cast<double>(shapes[node.inputs[1]].dims[1]); break;
      default: total += 4 * outputs;  // a load, a store and some work on each element
    }
  }
  return total;
}

}  // namespace et::backends::xnnpack
