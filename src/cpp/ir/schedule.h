/// The order in which a method's nodes run once its regions are laid out in a line.
///
/// For: planning (lifetimes are intervals of steps) and emission (steps become instructions), so that both mean the
///      same order. Not for: passes, which work on the nested form.
///
///     cond %p {T} {F}      0 jump to 4 unless %p · 1 T's nodes · 2 move T's output to the result · 3 jump to 6
///     (always)
///                          4 F's nodes · 5 move F's output to the result · 6 …
///     while_loop {C} {B}   0 move initial scalars to the carried ones · 1 C's nodes · 2 jump to 6 unless C's output
///                          3 B's nodes · 4 move B's scalars to the carried ones · 5 jump to 1 (always) · 6 …
///
/// Arguments: cond (predicate, operands…), while_loop (carried…), where a list counts as its items; a region's inputs
/// are the operands in order, under another name: `resolve` says which. What regions only read they capture. A carried
/// scalar is its own value; a carried tensor is its initial value, in whose memory the body leaves the next one
/// (Value::alias_of), because moves bind and copy no data. The pass `lower-loops` gives loops that form, and turns map
/// and scan into them.
#pragma once

#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace et::ir {

/// One step: becomes one instruction, or none (constants, buffers, views).
struct Step {
  enum class Kind : uint8_t { kNode, kMove, kJumpFalse };
  Kind kind = Kind::kNode;
  const Node* node = nullptr;  ///< kNode; of moves and jumps the control-flow node they belong to
  Argument from;               ///< kMove: source; kJumpFalse: condition (literal false = always)
  const Value* to = nullptr;   ///< kMove
  size_t target = 0;           ///< kJumpFalse: step, may be the number of steps
};

/// Steps [begin, end) that may run more than once.
struct LoopRange {
  size_t begin = 0;
  size_t end = 0;
};

class Schedule {
 public:
  /// Errors: InvalidProgram, a control-flow node that does not have the form above.
  static Result<Schedule> of(const Graph& graph);

  const std::vector<Step>& steps() const { return steps_; }
  /// Inner loops before the loops around them.
  const std::vector<LoopRange>& loops() const { return loops_; }
  /// What `value` stands for: itself, or the operand that an input or a result of control flow is bound to.
  Argument resolve(Value* value) const;
  /// The same for an argument; lists are not entered.
  Argument resolve(const Argument& argument) const;

 private:
  Error add_graph(const Graph& graph);
  Error add_cond(const Node& node);
  Error add_while(const Node& node);
  void add_move(const Node& node, const Argument& from, const Value* to);
  size_t add_jump(const Node& node, Argument condition);

  std::vector<Step> steps_;
  std::vector<LoopRange> loops_;
  std::unordered_map<const Value*, Argument> bindings_;
};

}  // namespace et::ir
