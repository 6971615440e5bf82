#include "backends/example/runtime/payload_check.h"

#include "base/checked_math.h"

namespace et::backends::example {
namespace {

/// More values or nodes than any part has; bounds the work of checking hostile bytes.
constexpr uint32_t kMaxValues = 1u << 20;

Error check_constant(const payload::Constant& constant, uint32_t index) {
  ET_CHECK_OR_RETURN(constant.sizes() != nullptr && constant.data() != nullptr && constant.sizes()->size() >= 1 &&
                         constant.sizes()->size() <= 4,
                     InvalidProgram, "example payload: constant %u has no data or no rank from 1 to 4", index);
  int64_t count = 1;
  for (const int64_t size : *constant.sizes()) {
    ET_CHECK_OR_RETURN(size > 0 && !mul_overflow(count, size, &count), InvalidProgram,
                       "example payload: constant %u has impossible sizes", index);
  }
  ET_CHECK_OR_RETURN(static_cast<uint64_t>(count) == constant.data()->size(), InvalidProgram,
                     "example payload: constant %u has %u elements, its sizes make %" PRId64, index,
                     constant.data()->size(), count);
  return Error::Ok;
}

bool is_pair(const flatbuffers::Vector<int32_t>* values, int32_t lowest) {
  return values != nullptr && values->size() == 2 && values->Get(0) >= lowest && values->Get(1) >= lowest &&
         values->Get(0) <= INT16_MAX && values->Get(1) <= INT16_MAX;
}

/// Which values are defined so far, a bit each, without memory of its own: a node may only read what stands before it,
/// so definitions are looked for backwards. Quadratic in the number of nodes of a part, which is small.
class Definitions {
 public:
  explicit Definitions(const payload::Graph& graph) : graph_(graph) {}

  bool is_defined_before(uint32_t id, uint32_t node) const {
    for (const uint32_t input : *graph_.input_ids()) {
      if (input == id) {
        return true;
      }
    }
    for (uint32_t i = 0; i < node; ++i) {
      if (output_of(*graph_.nodes()->Get(i)) == id) {
        return true;
      }
    }
    return false;
  }

  static uint32_t output_of(const payload::Node& node) {
    switch (node.kind_type()) {
      case payload::Kind_Conv2d: return node.kind_as_Conv2d()->output();
      case payload::Kind_Relu: return node.kind_as_Relu()->output();
      case payload::Kind_Add: return node.kind_as_Add()->output();
      default: return UINT32_MAX;
    }
  }

 private:
  const payload::Graph& graph_;
};

Error check_convolution(const payload::Graph& graph, const payload::Conv2d& conv) {
  const uint32_t count = graph.constants()->size();
  ET_CHECK_OR_RETURN(conv.weight() < count && conv.bias() >= -1 && conv.bias() < static_cast<int64_t>(count),
                     InvalidProgram, "example payload: a convolution names a constant that is not there");
  const auto& filter = *graph.constants()->Get(conv.weight())->sizes();
  ET_CHECK_OR_RETURN(filter.size() == 4 && conv.groups() > 0 && filter.Get(0) % conv.groups() == 0, InvalidProgram,
                     "example payload: a filter of rank %u in %d groups", filter.size(), conv.groups());
  if (conv.bias() >= 0) {
    const auto& bias = *graph.constants()->Get(static_cast<uint32_t>(conv.bias()))->sizes();
    ET_CHECK_OR_RETURN(bias.size() == 1 && bias.Get(0) == filter.Get(0), InvalidProgram,
                       "example payload: a bias does not fit its filter");
  }
  ET_CHECK_OR_RETURN(is_pair(conv.stride(), 1) && is_pair(conv.padding(), 0) && is_pair(conv.dilation(), 1),
                     InvalidProgram, "example payload: strides, paddings or dilations out of range");
  return Error::Ok;
}

Error check_node(const payload::Graph& graph, uint32_t index) {
  const payload::Node& node = *graph.nodes()->Get(index);
  const Definitions definitions(graph);
  uint32_t inputs[2];
  uint32_t count = 0;
  switch (node.kind_type()) {
    case payload::Kind_Conv2d:
      ET_RETURN_IF_ERROR(check_convolution(graph, *node.kind_as_Conv2d()));
      inputs[count++] = node.kind_as_Conv2d()->input();
      break;
    case payload::Kind_Relu: inputs[count++] = node.kind_as_Relu()->input(); break;
    case payload::Kind_Add:
      inputs[count++] = node.kind_as_Add()->a();
      inputs[count++] = node.kind_as_Add()->b();
      break;
    default: ET_CHECK_OR_RETURN(false, InvalidProgram, "example payload: node %u is of no known kind", index);
  }
  for (uint32_t i = 0; i < count; ++i) {
    ET_CHECK_OR_RETURN(definitions.is_defined_before(inputs[i], index), InvalidProgram,
                       "example payload: node %u reads value %u before it is defined", index, inputs[i]);
  }
  const uint32_t output = Definitions::output_of(node);
  ET_CHECK_OR_RETURN(output < graph.num_values() && !definitions.is_defined_before(output, index), InvalidProgram,
                     "example payload: node %u defines value %u, which is out of range or defined already", index,
                     output);
  return Error::Ok;
}

}  // namespace

Result<const payload::Graph*> checked_graph(const runtime::FreeableBuffer& bytes) {
  flatbuffers::Verifier verifier(bytes.data(), bytes.size());
  ET_CHECK_OR_RETURN(bytes.size() >= 8 && payload::VerifyGraphBuffer(verifier), InvalidProgram,
                     "example payload: %zu bytes are no payload of this backend", bytes.size());
  const payload::Graph& graph = *payload::GetGraph(bytes.data());
  ET_CHECK_OR_RETURN(graph.version() == kPayloadVersion, DelegateInvalidCompatibility,
                     "example payload: version %u, this runtime reads version %u; lower the model again",
                     graph.version(), kPayloadVersion);
  ET_CHECK_OR_RETURN(graph.input_ids() != nullptr && graph.output_ids() != nullptr && graph.nodes() != nullptr &&
                         graph.constants() != nullptr && graph.num_values() <= kMaxValues &&
                         graph.nodes()->size() <= graph.num_values(),
                     InvalidProgram, "example payload: a list is missing or too long");
  for (uint32_t i = 0; i < graph.constants()->size(); ++i) {
    ET_RETURN_IF_ERROR(check_constant(*graph.constants()->Get(i), i));
  }
  for (const uint32_t id : *graph.input_ids()) {
    ET_CHECK_OR_RETURN(id < graph.num_values(), InvalidProgram, "example payload: input %u is out of range", id);
  }
  for (uint32_t i = 0; i < graph.nodes()->size(); ++i) {
    ET_RETURN_IF_ERROR(check_node(graph, i));
  }
  for (const uint32_t id : *graph.output_ids()) {
    ET_CHECK_OR_RETURN(Definitions(graph).is_defined_before(id, graph.nodes()->size()), InvalidProgram,
                       "example payload: output %u is never defined", id);
  }
  return &graph;
}

}  // namespace et::backends::example
