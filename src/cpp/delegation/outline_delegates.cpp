#include "delegation/outline_delegates.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "delegation/outline_part.h"
#include "ops/names.h"

namespace et::delegation {
namespace {

using Part = std::vector<ir::Node*>;

/// Puts the nodes of the graph into an order in which every part stands together; equal ones keep their order.
class Reorder {
 public:
  Reorder(ir::Graph& graph, const std::vector<Part>& parts) : graph_(graph) {
    for (size_t i = 0; i < parts.size(); ++i) {
      for (const ir::Node* node : parts[i]) {
        vertex_of_[node] = i;
      }
    }
    size_t vertex = parts.size();
    for (const auto& node : graph.nodes()) {
      vertex_of_.emplace(node.get(), vertex);
      vertex += vertex_of_.at(node.get()) == vertex ? 1 : 0;
    }
    members_.resize(vertex);
    successors_.resize(vertex);
    waits_for_.assign(vertex, 0);
  }

  void run() {
    std::vector<size_t> position(members_.size(), SIZE_MAX);
    size_t index = 0;
    for (const auto& node : graph_.nodes()) {
      const size_t vertex = vertex_of_.at(node.get());
      members_[vertex].push_back(node.get());
      position[vertex] = std::min(position[vertex], index++);
      connect(*node, vertex);
    }
    using Entry = std::pair<size_t, size_t>;  // position of the first member, vertex
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (size_t vertex = 0; vertex < members_.size(); ++vertex) {
      if (waits_for_[vertex] == 0) {
        ready.emplace(position[vertex], vertex);
      }
    }
    while (!ready.empty()) {
      const size_t vertex = ready.top().second;
      ready.pop();
      for (ir::Node* node : members_[vertex]) {
        graph_.move_before(node, nullptr);
      }
      for (const size_t next : successors_[vertex]) {
        if (--waits_for_[next] == 0) {
          ready.emplace(position[next], next);
        }
      }
    }
  }

 private:
  void connect(const ir::Node& node, size_t vertex) {
    const auto add = [&](ir::Value* value) {
      const auto producer = value->producer() == nullptr ? vertex_of_.end() : vertex_of_.find(value->producer());
      if (producer != vertex_of_.end() && producer->second != vertex) {
        successors_[producer->second].push_back(vertex);
        ++waits_for_[vertex];
      }
    };
    node.for_each_input(add);
    for (const auto& region : node.regions) {
      for (const auto& inner : region->nodes()) {
        connect(*inner, vertex);
      }
      for (const ir::Output& output : region->outputs) {
        if (ir::Value* value = output.value()) {
          add(value);
        }
      }
    }
  }

  ir::Graph& graph_;
  std::unordered_map<const ir::Node*, size_t> vertex_of_;
  std::vector<std::vector<ir::Node*>> members_;
  std::vector<std::vector<size_t>> successors_;
  std::vector<size_t> waits_for_;
};

class DelegateCutter {
 public:
  DelegateCutter(ir::Program& program, const DelegationTable& table, const passes::BackendCompilers& compilers,
                 ir::Diagnostics& diagnostics, passes::ConstantEvaluator* evaluator)
      : program_(program), table_(table), compilers_(compilers), diagnostics_(diagnostics), evaluator_(evaluator) {
    for (size_t i = 0; i < program.named_data.size(); ++i) {
      named_data_.emplace(program.named_data[i].key, i);
    }
  }

  Error cut(ir::Graph& graph, const ir::Graph& method) {
    for (const auto& node : graph.nodes()) {
      for (const auto& region : node->regions) {
        ET_RETURN_IF_ERROR(cut(*region, method));
      }
      if (!node->tag.empty() && !node->regions.empty()) {
        return diagnose(diagnostics_, Error::NotSupported, method, node.get(),
                        "control flow cannot be part of a delegate");
      }
    }
    std::vector<Part> parts = delegate_parts(graph);
    own_conversions(graph, parts);
    Reorder(graph, parts).run();
    for (const Part& part : parts) {
      ET_RETURN_IF_ERROR(replace(graph, method, part));
    }
    drop_weights(graph);
    return Error::Ok;
  }

 private:
  /// Weights whose users have all become parts: each part took its own copy along.
  static void drop_weights(ir::Graph& graph) {
    ir::Node* next = nullptr;
    for (ir::Node* node = graph.nodes().empty() ? nullptr : graph.nodes().front().get(); node != nullptr; node = next) {
      next = graph.next(node);
      if (is_dequantized_constant(*node) && graph.is_unused(node->result())) {
        graph.erase(node);
      }
    }
  }

  /// What a backend says of its steps, with the sources of the part's nodes. Handles that no node has are left out.
  static std::vector<ir::Delegate::Step> steps_of(const Part& part,
                                                  const std::map<uint32_t, std::vector<uint32_t>>& debug_handles) {
    std::unordered_map<uint32_t, const ir::Node*> node_of;
    for (const ir::Node* node : part) {
      node_of.emplace(node->debug_handle, node);
    }
    std::vector<ir::Delegate::Step> steps;
    for (const auto& [id, handles] : debug_handles) {
      ir::Delegate::Step step;
      step.id = id;
      for (const uint32_t handle : handles) {
        const auto found = node_of.find(handle);
        if (found == node_of.end()) {
          continue;
        }
        if (step.handles.empty()) {
          step.op = found->second->op;
          step.source = found->second->source;
        }
        const std::vector<uint32_t> all = found->second->all_handles();
        step.handles.insert(step.handles.end(), all.begin(), all.end());
      }
      if (!step.handles.empty()) {
        steps.push_back(std::move(step));
      }
    }
    return steps;
  }

  Error replace(ir::Graph& graph, const ir::Graph& method, const Part& part) {
    const ir::Node& first = *part.front();
    const auto spec = table_.find(first.tag);
    if (spec == table_.end()) {
      return diagnose(diagnostics_, Error::NotFound, method, &first,
                      "nobody said which backend compiles tag '" + first.tag + "'");
    }
    passes::BackendCompiler* compiler = compilers_.find(spec->second.backend_id);
    if (compiler == nullptr) {
      return diagnose(diagnostics_, Error::NotFound, method, &first,
                      "this build has no compiler for backend '" + spec->second.backend_id + "'");
    }
    const std::unique_ptr<Outline> outline = outline_part(part, method.name + "." + first.tag);
    passes::BackendPayload payload;
    const passes::BackendPart given{outline->graph, program_, spec->second.compile_specs, method.name, evaluator_};
    ET_RETURN_IF_ERROR(compiler->preprocess(given, payload, diagnostics_));
    for (ir::NamedData& data : payload.named_data) {
      const auto [place, is_new] = named_data_.emplace(data.key, program_.named_data.size());
      if (is_new) {
        program_.named_data.push_back(std::move(data));
        continue;
      }
      ir::NamedData& known = program_.named_data[place->second];
      if (known.bytes != data.bytes) {
        return diagnose(diagnostics_, Error::InvalidArgument, method, &first,
                        "two delegates put different bytes under the key '" + data.key + "'");
      }
      known.share(data.sparse_dtype, data.external_file);
    }

    for (auto dropped = payload.dropped_inputs.rbegin(); dropped != payload.dropped_inputs.rend(); ++dropped) {
      outline->inputs.erase(outline->inputs.begin() + static_cast<std::ptrdiff_t>(*dropped));
    }
    ir::Node* call = graph.create_node("delegate", outline->inputs, part.back());
    call->symbol = std::to_string(program_.delegates.size());
    call->source = first.source;
    program_.delegates.push_back({spec->second.backend_id, std::move(payload.bytes), spec->second.compile_specs,
                                  steps_of(part, payload.debug_handles)});
    for (ir::Value* output : outline->outputs) {
      graph.replace_all_uses(output, call->add_result(output->name, output->type));
    }
    for (auto node = part.rbegin(); node != part.rend(); ++node) {
      call->absorb(**node);
      graph.erase(*node);
    }
    return Error::Ok;
  }

  ir::Program& program_;
  const DelegationTable& table_;
  const passes::BackendCompilers& compilers_;
  ir::Diagnostics& diagnostics_;
  passes::ConstantEvaluator* evaluator_;
  std::map<std::string, size_t> named_data_;  // key -> place in the program's list
};

}  // namespace

void read_sizes_at_inputs(ir::Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (node->op != op::sym_size_int || node->result()->type.dim.is_static()) {
      continue;
    }
    for (const auto& input : graph.inputs()) {
      const auto& dims = input->type.tensor.dims;
      const auto found =
          input->type.is_tensor() ? std::find(dims.begin(), dims.end(), node->result()->type.dim) : dims.end();
      if (found != dims.end()) {
        ir::Argument value, position;
        value.data = input.get();
        position.data = static_cast<int64_t>(found - dims.begin());
        node->set_args({value, position});
        break;
      }
    }
  }
}

Error outline_delegates(ir::Program& program, const DelegationTable& table, const passes::BackendCompilers& compilers,
                        ir::Diagnostics& diagnostics, passes::ConstantEvaluator* evaluator) {
  DelegateCutter cutter(program, table, compilers, diagnostics, evaluator);
  for (const auto& method : program.methods) {
    read_sizes_at_inputs(*method);
    ET_RETURN_IF_ERROR(cutter.cut(*method, *method));
  }
  return Error::Ok;
}

}  // namespace et::delegation
