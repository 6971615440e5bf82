#include "delegation/outline_delegates.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "ops/names.h"

namespace et::delegation {
namespace {

using Part = std::vector<ir::Node*>;

/// An integer weight: what folding leaves alone so that backends see integers.
bool is_dequantized_constant(const ir::Node& node) {
  bool constant = node.op.find("dequantize") != std::string::npos;
  node.for_each_input([&](const ir::Value* input) {
    constant = constant && input->producer() != nullptr && input->producer()->op == "constant";
  });
  return constant;
}

/// A part as a graph of its own, and what it takes from and gives to the method.
struct Outline {
  explicit Outline(const std::string& name) : graph(name) {}

  ir::Graph graph;
  std::vector<ir::Argument> inputs;
  std::vector<ir::Value*> outputs;
};

/// Copies the nodes of a part.
class Outliner {
 public:
  Outliner(const Part& part, const std::string& name)
      : part_(part), members_(part.begin(), part.end()), outline_(std::make_unique<Outline>(name)) {}

  std::unique_ptr<Outline> run() {
    for (const ir::Node* node : part_) {
      copy(*node);
    }
    for (const ir::Node* node : part_) {
      for (const auto& result : node->results()) {
        if (is_used_outside(*result)) {
          outline_->outputs.push_back(result.get());
          outline_->graph.outputs.push_back(argument(copies_.at(result.get())));
        }
      }
    }
    return std::move(outline_);
  }

 private:
  static ir::Argument argument(ir::Value* value) {
    ir::Argument out;
    out.data = value;
    return out;
  }

  void copy(const ir::Node& node) {
    std::vector<ir::Argument> args;
    for (const ir::Argument& given : node.args()) {
      args.push_back(copied(given));
    }
    ir::Node* own = outline_->graph.create_node(node.op, std::move(args));
    own->symbol = node.symbol;
    own->source = node.source;
    own->debug_handle = node.debug_handle;
    own->merged_handles = node.merged_handles;
    for (const auto& result : node.results()) {
      copies_.emplace(result.get(), own->add_result(result->name, result->type));
    }
  }

  ir::Argument copied(const ir::Argument& given) {
    if (ir::Value* value = given.value()) {
      return argument(inside(value));
    }
    const auto* list = given.as<ir::Argument::List>();
    if (list == nullptr) {
      return given;
    }
    ir::Argument out;
    ir::Argument::List items;
    for (const ir::Argument& item : *list) {
      items.push_back(copied(item));
    }
    out.data = std::move(items);
    return out;
  }

  /// The value in the part that stands for one of the method: a copy, a constant, or a new input.
  ir::Value* inside(ir::Value* value) {
    if (const auto found = copies_.find(value); found != copies_.end()) {
      return found->second;
    }
    const ir::Node* producer = value->producer();
    ir::Value* own = nullptr;
    if (producer != nullptr && producer->op == "constant") {
      ir::Node* constant = outline_->graph.create_node("constant", {});
      constant->symbol = producer->symbol;
      own = constant->add_result(value->name, value->type);
    } else if (producer != nullptr && is_dequantized_constant(*producer)) {
      copy(*producer);  // an integer weight: each part that uses it gets it as it is
      return copies_.at(value);
    } else {
      own = outline_->graph.add_input(value->name, value->type);
      outline_->inputs.push_back(argument(value));
    }
    copies_.emplace(value, own);
    return own;
  }

  bool is_used_outside(const ir::Value& value) const {
    return value.graph()->is_output(&value) ||
           std::any_of(value.users().begin(), value.users().end(),
                       [&](const ir::Node* user) { return members_.count(user) == 0; });
  }

  const Part& part_;
  std::unordered_set<const ir::Node*> members_;
  std::unique_ptr<Outline> outline_;
  std::unordered_map<const ir::Value*, ir::Value*> copies_;
};

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
                 ir::Diagnostics& diagnostics)
      : program_(program), table_(table), compilers_(compilers), diagnostics_(diagnostics) {
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
    const std::unique_ptr<Outline> outline = Outliner(part, method.name + "." + first.tag).run();
    passes::BackendPayload payload;
    const passes::BackendPart given{outline->graph, program_, spec->second.compile_specs, method.name};
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
                        ir::Diagnostics& diagnostics) {
  DelegateCutter cutter(program, table, compilers, diagnostics);
  for (const auto& method : program.methods) {
    read_sizes_at_inputs(*method);
    ET_RETURN_IF_ERROR(cutter.cut(*method, *method));
  }
  return Error::Ok;
}

}  // namespace et::delegation
