#include "backends/xnnpack/runtime/tapped_values.h"

#include <optional>

namespace et::backends::xnnpack {
namespace {

std::optional<ScalarType> told_as(xnn_datatype datatype) {
  switch (datatype) {
    case xnn_datatype_fp32: return ScalarType::Float;
    case xnn_datatype_fp16: return ScalarType::Half;
    case xnn_datatype_qint8: return ScalarType::Char;
    case xnn_datatype_quint8: return ScalarType::Byte;
    case xnn_datatype_int32: return ScalarType::Int;
    default: return std::nullopt;
  }
}

/// Nodes that compute nothing: what they give lies in the backend's order of dims, which the graph's node need not
/// have.
bool only_moves(const Node& node) {
  const NodeForm form = node.type->form;
  return form == NodeForm::kCopy || form == NodeForm::kTranspose || form == NodeForm::kReshape;
}

}  // namespace

void TappedValues::mark(Model& model) {
  for (const Node& node : model.nodes) {
    for (uint32_t i = 0; i < node.num_outputs && !only_moves(node); ++i) {
      Value& value = model.values[node.outputs[i]];
      const std::optional<ScalarType> dtype = told_as(value.datatype);
      if (!value.is_output && dtype) {
        value.is_tapped = true;
        taps_.push_back({node.outputs[i], static_cast<int32_t>(node.result_handle), *dtype, {}});
      }
    }
  }
}

void TappedValues::add_to(List<xnn_external_value>& values) const {
  for (const Tap& tap : taps_) {
    values.push_back({tap.value, nullptr});
  }
}

Result<bool> TappedValues::place(Span<const Shape> shapes, List<xnn_external_value>& values) {
  bool moved = false;
  xnn_external_value* next = values.data() + values.size() - taps_.size();
  for (Tap& tap : taps_) {
    size_t count;
    ET_CHECK_OR_RETURN(num_elements(shapes[tap.value], &count), MemoryAllocationFailed,
                       "xnnpack delegate: value %u is too large", tap.value);
    const size_t nbytes = count * element_size(tap.dtype) + XNN_EXTRA_BYTES;
    if (tap.memory.size() < nbytes) {
      tap.memory.resize(nbytes);
    }
    moved = moved || next->data != tap.memory.data();
    next++->data = tap.memory.data();
  }
  return moved;
}

void TappedValues::report(Span<const Shape> shapes, runtime::EventTracer& tracer) const {
  for (const Tap& tap : taps_) {
    const Shape& shape = shapes[tap.value];
    int64_t sizes[XNN_MAX_TENSOR_DIMS], strides[XNN_MAX_TENSOR_DIMS];
    uint8_t order[XNN_MAX_TENSOR_DIMS];
    for (size_t d = 0; d < shape.rank; ++d) {
      sizes[d] = static_cast<int64_t>(shape.dims[d]);
      order[d] = static_cast<uint8_t>(d);
    }
    auto* const data = const_cast<uint8_t*>(tap.memory.data());  // a tensor of the runtime may be written; nobody does
    runtime::TensorImpl impl(tap.dtype, shape.rank, sizes, strides, order, data, tap.memory.size());
    tracer.record_step_value({tap.debug_handle}, runtime::EValue(runtime::Tensor(&impl)));
  }
}

}  // namespace et::backends::xnnpack
