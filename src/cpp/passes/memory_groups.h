/// Which values share memory, and until when that memory is read: for passes that let values share more of it.
///
/// A group is a root (Value::root) and its aliases. Positions count the nodes of one graph; what happens in a region
/// happens at the node that the region belongs to.
///
/// For: remove-views, insert-write-backs, reuse-in-place. Not for: placing (planning/lifetimes.h).
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"

namespace et::passes {

/// True when `value` may lie in the memory of one of `roots`: it is an alias, or a result of control flow whose
/// operands or branches' outputs may.
bool may_share_memory(const ir::Value* value, const std::vector<ir::Value*>& roots);

class MemoryGroups {
 public:
  explicit MemoryGroups(const ir::Graph& graph);

  /// Position of a node of this graph, or of the node of this graph that it is inside of.
  size_t position(const ir::Node* node) const;
  /// Position of the last node that reads a value of the group; 0 when there is none (positions count from 1).
  size_t last_use(const ir::Value* value) const;
  /// The graph, or a region in it, returns a value of the group or writes it back, or control flow takes it as an
  /// operand (and may return it). Its memory is read after its last use.
  bool is_returned(const ir::Value* value) const;
  /// Makes `value` an alias of `target` and joins the groups.
  void make_alias(ir::Value* value, ir::Value* target);

 private:
  struct Group {
    size_t last_use = 0;
    bool is_returned = false;
  };

  void add(const ir::Value* value);

  const ir::Graph& graph_;
  std::unordered_map<const ir::Node*, size_t> positions_;
  std::unordered_map<const ir::Value*, Group> groups_;  ///< by root
};

}  // namespace et::passes
