// The first half of outline_delegates.h: which nodes become one part.
#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "delegation/leave_conversions.h"
#include "delegation/outline_delegates.h"
#include "passes/quantized_values.h"

namespace et::delegation {
namespace {

/// A dequantize whose numbers one operator of the same backend reads, one that gives integers again. It is part of that
/// operator: apart from it, in another part or outside of all, it would be computed, and its reader would be one of
/// floats.
bool goes_with_its_reader(const ir::Node& node) {
  if (node.op != passes::kDequantizePerTensor || node.tag.empty() || node.graph()->is_output(node.result())) {
    return false;
  }
  const std::vector<ir::Node*>& readers = node.result()->users();
  return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](const ir::Node* reader) {
    return reader == readers.front() && reader->tag == node.tag && reader->graph() == node.graph() &&
           reader->results().size() == 1 && becomes_integers(reader->result());
  });
}

/// A set of parts, by number.
class PartSet {
 public:
  bool contains(size_t part) const { return part / 64 < words_.size() && (words_[part / 64] >> (part % 64) & 1) != 0; }

  void insert(size_t part) {
    words_.resize(std::max(words_.size(), part / 64 + 1));
    words_[part / 64] |= uint64_t{1} << (part % 64);
  }

  /// True when something was new.
  bool insert_all(const PartSet& other) {
    words_.resize(std::max(words_.size(), other.words_.size()));
    uint64_t added = 0;
    for (size_t i = 0; i < other.words_.size(); ++i) {
      added |= other.words_[i] & ~words_[i];
      words_[i] |= other.words_[i];
    }
    return added != 0;
  }

 private:
  std::vector<uint64_t> words_;
};

/// The graph with parts as single vertices. Vertices are parts and the nodes outside of them; each knows the parts that
/// it waits for, directly or not, so that a node is placed without a walk over the graph.
class Contraction {
 public:
  explicit Contraction(const ir::Graph& graph) : graph_(graph) {}

  std::vector<std::vector<ir::Node*>> run() {
    for (const auto& node : graph_.nodes()) {
      if (goes_with_its_reader(*node)) {
        waiting_.insert(node.get());
      } else {
        place(node.get());
      }
    }
    return std::move(parts_);
  }

 private:
  static constexpr size_t kNoPart = SIZE_MAX;

  struct Vertex {
    size_t part = kNoPart;
    PartSet waits_for;
    std::vector<size_t> successors;
  };

  /// Vertices that `node` waits for; what its regions capture counts as its own input.
  std::vector<size_t> predecessors_of(const ir::Node& node) const {
    std::vector<size_t> out;
    collect_inputs(node, out);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  void collect_inputs(const ir::Node& node, std::vector<size_t>& out) const {
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

  void add(const ir::Value* value, std::vector<size_t>& out) const {
    if (value->producer() == nullptr || value->graph() != &graph_) {
      return;
    }
    if (waiting_.count(value->producer()) != 0) {
      collect_inputs(*value->producer(), out);
    } else {
      out.push_back(vertex_of_.at(value->producer()));
    }
  }

  void place(ir::Node* node) {
    const std::vector<size_t> predecessors = predecessors_of(*node);
    PartSet waits_for;
    for (const size_t predecessor : predecessors) {
      waits_for.insert_all(vertices_[predecessor].waits_for);
    }
    // A path leads from these parts to the node through something outside of them: joining would close a cycle.
    const size_t own = node->tag.empty() ? new_vertex() : part_for(node->tag, waits_for);
    if (vertices_[own].part != kNoPart) {
      std::vector<ir::Node*>& part = parts_[vertices_[own].part];
      node->for_each_input([&](ir::Value* value) {
        if (value->producer() != nullptr && waiting_.erase(value->producer()) != 0) {
          vertex_of_[value->producer()] = own;
          part.push_back(value->producer());
        }
      });
      part.push_back(node);
    }
    for (const size_t predecessor : predecessors) {
      if (predecessor != own) {
        vertices_[predecessor].successors.push_back(own);
        if (vertices_[predecessor].part != kNoPart) {
          waits_for.insert(vertices_[predecessor].part);
        }
      }
    }
    vertex_of_[node] = own;
    if (vertices_[own].waits_for.insert_all(waits_for)) {
      tell_successors(own);
    }
  }

  /// The vertex of the part that a node with such a tag joins, the latest one that may take it, or of a new part.
  size_t part_for(const std::string& tag, const PartSet& forbidden) {
    std::vector<size_t>& candidates = vertices_by_tag_[tag];
    const auto found = std::find_if(candidates.rbegin(), candidates.rend(),
                                    [&](size_t candidate) { return !forbidden.contains(vertices_[candidate].part); });
    if (found != candidates.rend()) {
      return *found;
    }
    candidates.push_back(new_vertex());
    vertices_.back().part = parts_.size();
    parts_.emplace_back();
    return candidates.back();
  }

  size_t new_vertex() {
    vertices_.emplace_back();
    return vertices_.size() - 1;
  }

  /// What is behind a part that took a node waits for what the node waits for.
  void tell_successors(size_t changed) {
    std::vector<size_t> stack{changed};
    while (!stack.empty()) {
      const size_t current = stack.back();
      stack.pop_back();
      for (const size_t next : vertices_[current].successors) {
        if (vertices_[next].waits_for.insert_all(vertices_[current].waits_for)) {
          stack.push_back(next);
        }
      }
    }
  }

  const ir::Graph& graph_;
  std::vector<Vertex> vertices_;
  std::unordered_map<const ir::Node*, size_t> vertex_of_;
  std::unordered_map<std::string, std::vector<size_t>> vertices_by_tag_;
  std::vector<std::vector<ir::Node*>> parts_;
  std::unordered_set<const ir::Node*> waiting_;  ///< for the operator that reads them, which comes later
};

}  // namespace

std::vector<std::vector<ir::Node*>> delegate_parts(const ir::Graph& graph) { return Contraction(graph).run(); }

}  // namespace et::delegation
