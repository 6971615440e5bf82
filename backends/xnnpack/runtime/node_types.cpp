#include "backends/xnnpack/runtime/node_types.h"

namespace et::backends::xnnpack {
namespace {

using payload::NodeUnion;

constexpr uint32_t kTransposed = XNN_FLAG_TRANSPOSE_WEIGHTS;
constexpr uint32_t kKeepDims = XNN_FLAG_KEEP_DIMS;
constexpr uint32_t kResizeFlags = XNN_FLAG_ALIGN_CORNERS | XNN_FLAG_TENSORFLOW_LEGACY_MODE;

constexpr NodeType kNodeTypes[] = {
    {NodeUnion::NodeUnion_Add, NodeForm::kBinary, xnn_binary_add, 0, "Add"},
    {NodeUnion::NodeUnion_FullyConnected, NodeForm::kFullyConnected, 0, kTransposed, "FullyConnected"},
    {NodeUnion::NodeUnion_Softmax, NodeForm::kSoftmax, 0, 0, "Softmax"},
    {NodeUnion::NodeUnion_Sigmoid, NodeForm::kUnary, xnn_unary_sigmoid, 0, "Sigmoid"},
    {NodeUnion::NodeUnion_StaticTranspose, NodeForm::kTranspose, 0, 0, "StaticTranspose"},
    {NodeUnion::NodeUnion_Clamp, NodeForm::kUnary, xnn_unary_clamp, 0, "Clamp"},
    {NodeUnion::NodeUnion_Conv2d, NodeForm::kConvolution, 0, 0, "Conv2d"},
    {NodeUnion::NodeUnion_Div, NodeForm::kBinary, xnn_binary_divide, 0, "Div"},
    {NodeUnion::NodeUnion_StaticResizeBilinear2D, NodeForm::kResize, 0, kResizeFlags, "StaticResizeBilinear2D"},
    {NodeUnion::NodeUnion_StaticConstantPad, NodeForm::kPad, 0, 0, "StaticConstantPad"},
    {NodeUnion::NodeUnion_AvgPooling2d, NodeForm::kAvgPool, 0, kKeepDims, "AvgPooling2d"},
    {NodeUnion::NodeUnion_Minimum, NodeForm::kBinary, xnn_binary_minimum, 0, "Minimum"},
    {NodeUnion::NodeUnion_DepthwiseConv2d, NodeForm::kDepthwise, 0, 0, "DepthwiseConv2d"},
    {NodeUnion::NodeUnion_MaxPooling2d, NodeForm::kMaxPool, 0, kKeepDims, "MaxPooling2d"},
    {NodeUnion::NodeUnion_Multiply, NodeForm::kBinary, xnn_binary_multiply, 0, "Multiply"},
    {NodeUnion::NodeUnion_Subtract, NodeForm::kBinary, xnn_binary_subtract, 0, "Subtract"},
    {NodeUnion::NodeUnion_Floor, NodeForm::kUnary, xnn_unary_floor, 0, "Floor"},
    {NodeUnion::NodeUnion_Convert, NodeForm::kConvert, xnn_unary_convert, 0, "Convert"},
    {NodeUnion::NodeUnion_GlobalAvgPooling2d, NodeForm::kGlobalPool, 0, kKeepDims, "GlobalAvgPooling2d"},
    {NodeUnion::NodeUnion_StaticReshape, NodeForm::kReshape, 0, 0, "StaticReshape"},
    {NodeUnion::NodeUnion_ArgMaxPooling2d, NodeForm::kArgMaxPool, 0, 0, "ArgMaxPooling2d"},
    {NodeUnion::NodeUnion_SquareRoot, NodeForm::kUnary, xnn_unary_square_root, 0, "SquareRoot"},
    {NodeUnion::NodeUnion_Ceiling, NodeForm::kUnary, xnn_unary_ceiling, 0, "Ceiling"},
    {NodeUnion::NodeUnion_Hardswish, NodeForm::kUnary, xnn_unary_hardswish, 0, "Hardswish"},
    {NodeUnion::NodeUnion_LeakyReLU, NodeForm::kUnary, xnn_unary_leaky_relu, 0, "LeakyReLU"},
    {NodeUnion::NodeUnion_Maximum, NodeForm::kBinary, xnn_binary_maximum, 0, "Maximum"},
    {NodeUnion::NodeUnion_Negate, NodeForm::kUnary, xnn_unary_negate, 0, "Negate"},
    {NodeUnion::NodeUnion_Square, NodeForm::kUnary, xnn_unary_square, 0, "Square"},
    {NodeUnion::NodeUnion_ELU, NodeForm::kUnary, xnn_unary_elu, 0, "ELU"},
    {NodeUnion::NodeUnion_Abs, NodeForm::kUnary, xnn_unary_abs, 0, "Abs"},
    {NodeUnion::NodeUnion_PReLU, NodeForm::kBinary, xnn_binary_prelu, 0, "PReLU"},
    {NodeUnion::NodeUnion_Concatenate2, NodeForm::kConcatenate, 2, 0, "Concatenate2"},
    {NodeUnion::NodeUnion_Concatenate3, NodeForm::kConcatenate, 3, 0, "Concatenate3"},
    {NodeUnion::NodeUnion_Concatenate4, NodeForm::kConcatenate, 4, 0, "Concatenate4"},
    {NodeUnion::NodeUnion_StaticSlice, NodeForm::kSlice, 0, 0, "StaticSlice"},
    {NodeUnion::NodeUnion_ScaledDotProductAttention, NodeForm::kAttention, 0, 0, "ScaledDotProductAttention"},
    {NodeUnion::NodeUnion_BatchMatrixMultiply, NodeForm::kMatMul, 0, kTransposed, "BatchMatrixMultiply"},
    {NodeUnion::NodeUnion_Concatenate5, NodeForm::kConcatenate, 5, 0, "Concatenate5"},
    {NodeUnion::NodeUnion_ConvTranspose2d, NodeForm::kDeconvolution, 0, 0, "ConvTranspose2d"},
    {NodeUnion::NodeUnion_ReciprocalSquareRoot, NodeForm::kUnary, xnn_unary_reciprocal_square_root, 0,
     "ReciprocalSquareRoot"},
    {NodeUnion::NodeUnion_Log, NodeForm::kUnary, xnn_unary_log, 0, "Log"},
    {NodeUnion::NodeUnion_Gelu, NodeForm::kUnary, xnn_unary_gelu, 0, "Gelu"},
    {NodeUnion::NodeUnion_Tanh, NodeForm::kUnary, xnn_unary_tanh, 0, "Tanh"},
    {NodeUnion::NodeUnion_Exp, NodeForm::kUnary, xnn_unary_exp, 0, "Exp"},
    {NodeUnion::NodeUnion_Sin, NodeForm::kUnary, xnn_unary_sine, 0, "Sin"},
    {NodeUnion::NodeUnion_Copy, NodeForm::kCopy, 0, 0, "Copy"},
    {NodeUnion::NodeUnion_Cos, NodeForm::kUnary, xnn_unary_cosine, 0, "Cos"},
};

constexpr bool rows_are_in_order() {
  int expected = 1;
  for (const NodeType& row : kNodeTypes) {
    if (row.type != expected++) {
      return false;
    }
  }
  return expected == payload::NodeUnion_MAX + 1;
}
static_assert(rows_are_in_order(), "the table is indexed by the union's number");

// ---- types of values

constexpr xnn_datatype kF32 = xnn_datatype_fp32, kF16 = xnn_datatype_fp16, kQs8 = xnn_datatype_qint8,
                       kQu8 = xnn_datatype_quint8, kQi32 = xnn_datatype_qint32, kQc8 = xnn_datatype_qcint8,
                       kQc32 = xnn_datatype_qcint32, kQc4 = xnn_datatype_qcint4, kQd8 = xnn_datatype_qdint8,
                       kQb4 = xnn_datatype_qbint4, kNone = xnn_datatype_invalid;

/// A combination of types of a product with a filter. kNone as bias: no bias is allowed besides the bias types above
/// it.
struct Product {
  xnn_datatype input, filter, bias, output;
};
constexpr Product kConvolutionTypes[] = {
    {kF32, kF32, kF32, kF32},  {kF16, kF32, kF32, kF16}, {kQs8, kQs8, kQi32, kQs8}, {kQu8, kQu8, kQi32, kQu8},
    {kQs8, kQc8, kQc32, kQs8}, {kQd8, kQc8, kF32, kF32}, {kQd8, kQc8, kF32, kF16},
};
constexpr Product kDepthwiseTypes[] = {
    {kF32, kF32, kF32, kF32},  {kF16, kF32, kF32, kF16},  {kQs8, kQs8, kQi32, kQs8},
    {kQu8, kQu8, kQi32, kQu8}, {kQs8, kQc8, kQc32, kQs8},
};
constexpr Product kDeconvolutionTypes[] = {
    {kF32, kF32, kF32, kF32},  {kF16, kF32, kF32, kF16},  {kQs8, kQs8, kQi32, kQs8},
    {kQu8, kQu8, kQi32, kQu8}, {kQs8, kQc8, kQc32, kQs8}, {kQd8, kQc8, kF32, kF32},
};
constexpr Product kFullyConnectedTypes[] = {
    {kF32, kF32, kF32, kF32},  {kF16, kF32, kF32, kF16},  {kF16, kF16, kF16, kF16}, {kF32, kQc4, kF32, kF32},
    {kQd8, kQc4, kF32, kF32},  {kQd8, kQc4, kF32, kF16},  {kQd8, kQb4, kF32, kF32}, {kQd8, kQb4, kF32, kF16},
    {kF32, kQc8, kF32, kF32},  {kQd8, kQc8, kF32, kF32},  {kQd8, kQc8, kF32, kF16}, {kQs8, kQc8, kQc32, kQs8},
    {kQs8, kQs8, kQi32, kQs8}, {kQu8, kQu8, kQi32, kQu8},
};

/// The types that a value has outside of filters.
bool is_activation(xnn_datatype type) { return type == kF32 || type == kF16 || type == kQs8 || type == kQu8; }

Error refuse_types(const Node& node) {
  ET_LOG_ERROR("xnnpack payload: a %s node has values of types that do not go together", node.type->name);
  return Error::NotSupported;
}

#define CHECK_NODE(condition, what) \
  ET_CHECK_OR_RETURN(condition, InvalidProgram, "xnnpack payload: a %s node: %s", node.type->name, what)

template <size_t N>
Error check_product_types(const Model& model, const Node& node, const Product (&allowed)[N]) {
  const xnn_datatype bias = node.num_inputs == 3 ? model.values[node.inputs[2]].datatype : kNone;
  for (const Product& row : allowed) {
    if (row.input == model.values[node.inputs[0]].datatype && row.filter == model.values[node.inputs[1]].datatype &&
        row.output == model.values[node.outputs[0]].datatype && (bias == kNone || bias == row.bias)) {
      return Error::Ok;
    }
  }
  return refuse_types(node);
}

/// All values of the node have one of the activation types, the same.
Error check_equal_types(const Model& model, const Node& node, bool only_float) {
  const xnn_datatype type = model.values[node.outputs[0]].datatype;
  bool equal = is_activation(type) && (!only_float || type == kF32 || type == kF16);
  for (uint32_t i = 0; i < node.num_inputs; ++i) {
    equal = equal && model.values[node.inputs[i]].datatype == type;
  }
  return equal ? Error::Ok : refuse_types(node);
}

/// Moving elements does not convert them.
Error check_same_quantization(const Model& model, const Node& node) {
  ET_RETURN_IF_ERROR(check_equal_types(model, node, false));
  const Quantization& output = model.values[node.outputs[0]].quantization;
  for (uint32_t i = 0; i < node.num_inputs; ++i) {
    const Quantization& input = model.values[node.inputs[i]].quantization;
    CHECK_NODE(input.scale == output.scale && input.zero_point == output.zero_point,
               "moves values between different scales");
  }
  return Error::Ok;
}

// ---- numbers

/// More than any filter, stride or padding is; keeps products of them in range.
constexpr uint32_t kMaxExtent = 1u << 15;

bool in_range(uint32_t value, uint32_t low) { return value >= low && value <= kMaxExtent; }

bool has_dims(const Shape& shape, std::initializer_list<size_t> dims) {
  size_t i = 0;
  for (const size_t dim : dims) {
    if (i >= shape.rank || shape.dims[i++] != dim) {
      return false;
    }
  }
  return i == shape.rank;
}

Error check_bias(const Model& model, const Node& node, size_t channels) {
  CHECK_NODE(node.num_inputs == 2 || has_dims(model.values[node.inputs[2]].declared, {channels}),
             "the bias does not fit the filter");
  return Error::Ok;
}

/// Scales of a filter belong to its dimension of output channels.
Error check_filter_scales(const Model& model, const Node& node, size_t channel_dim) {
  const Value& filter = model.values[node.inputs[1]];
  const bool by_channel = filter.datatype == kQc8 || filter.datatype == kQc4 || filter.datatype == kQb4;
  CHECK_NODE(!by_channel || filter.quantization.channel_dim == channel_dim, "scales along the wrong dimension");
  if (node.num_inputs == 3) {
    const Value& bias = model.values[node.inputs[2]];
    CHECK_NODE(bias.datatype != kQc32 || bias.quantization.channel_dim == 0, "scales along the wrong dimension");
  }
  // The library takes the zero point of a signed filter as 0.
  CHECK_NODE(filter.datatype != kQs8 || filter.quantization.zero_point == 0, "a signed filter with a zero point");
  return Error::Ok;
}

Error check_convolution(const Model& model, const Node& node) {
  const auto& c = node.as<payload::Convolution>();
  CHECK_NODE(in_range(c.kernel_height(), 1) && in_range(c.kernel_width(), 1) && in_range(c.subsampling_height(), 1) &&
                 in_range(c.subsampling_width(), 1) && in_range(c.dilation_height(), 1) &&
                 in_range(c.dilation_width(), 1) && in_range(c.padding_top(), 0) && in_range(c.padding_right(), 0) &&
                 in_range(c.padding_bottom(), 0) && in_range(c.padding_left(), 0) &&
                 in_range(c.adjustment_height(), 0) && in_range(c.adjustment_width(), 0),
             "a kernel, stride, dilation or padding out of range");
  constexpr uint32_t kMaxChannels = 1u << 24;
  const uint64_t out_channels = uint64_t{c.groups()} * c.group_output_channels();
  CHECK_NODE(c.groups() >= 1 && c.group_input_channels() >= 1 && c.group_output_channels() >= 1 &&
                 out_channels <= kMaxChannels && uint64_t{c.groups()} * c.group_input_channels() <= kMaxChannels,
             "impossible channels");
  const Shape& filter = model.values[node.inputs[1]].declared;
  if (node.type->form == NodeForm::kDepthwise) {
    ET_RETURN_IF_ERROR(check_product_types(model, node, kDepthwiseTypes));
    CHECK_NODE(c.group_input_channels() == 1, "depthwise with several input channels a group");
    CHECK_NODE(has_dims(filter, {1, c.kernel_height(), c.kernel_width(), out_channels}), "a filter of other dims");
    ET_RETURN_IF_ERROR(check_filter_scales(model, node, 3));
  } else {
    const bool transposed = node.type->form == NodeForm::kDeconvolution;
    ET_RETURN_IF_ERROR(transposed ? check_product_types(model, node, kDeconvolutionTypes)
                                  : check_product_types(model, node, kConvolutionTypes));
    CHECK_NODE(has_dims(filter, {out_channels, c.kernel_height(), c.kernel_width(), c.group_input_channels()}),
               "a filter of other dims");
    ET_RETURN_IF_ERROR(check_filter_scales(model, node, 0));
    CHECK_NODE(!transposed ||
                   (c.adjustment_height() < c.subsampling_height() && c.adjustment_width() < c.subsampling_width()) ||
                   (c.adjustment_height() == 0 && c.adjustment_width() == 0),
               "an adjustment that is no smaller than the stride");
  }
  CHECK_NODE(model.values[node.inputs[1]].data != nullptr &&
                 (node.num_inputs == 2 || model.values[node.inputs[2]].data != nullptr),
             "a filter or bias that is no constant");
  return check_bias(model, node, static_cast<size_t>(out_channels));
}

Error check_fully_connected(const Model& model, const Node& node) {
  ET_RETURN_IF_ERROR(check_product_types(model, node, kFullyConnectedTypes));
  const Value& filter = model.values[node.inputs[1]];
  CHECK_NODE(filter.declared.rank == 2 && filter.declared.dims[0] > 0 && filter.declared.dims[1] > 0,
             "a filter that is no matrix");
  const bool is_float = filter.datatype == kF32 && model.values[node.inputs[0]].datatype == kF32;
  const bool computed_bias = node.num_inputs == 3 && model.values[node.inputs[2]].data == nullptr;
  CHECK_NODE(filter.data != nullptr ? !computed_bias : is_float && node.flags == 0,
             "a filter or bias that is no constant");
  const bool transposed = (node.flags & XNN_FLAG_TRANSPOSE_WEIGHTS) != 0;
  CHECK_NODE(!transposed || filter.datatype == kF32 || filter.datatype == kF16, "a transposed filter of integers");
  CHECK_NODE((filter.datatype != kQc4 && filter.datatype != kQb4) || filter.declared.dims[1] % 2 == 0,
             "an odd number of 4-bit input channels");
  ET_RETURN_IF_ERROR(check_filter_scales(model, node, 0));
  return check_bias(model, node, filter.declared.dims[transposed ? 1 : 0]);
}

Error check_matmul(const Model& model, const Node& node) {
  const Value& a = model.values[node.inputs[0]];
  const Value& b = model.values[node.inputs[1]];
  const bool dynamic = a.datatype == kQd8 && b.datatype == kQc8 && model.values[node.outputs[0]].datatype == kF32;
  if (!dynamic) {
    return check_equal_types(model, node, true);
  }
  CHECK_NODE(b.data != nullptr && b.declared.rank >= 2, "an integer factor that is no constant");
  const size_t n = (node.flags & XNN_FLAG_TRANSPOSE_B) != 0 ? b.declared.rank - 2 : b.declared.rank - 1;
  CHECK_NODE(b.quantization.channel_dim == n, "scales along the wrong dimension");
  // The library reads one scale for each output channel of each matrix; the format has them for one matrix.
  size_t matrices = 1;
  for (size_t i = 0; i + 2 < b.declared.rank; ++i) {
    matrices *= b.declared.dims[i];
  }
  CHECK_NODE(matrices == 1, "several integer matrices");
  return Error::Ok;
}

Error check_pooling(const Model& model, const Node& node) {
  const auto& p = node.as<payload::Pooling>();
  CHECK_NODE(in_range(p.pooling_height(), 1) && in_range(p.pooling_width(), 1) && in_range(p.stride_height(), 1) &&
                 in_range(p.stride_width(), 1) && p.padding_top() < p.pooling_height() &&
                 p.padding_bottom() < p.pooling_height() && p.padding_left() < p.pooling_width() &&
                 p.padding_right() < p.pooling_width(),
             "a window, stride or padding out of range");
  if (node.type->form == NodeForm::kAvgPool) {
    return check_equal_types(model, node, true);
  }
  CHECK_NODE(in_range(p.dilation_height(), 1) && in_range(p.dilation_width(), 1), "a dilation out of range");
  return check_same_quantization(model, node);
}

Error check_argmax_pooling(const Model& model, const Node& node) {
  const auto& p = node.as<payload::ArgMaxPooling>();
  CHECK_NODE(in_range(p.pooling_height(), 1) && in_range(p.pooling_width(), 1) &&
                 p.padding_top() < p.pooling_height() && p.padding_bottom() < p.pooling_height() &&
                 p.padding_left() < p.pooling_width() && p.padding_right() < p.pooling_width(),
             "a window or padding out of range");
  const bool types = model.values[node.inputs[0]].datatype == kF32 && model.values[node.outputs[0]].datatype == kF32 &&
                     model.values[node.outputs[1]].datatype == xnn_datatype_int32;
  return types ? Error::Ok : refuse_types(node);
}

/// A list of at most the library's number of dimensions.
bool is_list(const flatbuffers::Vector<uint32_t>* list, uint32_t count) {
  return list != nullptr && list->size() == count && count <= XNN_MAX_TENSOR_DIMS;
}

Error check_movement(const Model& model, const Node& node) {
  ET_RETURN_IF_ERROR(check_same_quantization(model, node));
  switch (node.type->form) {
    case NodeForm::kTranspose: {
      const auto& t = node.as<payload::Transpose>();
      CHECK_NODE(t.num_dims() >= 1 && is_list(t.perm(), t.num_dims()), "a permutation of no possible length");
      uint32_t seen = 0;
      for (const uint32_t d : *t.perm()) {
        seen |= d < t.num_dims() ? 1u << d : 0u;
      }
      CHECK_NODE(seen == (1u << t.num_dims()) - 1, "its list is no permutation");
      return Error::Ok;
    }
    case NodeForm::kReshape: {
      const auto& r = node.as<payload::Reshape>();
      CHECK_NODE(is_list(r.new_shape(), r.num_dims()), "a shape of no possible rank");
      return Error::Ok;
    }
    case NodeForm::kSlice: {
      const auto& s = node.as<payload::Slice>();
      CHECK_NODE(is_list(s.offsets(), s.num_dims()) && is_list(s.sizes(), s.num_dims()), "lists of different lengths");
      return Error::Ok;
    }
    case NodeForm::kPad: {
      const auto& p = node.as<payload::Pad>();
      CHECK_NODE(p.pre_paddings() != nullptr && is_list(p.post_paddings(), p.pre_paddings()->size()) &&
                     p.post_paddings()->size() >= 1,
                 "lists of different lengths");
      for (uint32_t i = 0; i < p.pre_paddings()->size(); ++i) {
        CHECK_NODE(in_range(p.pre_paddings()->Get(i), 0) && in_range(p.post_paddings()->Get(i), 0),
                   "a padding out of range");
      }
      return Error::Ok;
    }
    case NodeForm::kResize: {
      const auto& r = node.as<payload::Resize>();
      CHECK_NODE(in_range(r.new_height(), 1) && in_range(r.new_width(), 1), "a size out of range");
      CHECK_NODE(node.flags != kResizeFlags, "two ways of resizing at once");
      return Error::Ok;
    }
    default: return Error::Ok;
  }
}

Error check_convert(const Model& model, const Node& node) {
  const xnn_datatype from = model.values[node.inputs[0]].datatype;
  const Value& to = model.values[node.outputs[0]];
  if (to.datatype == kQd8) {
    CHECK_NODE(to.quantization.num_nonbatch_dims >= 1, "no dimension that shares its parameters");
    return from == kF32 || from == kF16 ? Error::Ok : refuse_types(node);
  }
  return is_activation(from) && is_activation(to.datatype) ? Error::Ok : refuse_types(node);
}

}  // namespace

const NodeType* find_node_type(payload::NodeUnion type) {
  return type < NodeUnion::NodeUnion_Add || type > payload::NodeUnion_MAX ? nullptr : &kNodeTypes[type - 1];
}

Error check_node(const Model& model, const Node& node) {
  CHECK_NODE((node.flags & ~node.type->allowed_flags) == 0, "flags that it cannot have");
  CHECK_NODE(node.output_min <= node.output_max, "an empty clamp");  // false for not-a-number, too
  switch (node.type->form) {
    case NodeForm::kUnary:
    case NodeForm::kBinary: return check_equal_types(model, node, false);
    case NodeForm::kConvert: return check_convert(model, node);
    case NodeForm::kSoftmax:
    case NodeForm::kAttention: return check_equal_types(model, node, true);
    case NodeForm::kGlobalPool: return check_equal_types(model, node, false);
    case NodeForm::kFullyConnected: return check_fully_connected(model, node);
    case NodeForm::kMatMul: return check_matmul(model, node);
    case NodeForm::kConvolution:
    case NodeForm::kDepthwise:
    case NodeForm::kDeconvolution: return check_convolution(model, node);
    case NodeForm::kMaxPool:
    case NodeForm::kAvgPool: return check_pooling(model, node);
    case NodeForm::kArgMaxPool: return check_argmax_pooling(model, node);
    case NodeForm::kCopy:
    case NodeForm::kConcatenate:
    case NodeForm::kTranspose:
    case NodeForm::kReshape:
    case NodeForm::kSlice:
    case NodeForm::kPad:
    case NodeForm::kResize: return check_movement(model, node);
  }
  return Error::Internal;
}

#undef CHECK_NODE

}  // namespace et::backends::xnnpack
