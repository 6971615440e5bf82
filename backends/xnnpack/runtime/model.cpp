#include "backends/xnnpack/runtime/model.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "backends/xnnpack/runtime/fusion.h"
#include "backends/xnnpack/runtime/node_types.h"
#include "base/checked_math.h"
#include "runtime/host/sparse_data.h"

namespace et::backends::xnnpack {
namespace {

using runtime::FreeableBuffer;
using runtime::NamedDataMap;

/// Ids are small numbers in every real file; the bound keeps the table from ids to positions small.
constexpr uint32_t kMaxIds = 1u << 20;
constexpr uint32_t kNoId = XNN_INVALID_VALUE_ID;
constexpr uint64_t kIsNamed = UINT64_MAX;
/// No value is larger: keeps every product of sizes that the library computes in range.
constexpr size_t kMaxValueElements = size_t{1} << 31;

template <typename T>
uint32_t length(const flatbuffers::Vector<T>* list) {
  return list == nullptr ? 0 : list->size();
}

xnn_datatype library_type(payload::Datatype type) {
  switch (type) {
    case payload::Datatype_fp32: return xnn_datatype_fp32;
    case payload::Datatype_fp16: return xnn_datatype_fp16;
    case payload::Datatype_qint8: return xnn_datatype_qint8;
    case payload::Datatype_quint8: return xnn_datatype_quint8;
    case payload::Datatype_qint32: return xnn_datatype_qint32;
    case payload::Datatype_qcint8: return xnn_datatype_qcint8;
    case payload::Datatype_qcint32: return xnn_datatype_qcint32;
    case payload::Datatype_qcint4: return xnn_datatype_qcint4;
    case payload::Datatype_qbint4: return xnn_datatype_qbint4;
    case payload::Datatype_qdint8:
    case payload::Datatype_qpint8: return xnn_datatype_qdint8;  // packing for Arm is this library's own affair
    case payload::Datatype_int32: return xnn_datatype_int32;
    default: return xnn_datatype_invalid;
  }
}

class ModelReader {
 public:
  ModelReader(const Payload& payload, const NamedDataMap* named_data, Model& model)
      : graph_(*payload.graph), constants_(payload.constants), named_data_(named_data), model_(model) {}

  Error run() {
    ET_CHECK_OR_RETURN(length(graph_.values()) <= kMaxIds && length(graph_.nodes()) <= kMaxIds, InvalidProgram,
                       "xnnpack payload: %u values and %u nodes are more than this runtime takes",
                       length(graph_.values()), length(graph_.nodes()));
    ET_RETURN_IF_ERROR(load_constants());
    for (uint32_t i = 0; i < length(graph_.values()); ++i) {
      ET_RETURN_IF_ERROR(read_value(*graph_.values()->Get(i), i));
    }
    is_defined_.assign(model_.values.size(), false);
    is_read_.assign(model_.values.size(), false);
    ET_RETURN_IF_ERROR(read_border(graph_.input_ids(), &Value::is_input, model_.inputs));
    ET_RETURN_IF_ERROR(read_border(graph_.output_ids(), &Value::is_output, model_.outputs));
    for (size_t i = 0; i < model_.values.size(); ++i) {
      const Value& value = model_.values[i];
      ET_CHECK_OR_RETURN(value.data == nullptr || (!value.is_input && !value.is_output), InvalidProgram,
                         "xnnpack payload: a constant is an input or output");
      is_defined_[i] = value.is_input || value.data != nullptr;
    }
    for (uint32_t i = 0; i < length(graph_.nodes()); ++i) {
      ET_RETURN_IF_ERROR(read_node(*graph_.nodes()->Get(i), i));
    }
    ET_RETURN_IF_ERROR(fuse_nodes(model_));
    // The library ends the process when it finds a result that is of no use.
    for (const Node& node : model_.nodes) {
      for (uint32_t i = 0; i < node.num_outputs; ++i) {
        ET_CHECK_OR_RETURN(is_read_[node.outputs[i]] || model_.values[node.outputs[i]].is_output, InvalidProgram,
                           "xnnpack payload: nothing reads what a %s node makes", node.type->name);
      }
    }
    for (const uint32_t output : model_.outputs) {
      ET_CHECK_OR_RETURN(is_defined_[output] && !model_.values[output].is_input, InvalidProgram,
                         "xnnpack payload: an output that no node computes");
    }
    return Error::Ok;
  }

 private:
  struct Constant {
    const uint8_t* data = nullptr;
    size_t nbytes = 0;         // of the dense form
    uint32_t sparse = kDense;  // position in Model::sparse; `data` is the sparse form then
    bool is_shared = false;
  };

  // ------------------------------------------------------------------------------------------------------- constants

  Error load_constants() {
    const uint32_t count = length(graph_.constant_data());
    constants_of_graph_.resize(count);
    // Each sparse entry once, whatever names a file has for it: what is unpacked takes at most 32 times the file.
    std::map<std::string_view, uint32_t> sparse_by_key;
    std::map<const uint8_t*, uint32_t> sparse_by_address;
    for (uint32_t i = 1; i < count; ++i) {  // [0] is reserved
      const payload::ConstantDataOffset& entry = *graph_.constant_data()->Get(i);
      if (entry.offset() != kIsNamed) {
        ET_CHECK_OR_RETURN(entry.offset() <= constants_.size() && entry.size() <= constants_.size() - entry.offset(),
                           InvalidProgram, "xnnpack payload: constant %u is outside of the payload", i);
        constants_of_graph_[i].data = constants_.data() + entry.offset();
        constants_of_graph_[i].nbytes = static_cast<size_t>(entry.size());
        continue;
      }
      ET_CHECK_OR_RETURN(entry.named_key() != nullptr && named_data_ != nullptr, InvalidProgram,
                         "xnnpack payload: constant %u is neither in the payload nor has it a name", i);
      const std::string_view key(entry.named_key()->c_str(), entry.named_key()->size());
      if (const auto known = sparse_by_key.find(key); known != sparse_by_key.end()) {
        ET_RETURN_IF_ERROR(set_constant(i, model_.sparse[known->second].bytes.nbytes()));
        set_sparse(i, known->second);
        continue;
      }
      Result<runtime::StoredData> found = runtime::get_stored(*named_data_, key);
      ET_CHECK_OR_RETURN(
          found.error() != Error::NotFound || entry.external_file() == nullptr, InvalidExternalData,
          "xnnpack payload: constant '%s' was written to '%s.ptd'; none of the .ptd files that were given "
          "has it: give the one that was made with this program",
          entry.named_key()->c_str(), entry.external_file()->c_str());
      ET_TRY(runtime::StoredData stored, std::move(found));
      ET_RETURN_IF_ERROR(set_constant(i, stored.nbytes()));
      if (stored.is_sparse) {
        const auto next = static_cast<uint32_t>(model_.sparse.size());
        const auto [known, is_new] = sparse_by_address.emplace(stored.buffer.data(), next);
        if (is_new) {
          model_.sparse.push_back({std::move(stored.buffer), stored.sparse});
        }
        sparse_by_key.emplace(key, known->second);
        set_sparse(i, known->second);
        continue;
      }
      constants_of_graph_[i].data = stored.buffer.data();
      constants_of_graph_[i].is_shared = stored.buffer.is_borrowed();
      model_.buffers.push_back(std::move(stored.buffer));
    }
    return Error::Ok;
  }

  /// Takes the payload's word for the size of constant `index`, of which its name gives `nbytes`.
  Error set_constant(uint32_t index, size_t nbytes) {
    const uint64_t said = graph_.constant_data()->Get(index)->size();
    ET_CHECK_OR_RETURN(nbytes >= said, InvalidProgram,
                       "xnnpack payload: constant %u has %zu bytes under its name '%s', the payload says %" PRIu64,
                       index, nbytes, graph_.constant_data()->Get(index)->named_key()->c_str(), said);
    constants_of_graph_[index].nbytes = static_cast<size_t>(said);
    return Error::Ok;
  }

  void set_sparse(uint32_t index, uint32_t position) {
    Constant& constant = constants_of_graph_[index];
    constant.data = model_.sparse[position].buffer.data();
    constant.is_shared = model_.sparse[position].buffer.is_borrowed();
    constant.sparse = position;
  }

  /// Constant `index`, which has at least `nbytes`.
  Error find_constant(uint32_t index, size_t nbytes, Constant** out) {
    ET_CHECK_OR_RETURN(index > 0 && index < constants_of_graph_.size() && constants_of_graph_[index].nbytes >= nbytes,
                       InvalidProgram, "xnnpack payload: constant %u is not there or too short", index);
    *out = &constants_of_graph_[index];
    return Error::Ok;
  }

  /// The numbers of constant `index`. They are read where they lie, so that those of a sparse constant are unpacked for
  /// as long as the model lives.
  template <typename T>
  Error numbers_at(uint32_t index, size_t count, const T** data, bool* is_shared) {
    size_t nbytes;
    Constant* constant = nullptr;
    ET_CHECK_OR_RETURN(!mul_overflow(count, sizeof(T), &nbytes), InvalidProgram, "xnnpack payload: too many scales");
    ET_RETURN_IF_ERROR(find_constant(index, nbytes, &constant));
    if (constant->sparse != kDense) {
      const uint8_t*& kept = unpacked_[constant->sparse];
      if (kept == nullptr) {
        ET_TRY(FreeableBuffer dense, runtime::unpack_to_heap(model_.sparse[constant->sparse].bytes));
        kept = dense.data();
        model_.buffers.push_back(std::move(dense));
      }
      *constant = {kept, constant->nbytes, kDense, false};
    }
    ET_CHECK_OR_RETURN(reinterpret_cast<uintptr_t>(constant->data) % alignof(T) == 0, InvalidProgram,
                       "xnnpack payload: constant %u is not aligned", index);
    *data = reinterpret_cast<const T*>(constant->data);
    *is_shared = constant->is_shared;
    return Error::Ok;
  }

  // ---------------------------------------------------------------------------------------------------------- values

  Error read_value(const payload::Value& source, uint32_t index) {
    const auto* const quantized = source.value_as_QuantizedTensorValue();
    const auto* const tensor = quantized != nullptr ? quantized->tensor_value() : source.value_as_TensorValue();
    ET_CHECK_OR_RETURN(
        tensor != nullptr && length(tensor->dims()) == tensor->num_dims() && tensor->num_dims() <= XNN_MAX_TENSOR_DIMS,
        InvalidProgram, "xnnpack payload: value %u has no dims or more than %d", index, XNN_MAX_TENSOR_DIMS);
    Value value;
    value.datatype = library_type(tensor->datatype());
    ET_CHECK_OR_RETURN(value.datatype != xnn_datatype_invalid, NotSupported,
                       "xnnpack payload: value %u has type %d, which this runtime has not", index, tensor->datatype());
    value.declared.rank = tensor->num_dims();
    for (uint32_t d = 0; d < tensor->num_dims(); ++d) {
      value.declared.dims[d] = tensor->dims()->Get(d);
    }
    size_t count;
    ET_CHECK_OR_RETURN(num_elements(value.declared, &count), InvalidProgram, "xnnpack payload: value %u is too large",
                       index);
    ET_RETURN_IF_ERROR(read_quantization(quantized, value, index));
    if (tensor->constant_buffer_idx() != 0) {
      ET_RETURN_IF_ERROR(read_constant(*tensor, count, value));
    }
    const uint32_t id = tensor->id_out();
    ET_CHECK_OR_RETURN(id < kMaxIds, InvalidProgram, "xnnpack payload: value %u has id %u", index, id);
    if (id >= position_of_id_.size()) {
      position_of_id_.resize(id + 1, kNoId);
    }
    ET_CHECK_OR_RETURN(position_of_id_[id] == kNoId, InvalidProgram, "xnnpack payload: two values have id %u", id);
    position_of_id_[id] = static_cast<uint32_t>(model_.values.size());
    argument_of_.push_back(tensor->external_id());
    model_.values.push_back(value);
    return Error::Ok;
  }

  Error read_constant(const payload::TensorValue& tensor, size_t count, Value& value) {
    ET_CHECK_OR_RETURN(count > 0 && value.datatype != xnn_datatype_qdint8, InvalidProgram,
                       "xnnpack payload: a constant without elements or with run-time scales");
    value.nbytes = num_bytes(value.datatype, count);
    Constant* constant = nullptr;
    ET_RETURN_IF_ERROR(find_constant(tensor.constant_buffer_idx(), value.nbytes, &constant));
    ET_CHECK_OR_RETURN(constant->sparse != kDense || reinterpret_cast<uintptr_t>(constant->data) % 4 == 0,
                       InvalidProgram, "xnnpack payload: an unaligned constant");
    value.data = constant->data;
    value.sparse = constant->sparse;
    value.is_shared = constant->is_shared && scales_are_shared_;
    return Error::Ok;
  }

  Error read_quantization(const payload::QuantizedTensorValue* source, Value& value, uint32_t index) {
    Quantization& out = value.quantization;
    scales_are_shared_ = true;
    const auto kind = source == nullptr ? payload::QuantParams_NONE : source->quant_params_type();
    auto expected = payload::QuantParams_NONE;
    switch (value.datatype) {
      case xnn_datatype_qint8:
      case xnn_datatype_quint8:
      case xnn_datatype_qint32: expected = payload::QuantParams_PerTensorQuant; break;
      case xnn_datatype_qcint8:
      case xnn_datatype_qcint32:
      case xnn_datatype_qcint4: expected = payload::QuantParams_PerChannelQuant; break;
      case xnn_datatype_qdint8: expected = payload::QuantParams_PerTokenDynamicQuant; break;
      case xnn_datatype_qbint4: expected = payload::QuantParams_PerChannelGroupQuant; break;
      default: break;
    }
    ET_CHECK_OR_RETURN(kind == expected && (kind == payload::QuantParams_NONE || source->quant_params() != nullptr),
                       InvalidProgram, "xnnpack payload: the scales of value %u do not fit its type", index);
    switch (kind) {
      case payload::QuantParams_PerTensorQuant:
        out.scale = source->quant_params_as_PerTensorQuant()->scale();
        out.zero_point = source->quant_params_as_PerTensorQuant()->zero_point();
        return Error::Ok;
      case payload::QuantParams_PerTokenDynamicQuant: {
        const int32_t shared = source->quant_params_as_PerTokenDynamicQuant()->num_nonbatch_dims();
        ET_CHECK_OR_RETURN(shared >= 1 && static_cast<size_t>(shared) <= value.declared.rank, InvalidProgram,
                           "xnnpack payload: %d dims of value %u share parameters", shared, index);
        out.num_nonbatch_dims = static_cast<size_t>(shared);
        return Error::Ok;
      }
      case payload::QuantParams_PerChannelQuant:
        return read_channel_scales(*source->quant_params_as_PerChannelQuant(), value, index);
      case payload::QuantParams_PerChannelGroupQuant:
        return read_group_scales(*source->quant_params_as_PerChannelGroupQuant(), value, index);
      default: return Error::Ok;
    }
  }

  Error read_channel_scales(const payload::PerChannelQuant& source, Value& value, uint32_t index) {
    Quantization& out = value.quantization;
    ET_CHECK_OR_RETURN(source.channel_dim() >= 0 && static_cast<size_t>(source.channel_dim()) < value.declared.rank,
                       InvalidProgram, "xnnpack payload: value %u has no dimension %d", index, source.channel_dim());
    out.channel_dim = static_cast<size_t>(source.channel_dim());
    out.zero_point = value.datatype == xnn_datatype_qcint4 ? 8 : 0;
    const size_t channels = value.declared.dims[out.channel_dim];
    const float* scales = nullptr;
    if (source.scale_buffer_idx() == 0) {  // older files
      ET_CHECK_OR_RETURN(length(source.scale()) == channels && channels > 0, InvalidProgram,
                         "xnnpack payload: value %u has %u scales for %zu channels", index, length(source.scale()),
                         channels);
      scales = source.scale()->data();
    } else {
      ET_CHECK_OR_RETURN(source.num_scales() == channels, InvalidProgram,
                         "xnnpack payload: value %u has %u scales for %zu channels", index, source.num_scales(),
                         channels);
      ET_RETURN_IF_ERROR(numbers_at(source.scale_buffer_idx(), channels, &scales, &scales_are_shared_));
    }
    out.channel_scales = {scales, channels};
    return Error::Ok;
  }

  Error read_group_scales(const payload::PerChannelGroupQuant& source, Value& value, uint32_t index) {
    Quantization& out = value.quantization;
    const Shape& dims = value.declared;
    ET_CHECK_OR_RETURN(dims.rank == 2 && source.channel_dim() == 0 && source.group_size() > 0 &&
                           source.group_size() % 32 == 0 &&
                           dims.dims[1] % static_cast<size_t>(source.group_size()) == 0,
                       InvalidProgram, "xnnpack payload: groups of %d do not fit value %u", source.group_size(), index);
    out.group_size = static_cast<size_t>(source.group_size());
    out.zero_point = 8;
    const size_t count = dims.dims[0] * (dims.dims[1] / out.group_size);
    const uint16_t* scales = nullptr;
    if (source.scale_buffer_idx() == 0) {  // older files
      ET_CHECK_OR_RETURN(length(source.scale_bf16()) == count && count > 0, InvalidProgram,
                         "xnnpack payload: value %u has %u scales for %zu groups", index, length(source.scale_bf16()),
                         count);
      scales = source.scale_bf16()->data();
    } else {
      ET_CHECK_OR_RETURN(source.num_scales() == count, InvalidProgram,
                         "xnnpack payload: value %u has %u scales for %zu groups", index, source.num_scales(), count);
      ET_RETURN_IF_ERROR(numbers_at(source.scale_buffer_idx(), count, &scales, &scales_are_shared_));
    }
    out.group_scales = {scales, count};
    return Error::Ok;
  }

  // ----------------------------------------------------------------------------------------------------------- nodes

  Error position_of(uint32_t id, uint32_t* position) const {
    ET_CHECK_OR_RETURN(id < position_of_id_.size() && position_of_id_[id] != kNoId, InvalidProgram,
                       "xnnpack payload: there is no value %u", id);
    *position = position_of_id_[id];
    return Error::Ok;
  }

  /// The call's arguments come in the order of external ids, whatever the order in which the list has them.
  Error read_border(const flatbuffers::Vector<uint32_t>* ids, bool Value::* mark, List<uint32_t>& out) {
    for (uint32_t i = 0; i < length(ids); ++i) {
      uint32_t position = 0;
      ET_RETURN_IF_ERROR(position_of(ids->Get(i), &position));
      Value& value = model_.values[position];
      ET_CHECK_OR_RETURN(!(value.*mark) && value.datatype != xnn_datatype_qdint8, InvalidProgram,
                         "xnnpack payload: value %u stands twice in a list, or cannot leave the delegate", ids->Get(i));
      value.*mark = true;
      out.push_back(position);
    }
    std::stable_sort(out.begin(), out.end(), [&](uint32_t a, uint32_t b) { return argument_of_[a] < argument_of_[b]; });
    return Error::Ok;
  }

  template <typename Table>
  static void add_one_input(const void* table, uint32_t* ids, uint32_t* count, uint32_t* output, uint32_t* flags) {
    const auto& t = *static_cast<const Table*>(table);
    ids[(*count)++] = t.input_id();
    *output = t.output_id();
    *flags = t.flags();
  }

  Error read_node(const payload::Node& source, uint32_t index) {
    Node node;
    node.type = find_node_type(source.node_type());
    node.table = source.node();
    ET_CHECK_OR_RETURN(node.type != nullptr && node.table != nullptr, NotSupported,
                       "xnnpack payload: node %u is of type %d, which this runtime has not", index, source.node_type());
    node.debug_handle = node.result_handle = source.debug_handle();
    const payload::OutputMinMax* const clamp = source.output_min_max();
    node.output_min = clamp == nullptr ? -std::numeric_limits<float>::infinity() : clamp->output_min();
    node.output_max = clamp == nullptr ? std::numeric_limits<float>::infinity() : clamp->output_max();
    uint32_t inputs[5];
    uint32_t outputs[2] = {kNoId, kNoId};
    uint32_t count = 0;
    read_ids(node, inputs, &count, outputs);
    for (uint32_t i = 0; i < count; ++i) {
      ET_RETURN_IF_ERROR(position_of(inputs[i], &node.inputs[i]));
      ET_CHECK_OR_RETURN(is_defined_[node.inputs[i]], InvalidProgram,
                         "xnnpack payload: node %u reads value %u before it is defined", index, inputs[i]);
      is_read_[node.inputs[i]] = true;
      Value& value = model_.values[node.inputs[i]];
      // Of sparse constants only filters: where the filter is computed, the library reads a bias at each call.
      value.is_packed_only =
          value.is_packed_only && (i == 1 || (i > 1 && value.sparse == kDense)) && packs_constants(node);
    }
    node.num_inputs = static_cast<uint8_t>(count);
    for (uint32_t i = 0; i < 2 && outputs[i] != kNoId; ++i) {
      ET_RETURN_IF_ERROR(position_of(outputs[i], &node.outputs[i]));
      ET_CHECK_OR_RETURN(!is_defined_[node.outputs[i]], InvalidProgram,
                         "xnnpack payload: node %u defines value %u, which is defined already", index, outputs[i]);
      is_defined_[node.outputs[i]] = true;
      node.num_outputs = static_cast<uint8_t>(i + 1);
    }
    ET_CHECK_OR_RETURN(node.num_outputs == (node.type->form == NodeForm::kArgMaxPool ? 2 : 1), InvalidProgram,
                       "xnnpack payload: node %u has no output", index);
    ET_RETURN_IF_ERROR(check_node(model_, node));
    model_.nodes.push_back(node);
    return Error::Ok;
  }

  static bool packs_constants(const Node& node) {
    switch (node.type->form) {
      case NodeForm::kFullyConnected:
      case NodeForm::kConvolution:
      case NodeForm::kDepthwise:
      case NodeForm::kDeconvolution: return true;
      default: return false;
    }
  }

  static void read_ids(Node& node, uint32_t* inputs, uint32_t* count, uint32_t* outputs) {
    switch (node.type->form) {
      case NodeForm::kUnary:
        if (node.type->type == payload::NodeUnion_ELU) {
          return add_one_input<payload::Elu>(node.table, inputs, count, outputs, &node.flags);
        }
        if (node.type->type == payload::NodeUnion_LeakyReLU) {
          return add_one_input<payload::LeakyRelu>(node.table, inputs, count, outputs, &node.flags);
        }
        return add_one_input<payload::Unary>(node.table, inputs, count, outputs, &node.flags);
      case NodeForm::kConvert:
      case NodeForm::kSoftmax:
      case NodeForm::kCopy:
      case NodeForm::kGlobalPool: return add_one_input<payload::Unary>(node.table, inputs, count, outputs, &node.flags);
      case NodeForm::kMaxPool:
      case NodeForm::kAvgPool: return add_one_input<payload::Pooling>(node.table, inputs, count, outputs, &node.flags);
      case NodeForm::kTranspose:
        return add_one_input<payload::Transpose>(node.table, inputs, count, outputs, &node.flags);
      case NodeForm::kReshape: return add_one_input<payload::Reshape>(node.table, inputs, count, outputs, &node.flags);
      case NodeForm::kSlice: return add_one_input<payload::Slice>(node.table, inputs, count, outputs, &node.flags);
      case NodeForm::kPad: return add_one_input<payload::Pad>(node.table, inputs, count, outputs, &node.flags);
      case NodeForm::kResize: return add_one_input<payload::Resize>(node.table, inputs, count, outputs, &node.flags);
      case NodeForm::kBinary:
      case NodeForm::kMatMul: {
        const auto& t = node.as<payload::Binary>();
        inputs[0] = t.input1_id();
        inputs[1] = t.input2_id();
        *count = 2;
        outputs[0] = t.output_id();
        node.flags = t.flags();
        return;
      }
      case NodeForm::kFullyConnected: return read_product<payload::FullyConnected>(node, inputs, count, outputs);
      case NodeForm::kConvolution:
      case NodeForm::kDepthwise:
      case NodeForm::kDeconvolution: return read_product<payload::Convolution>(node, inputs, count, outputs);
      case NodeForm::kArgMaxPool: {
        const auto& t = node.as<payload::ArgMaxPooling>();
        inputs[(*count)++] = t.input_id();
        outputs[0] = t.output_value_id();
        outputs[1] = t.output_index_id();
        node.flags = t.flags();
        return;
      }
      case NodeForm::kConcatenate: {
        const auto& t = node.as<payload::Concatenate>();
        const uint32_t ids[5] = {t.input1_id(), t.input2_id(), t.input3_id(), t.input4_id(), t.input5_id()};
        *count = static_cast<uint32_t>(node.type->library);
        for (uint32_t i = 0; i < *count; ++i) {
          inputs[i] = ids[i];
        }
        outputs[0] = t.output_id();
        node.flags = t.flags();
        return;
      }
      case NodeForm::kAttention: {
        const auto& t = node.as<payload::Attention>();
        const uint32_t ids[5] = {t.query_id(), t.key_id(), t.value_id(), t.scale_id(), t.mask_id()};
        for (const uint32_t id : ids) {
          inputs[(*count)++] = id;
        }
        outputs[0] = t.output_id();
        node.flags = t.flags();
        return;
      }
    }
  }

  template <typename Table>
  static void read_product(Node& node, uint32_t* inputs, uint32_t* count, uint32_t* outputs) {
    const auto& t = node.as<Table>();
    inputs[0] = t.input1_id();
    inputs[1] = t.filter_id();
    *count = 2;
    if (t.bias_id() != kNoId) {
      inputs[(*count)++] = t.bias_id();
    }
    outputs[0] = t.output_id();
    node.flags = t.flags();
  }

  const payload::Graph& graph_;
  Span<const uint8_t> constants_;
  const NamedDataMap* named_data_;
  Model& model_;
  List<Constant> constants_of_graph_;
  std::map<uint32_t, const uint8_t*> unpacked_;  // position in Model::sparse -> numbers that are kept
  bool scales_are_shared_ = true;                // those of the value that is being read
  List<uint32_t> position_of_id_;                // kNoId = no such id
  List<uint32_t> argument_of_;                   // [values]: external ids
  List<bool> is_defined_;                        // [values]
  List<bool> is_read_;                           // [values]
};

}  // namespace

bool num_elements(const Shape& shape, size_t* count) {
  *count = 1;
  for (size_t d = 0; d < shape.rank; ++d) {
    if (mul_overflow(*count, shape.dims[d], count) || *count > kMaxValueElements) {
      return false;
    }
  }
  return true;
}

size_t num_bytes(xnn_datatype datatype, size_t count) {
  switch (datatype) {
    case xnn_datatype_fp16: return 2 * count;
    case xnn_datatype_qint8:
    case xnn_datatype_quint8:
    case xnn_datatype_qcint8:
    case xnn_datatype_qdint8: return count;
    case xnn_datatype_qcint4:
    case xnn_datatype_qbint4: return (count + 1) / 2;
    default: return 4 * count;
  }
}

Error read_model(const Payload& payload, const NamedDataMap* named_data, Model& model) {
  return ModelReader(payload, named_data, model).run();
}

}  // namespace et::backends::xnnpack
