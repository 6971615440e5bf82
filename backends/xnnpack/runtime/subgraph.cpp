#include "backends/xnnpack/runtime/subgraph.h"

#include "backends/xnnpack/kernels/library.h"

#include <array>
#include <cmath>

namespace et::backends::xnnpack {
namespace {

using Sizes = std::array<size_t, XNN_MAX_TENSOR_DIMS>;

Sizes to_sizes(const flatbuffers::Vector<uint32_t>& list) {
  Sizes out{};
  for (uint32_t i = 0; i < list.size(); ++i) {
    out[i] = list.Get(i);
  }
  return out;
}

xnn_status define_value(xnn_subgraph_t subgraph, const Value& value, const void* data, const Shape& shape,
                        uint32_t id) {
  const uint32_t flags = (value.is_input ? XNN_VALUE_FLAG_EXTERNAL_INPUT : 0u) |
                         (value.is_output || value.is_tapped ? XNN_VALUE_FLAG_EXTERNAL_OUTPUT : 0u);
  const Quantization& q = value.quantization;
  uint32_t given = id;
  switch (value.datatype) {
    case xnn_datatype_qint8:
    case xnn_datatype_quint8:
    case xnn_datatype_qint32:
      return xnn_define_quantized_tensor_value(subgraph, value.datatype, q.zero_point, q.scale, shape.rank, shape.dims,
                                               data, id, flags, &given);
    case xnn_datatype_qcint8:
    case xnn_datatype_qcint32:
    case xnn_datatype_qcint4:
      return xnn_define_channelwise_quantized_tensor_value_v2(subgraph, value.datatype, q.zero_point,
                                                              q.channel_scales.data(), shape.rank, q.channel_dim,
                                                              shape.dims, data, id, flags, &given);
    case xnn_datatype_qbint4:
      return xnn_define_blockwise_quantized_tensor_value(subgraph, value.datatype, q.zero_point, q.group_scales.data(),
                                                         shape.rank, q.channel_dim, q.group_size, shape.dims, data, id,
                                                         flags, &given);
    case xnn_datatype_qdint8:
      return xnn_define_dynamically_quantized_tensor_value(subgraph, value.datatype, shape.rank, q.num_nonbatch_dims,
                                                           shape.dims, id, flags, &given);
    default: return xnn_define_tensor_value(subgraph, value.datatype, shape.rank, shape.dims, data, id, flags, &given);
  }
}

xnn_status define_product(xnn_subgraph_t subgraph, const Node& node) {
  const uint32_t bias = node.num_inputs == 3 ? node.inputs[2] : XNN_INVALID_VALUE_ID;
  const uint32_t input = node.inputs[0], filter = node.inputs[1], output = node.outputs[0];
  if (node.type->form == NodeForm::kFullyConnected) {
    return xnn_define_fully_connected(subgraph, node.output_min, node.output_max, input, filter, bias, output,
                                      node.flags);
  }
  const auto& c = node.as<payload::Convolution>();
  if (node.type->form == NodeForm::kDepthwise) {
    return xnn_define_depthwise_convolution_2d(
        subgraph, c.padding_top(), c.padding_right(), c.padding_bottom(), c.padding_left(), c.kernel_height(),
        c.kernel_width(), c.subsampling_height(), c.subsampling_width(), c.dilation_height(), c.dilation_width(),
        c.group_output_channels(), c.groups(), node.output_min, node.output_max, input, filter, bias, output, 0);
  }
  if (node.type->form == NodeForm::kDeconvolution) {
    return xnn_define_deconvolution_2d(
        subgraph, c.padding_top(), c.padding_right(), c.padding_bottom(), c.padding_left(), c.adjustment_height(),
        c.adjustment_width(), c.kernel_height(), c.kernel_width(), c.subsampling_height(), c.subsampling_width(),
        c.dilation_height(), c.dilation_width(), c.groups(), c.group_input_channels(), c.group_output_channels(),
        node.output_min, node.output_max, input, filter, bias, output, 0);
  }
  return xnn_define_convolution_2d(subgraph, c.padding_top(), c.padding_right(), c.padding_bottom(), c.padding_left(),
                                   c.kernel_height(), c.kernel_width(), c.subsampling_height(), c.subsampling_width(),
                                   c.dilation_height(), c.dilation_width(), c.groups(), c.group_input_channels(),
                                   c.group_output_channels(), node.output_min, node.output_max, input, filter, bias,
                                   output, 0);
}

xnn_status define_unary(xnn_subgraph_t subgraph, const Node& node) {
  xnn_unary_params params{};
  switch (node.type->library) {
    case xnn_unary_clamp: params.clamp = {node.output_min, node.output_max}; break;
    case xnn_unary_elu: params.elu = {node.as<payload::Elu>().alpha()}; break;
    case xnn_unary_leaky_relu: params.leaky_relu = {node.as<payload::LeakyRelu>().negative_slope()}; break;
    default: break;
  }
  return xnn_define_unary(subgraph, static_cast<xnn_unary_operator>(node.type->library), &params, node.inputs[0],
                          node.outputs[0], 0);
}

xnn_status define_global_pooling(xnn_subgraph_t subgraph, const Node& node, const Shape& input) {
  const size_t axes[] = {input.rank - 3, input.rank - 2};
  return xnn_define_static_reduce(subgraph, xnn_reduce_mean, 2, axes, node.inputs[0], node.outputs[0], node.flags);
}

xnn_status define_concatenate(xnn_subgraph_t subgraph, const Node& node) {
  const size_t axis = node.as<payload::Concatenate>().axis();
  const uint32_t* const in = node.inputs;
  const uint32_t out = node.outputs[0];
  switch (node.num_inputs) {
    case 2: return xnn_define_concatenate2(subgraph, static_cast<int32_t>(axis), in[0], in[1], out, 0);
    case 3: return xnn_define_concatenate3(subgraph, static_cast<int32_t>(axis), in[0], in[1], in[2], out, 0);
    case 4: return xnn_define_concatenate4(subgraph, static_cast<int32_t>(axis), in[0], in[1], in[2], in[3], out, 0);
    default:
      return xnn_define_concatenate5(subgraph, static_cast<int32_t>(axis), in[0], in[1], in[2], in[3], in[4], out, 0);
  }
}

xnn_status define_node(xnn_subgraph_t subgraph, const Node& node, Span<const Shape> shapes) {
  const uint32_t input = node.inputs[0];
  const uint32_t output = node.outputs[0];
  switch (node.type->form) {
    case NodeForm::kUnary: return define_unary(subgraph, node);
    case NodeForm::kConvert: return xnn_define_unary(subgraph, xnn_unary_convert, nullptr, input, output, 0);
    case NodeForm::kSoftmax: return xnn_define_softmax(subgraph, input, output, 0);
    case NodeForm::kCopy: return xnn_define_copy(subgraph, input, output, 0);
    case NodeForm::kBinary: {
      const xnn_binary_params clamp{node.output_min, node.output_max};
      return xnn_define_binary(subgraph, static_cast<xnn_binary_operator>(node.type->library), &clamp, input,
                               node.inputs[1], output, 0);
    }
    case NodeForm::kMatMul:
      return xnn_define_batch_matrix_multiply(subgraph, input, node.inputs[1], output, node.flags);
    case NodeForm::kFullyConnected:
    case NodeForm::kConvolution:
    case NodeForm::kDepthwise:
    case NodeForm::kDeconvolution: return define_product(subgraph, node);
    case NodeForm::kMaxPool: {
      const auto& p = node.as<payload::Pooling>();
      return xnn_define_max_pooling_2d(subgraph, p.padding_top(), p.padding_right(), p.padding_bottom(),
                                       p.padding_left(), p.pooling_height(), p.pooling_width(), p.stride_height(),
                                       p.stride_width(), p.dilation_height(), p.dilation_width(), node.output_min,
                                       node.output_max, input, output, 0);
    }
    case NodeForm::kAvgPool: {
      const auto& p = node.as<payload::Pooling>();
      return xnn_define_average_pooling_2d(subgraph, p.padding_top(), p.padding_right(), p.padding_bottom(),
                                           p.padding_left(), p.pooling_height(), p.pooling_width(), p.stride_height(),
                                           p.stride_width(), node.output_min, node.output_max, input, output, 0);
    }
    case NodeForm::kArgMaxPool: {
      const auto& p = node.as<payload::ArgMaxPooling>();
      return xnn_define_argmax_pooling_2d(subgraph, p.padding_top(), p.padding_right(), p.padding_bottom(),
                                          p.padding_left(), p.pooling_height(), p.pooling_width(), input, output,
                                          node.outputs[1], 0);
    }
    case NodeForm::kGlobalPool: return define_global_pooling(subgraph, node, shapes[input]);
    case NodeForm::kConcatenate: return define_concatenate(subgraph, node);
    case NodeForm::kTranspose: {
      const auto& t = node.as<payload::Transpose>();
      return xnn_define_static_transpose(subgraph, t.num_dims(), to_sizes(*t.perm()).data(), input, output, 0);
    }
    case NodeForm::kReshape: {
      const auto& r = node.as<payload::Reshape>();
      return xnn_define_static_reshape(subgraph, r.num_dims(), to_sizes(*r.new_shape()).data(), input, output, 0);
    }
    case NodeForm::kSlice: {
      const auto& s = node.as<payload::Slice>();
      return xnn_define_static_slice(subgraph, s.num_dims(), to_sizes(*s.offsets()).data(), to_sizes(*s.sizes()).data(),
                                     input, output, 0);
    }
    case NodeForm::kPad: {
      const auto& p = node.as<payload::Pad>();
      return xnn_define_static_constant_pad(subgraph, to_sizes(*p.pre_paddings()).data(),
                                            to_sizes(*p.post_paddings()).data(), p.padding_value(), input, output, 0);
    }
    case NodeForm::kResize: {
      const auto& r = node.as<payload::Resize>();
      return xnn_define_static_resize_bilinear_2d(subgraph, r.new_height(), r.new_width(), input, output, node.flags);
    }
    case NodeForm::kAttention:
      return xnn_define_scaled_dot_product_attention(subgraph, xnn_attention_logits_cap_type_none, nullptr, input,
                                                     node.inputs[1], node.inputs[2], node.inputs[3], node.inputs[4],
                                                     output, 0);
  }
  return xnn_status_unsupported_parameter;
}

Error refuse(xnn_status status, const char* what) {
  ET_CHECK_OR_RETURN(status != xnn_status_out_of_memory, MemoryAllocationFailed,
                     "xnnpack delegate: no memory for %zu bytes of a %s", failed_nbytes(), what);
  return ET_ERROR_WITH_MESSAGE(NotSupported, "xnnpack delegate: the library refuses a %s (status %d)", what,
                               static_cast<int>(status));
}

}  // namespace

Error Subgraph::build(const Model& model, Span<const Shape> shapes, const UnpackedFilters& filters, int32_t* failed) {
  const auto count = static_cast<uint32_t>(model.values.size());
  xnn_status status = xnn_create_subgraph(count, 0, &handle_);
  ET_CHECK_OR_RETURN(status == xnn_status_success, MemoryAllocationFailed,
                     "xnnpack delegate: no memory for %zu bytes of a graph with %u values", failed_nbytes(), count);
  for (uint32_t i = 0; i < count; ++i) {
    status = define_value(handle_, model.values[i], filters.data_of(model.values[i]), shapes[i], i);
    if (status != xnn_status_success) {
      return refuse(status, "value");
    }
  }
  for (const Node& node : model.nodes) {
    status = define_node(handle_, node, shapes);
    if (status != xnn_status_success) {
      *failed = static_cast<int32_t>(node.debug_handle);
      return refuse(status, node.type->name);
    }
  }
  return Error::Ok;
}

Error Subgraph::build_product(const Model& model, const Node& node, Span<const Shape> shapes) {
  Node product = node;
  bool is_made = xnn_create_subgraph(node.num_inputs + 1, 0, &handle_) == xnn_status_success;
  const auto define = [&](uint32_t position, uint32_t id) {
    Value value = model.values[position];
    value.is_input = id == 0;
    value.is_output = id == node.num_inputs;
    is_made = is_made && define_value(handle_, value, value.data, shapes[position], id) == xnn_status_success;
    return id;
  };
  for (uint32_t i = 0; i < node.num_inputs; ++i) {
    product.inputs[i] = define(node.inputs[i], i);
  }
  product.outputs[0] = define(node.outputs[0], node.num_inputs);
  return is_made && define_product(handle_, product) == xnn_status_success ? Error::Ok : Error::NotSupported;
}

}  // namespace et::backends::xnnpack
