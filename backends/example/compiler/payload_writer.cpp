#include "backends/example/compiler/payload_writer.h"

#include <map>
#include <set>
#include <string>

#include "backends/example/schema/payload_generated.h"
#include "ir/op_views.h"
#include "ops/names.h"

namespace et::backends::example {
namespace {

constexpr uint32_t kVersion = 1;

/// Positions in aten::convolution's arguments.
enum ConvArgument : size_t {
  kInput,
  kWeight,
  kBias,
  kStride,
  kPadding,
  kDilation,
  kTransposed,
  kOutputPadding,
  kGroups
};

class PayloadWriter {
 public:
  PayloadWriter(const passes::BackendPart& part, ir::Diagnostics& diagnostics)
      : part_(part), diagnostics_(diagnostics) {}

  Error run(passes::BackendPayload& out) {
    std::vector<uint32_t> inputs;
    for (const auto& input : part_.graph.inputs()) {
      inputs.push_back(id_of(input.get()));
    }
    for (const auto& node : part_.graph.nodes()) {
      ET_RETURN_IF_ERROR(write_node(*node));
    }
    std::vector<uint32_t> outputs;
    for (const ir::Output& output : part_.graph.outputs) {
      outputs.push_back(id_of(output.value()));
    }
    const auto root = payload::CreateGraphDirect(builder_, kVersion, static_cast<uint32_t>(ids_.size()), &inputs,
                                                 &outputs, &nodes_, &constants_);
    payload::FinishGraphBuffer(builder_, root);
    out.bytes.assign(reinterpret_cast<const char*>(builder_.GetBufferPointer()), builder_.GetSize());
    return Error::Ok;
  }

 private:
  Error refuse(const ir::Node& node, std::string why) {
    return ir::diagnose(diagnostics_, Error::NotSupported, part_.graph, &node,
                        "the example backend " + std::move(why) + "; its op_support.py should not have taken it");
  }

  uint32_t id_of(const ir::Value* value) {
    return ids_.emplace(value, static_cast<uint32_t>(ids_.size())).first->second;
  }

  Error write_node(const ir::Node& node) {
    if (node.op == "constant" || fused_.count(&node) != 0) {
      return Error::Ok;
    }
    if (node.op == op::convolution) {
      return write_convolution(node);
    }
    if (node.op == op::relu) {
      const uint32_t input = id_of(node.args()[0].value());
      push(payload::Kind_Relu, payload::CreateRelu(builder_, input, id_of(node.result())).Union(), node);
      return Error::Ok;
    }
    if (node.op == op::add_Tensor) {
      const ops::AddTensor call(node);
      if (call.other().value() == nullptr || !(call.alpha() == ir::Argument{int64_t{1}})) {
        return refuse(node, "adds two tensors, not multiples or numbers");
      }
      const uint32_t a = id_of(call.self().value());
      const uint32_t b = id_of(call.other().value());
      push(payload::Kind_Add, payload::CreateAdd(builder_, a, b, id_of(node.result())).Union(), node);
      return Error::Ok;
    }
    return refuse(node, "has no such operator");
  }

  Error write_convolution(const ir::Node& node) {
    const auto& args = node.args();
    const bool* transposed = args[kTransposed].as<bool>();
    const int64_t* groups = args[kGroups].as<int64_t>();
    if (transposed == nullptr || *transposed || groups == nullptr) {
      return refuse(node, "does not transpose convolutions");
    }
    int32_t weight = -1;
    int32_t bias = -1;
    std::vector<int32_t> stride, padding, dilation;
    if (!constant_of(args[kWeight], &weight) || (!args[kBias].is_none() && !constant_of(args[kBias], &bias)) ||
        !to_ints(args[kStride], stride) || !to_ints(args[kPadding], padding) || !to_ints(args[kDilation], dilation)) {
      return refuse(node, "needs constant filters and literal strides, paddings and dilations");
    }
    const ir::Node* last = &node;
    if (const ir::Node* relu = only_user_relu(node)) {
      fused_.insert(relu);
      last = relu;
    }
    const uint32_t input = id_of(args[kInput].value());
    const auto conv =
        payload::CreateConv2dDirect(builder_, input, static_cast<uint32_t>(weight), bias, id_of(last->result()),
                                    &stride, &padding, &dilation, static_cast<int32_t>(*groups), last != &node);
    push(payload::Kind_Conv2d, conv.Union(), *last);
    return Error::Ok;
  }

  /// The relu that alone reads a convolution's result inside the part, if that result is not wanted outside.
  const ir::Node* only_user_relu(const ir::Node& node) const {
    const ir::Value* result = node.result();
    if (result->users().size() != 1 || part_.graph.is_output(result) || result->users().front()->op != op::relu) {
      return nullptr;
    }
    return result->users().front();
  }

  /// Index in the payload of the constant that `argument` is.
  bool constant_of(const ir::Argument& argument, int32_t* index) {
    const ir::Value* value = argument.value();
    if (value == nullptr || value->producer() == nullptr || value->producer()->op != "constant") {
      return false;
    }
    const std::string& symbol = value->producer()->symbol;
    const auto [entry, is_new] = constant_indices_.emplace(symbol, static_cast<int32_t>(constants_.size()));
    *index = entry->second;
    if (!is_new) {
      return true;
    }
    const auto found = part_.program.constants.find(symbol);
    if (found == part_.program.constants.end() || found->second.type.dtype != ScalarType::Float ||
        !found->second.type.is_row_major()) {
      return false;
    }
    std::vector<int64_t> sizes;
    for (const ir::Dim& dim : found->second.type.dims) {
      sizes.push_back(dim.max);
    }
    const auto count = static_cast<size_t>(found->second.type.numel());
    const auto data = builder_.CreateVector(static_cast<const float*>(found->second.data), count);
    constants_.push_back(payload::CreateConstant(builder_, builder_.CreateVector(sizes), data));
    return true;
  }

  static bool to_ints(const ir::Argument& argument, std::vector<int32_t>& out) {
    const auto* list = argument.as<ir::Argument::List>();
    if (list == nullptr || list->size() != 2) {
      return false;
    }
    for (const ir::Argument& item : *list) {
      const int64_t* number = item.as<int64_t>();
      if (number == nullptr || *number < 0 || *number > INT32_MAX) {
        return false;
      }
      out.push_back(static_cast<int32_t>(*number));
    }
    return true;
  }

  void push(payload::Kind kind, flatbuffers::Offset<void> body, const ir::Node& node) {
    nodes_.push_back(payload::CreateNode(builder_, kind, body, node.debug_handle));
  }

  const passes::BackendPart& part_;
  ir::Diagnostics& diagnostics_;
  flatbuffers::FlatBufferBuilder builder_;
  std::vector<flatbuffers::Offset<payload::Node>> nodes_;
  std::vector<flatbuffers::Offset<payload::Constant>> constants_;
  std::map<const ir::Value*, uint32_t> ids_;  ///< looked up only, never walked through: bytes do not depend on pointers
  std::map<std::string, int32_t> constant_indices_;
  std::set<const ir::Node*> fused_;
};

}  // namespace

Error write_payload(const passes::BackendPart& part, passes::BackendPayload& payload, ir::Diagnostics& diagnostics) {
  return PayloadWriter(part, diagnostics).run(payload);
}

}  // namespace et::backends::example
