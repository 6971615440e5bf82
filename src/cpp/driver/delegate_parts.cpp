// The first half of outline_delegates.h: which nodes become one part.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "driver/outline_delegates.h"

namespace et::driver {
namespace {

/// The graph with parts as single vertices. Vertices are parts and the nodes outside of them.
class Contraction {
 public:
  explicit Contraction(const ir::Graph& graph) : graph_(graph) {}

  std::vector<std::vector<ir::Node*>> run() {
    for (const auto& node : graph_.nodes()) {
      predecessors_[node.get()] = predecessors_of(*node);
      if (!node->tag.empty()) {
        place(node.get());
      }
    }
    return std::move(parts_);
  }

 private:
  /// Nodes of this graph that `node` waits for; what its regions capture counts as its own input.
  std::vector<const ir::Node*> predecessors_of(const ir::Node& node) const {
    std::vector<const ir::Node*> out;
    collect_inputs(node, out);
    return out;
  }

  void collect_inputs(const ir::Node& node, std::vector<const ir::Node*>& out) const {
    node.for_each_input([&](ir::Value* value) { add(value, out); });
    for (const auto& region : node.regions) {
      for (const auto& inner : region->nodes()) {
        collect_inputs(*inner, out);
      }
      for (const ir::Output& output : region->outputs) {
        if (ir::Value* value = output.value()) {
          add(value, out);
        }
      }
    }
  }

  void add(const ir::Value* value, std::vector<const ir::Node*>& out) const {
    if (value->producer() != nullptr && value->graph() == &graph_) {
      out.push_back(value->producer());
    }
  }

  void place(ir::Node* node) {
    std::vector<size_t>& candidates = by_tag_[node->tag];
    for (auto candidate = candidates.rbegin(); candidate != candidates.rend(); ++candidate) {
      if (!reaches(*candidate, node)) {
        parts_[*candidate].push_back(node);
        part_of_[node] = *candidate;
        return;
      }
    }
    candidates.push_back(parts_.size());
    part_of_[node] = parts_.size();
    parts_.push_back({node});
  }

  /// True when a path leads from `part` to `node` through something outside the part: joining would close a cycle.
  bool reaches(size_t part, const ir::Node* node) const {
    std::vector<const ir::Node*> stack;
    std::unordered_set<const ir::Node*> seen;
    std::unordered_set<size_t> seen_parts;
    const auto push = [&](const ir::Node* next) {
      if (seen.insert(next).second) {
        stack.push_back(next);
      }
    };
    for (const ir::Node* predecessor : predecessors_.at(node)) {
      if (!is_in(predecessor, part)) {
        push(predecessor);
      }
    }
    while (!stack.empty()) {
      const ir::Node* current = stack.back();
      stack.pop_back();
      if (is_in(current, part)) {
        return true;
      }
      const auto own = part_of_.find(current);
      if (own == part_of_.end()) {
        for (const ir::Node* predecessor : predecessors_.at(current)) {
          push(predecessor);
        }
      } else if (seen_parts.insert(own->second).second) {  // the whole part waits for what any member waits for
        for (const ir::Node* member : parts_[own->second]) {
          for (const ir::Node* predecessor : predecessors_.at(member)) {
            push(predecessor);
          }
        }
      }
    }
    return false;
  }

  bool is_in(const ir::Node* node, size_t part) const {
    const auto own = part_of_.find(node);
    return own != part_of_.end() && own->second == part;
  }

  const ir::Graph& graph_;
  std::unordered_map<const ir::Node*, std::vector<const ir::Node*>> predecessors_;
  std::unordered_map<const ir::Node*, size_t> part_of_;
  std::map<std::string, std::vector<size_t>> by_tag_;
  std::vector<std::vector<ir::Node*>> parts_;
};

}  // namespace

std::vector<std::vector<ir::Node*>> delegate_parts(const ir::Graph& graph) { return Contraction(graph).run(); }

}  // namespace et::driver
