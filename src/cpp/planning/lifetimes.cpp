#include "planning/lifetimes.h"

#include <algorithm>
#include <unordered_map>

#include "base/log.h"
#include "ir/schedule.h"
#include "planning/overlapping_results.h"

namespace et::planning {
namespace {

using ir::Value;

constexpr uint32_t kNever = UINT32_MAX;

/// Values that share memory, while they are being found.
struct Group {
  uint32_t first = kNever;
  uint32_t last = 0;
  uint32_t accesses = 0;
  bool is_constant = false;
  bool is_input = false;
  bool is_output = false;
  bool is_bound_only = false;  ///< nothing but a result that moves bind
  const ir::Node* buffer = nullptr;
  std::vector<Value*> values;

  void touch(uint32_t time) {
    first = first == kNever ? time : std::min(first, time);
    last = std::max(last, time);
    ++accesses;
  }
};

/// Disjoint sets of values, with the facts about each set.
class Groups {
 public:
  /// Index of the set of `value`, which is made when it is new. Only for tensors.
  size_t of(Value* value) {
    const auto [entry, is_new] = index_.emplace(value, parents_.size());
    if (is_new) {
      parents_.push_back(parents_.size());
      groups_.emplace_back();
      groups_.back().values.push_back(value);
    }
    return find(entry->second);
  }
  Group& at(size_t index) { return groups_[find(index)]; }
  Group& group(Value* value) { return groups_[of(value)]; }

  void merge(size_t a, size_t b) {
    a = find(a);
    b = find(b);
    if (a == b) {
      return;
    }
    if (b < a) {
      std::swap(a, b);
    }
    parents_[b] = a;
    Group& to = groups_[a];
    Group& from = groups_[b];
    if (from.first != kNever) {
      to.first = std::min(to.first, from.first);
      to.last = std::max(to.last, from.last);
    }
    to.accesses += from.accesses;
    to.is_constant |= from.is_constant;
    to.is_input |= from.is_input;
    to.is_output |= from.is_output;
    to.is_bound_only &= from.is_bound_only;
    to.buffer = to.buffer != nullptr ? to.buffer : from.buffer;
    to.values.insert(to.values.end(), from.values.begin(), from.values.end());
    from.values.clear();
  }

  size_t size() const { return parents_.size(); }
  bool is_root(size_t index) const { return parents_[index] == index; }

 private:
  size_t find(size_t index) {
    while (parents_[index] != index) {
      parents_[index] = parents_[parents_[index]];
      index = parents_[index];
    }
    return index;
  }

  std::unordered_map<const Value*, size_t> index_;
  std::vector<size_t> parents_;
  std::vector<Group> groups_;
};

/// A move between tensors: `to` is a result of control flow.
struct Move {
  Value* from;
  Value* to;
};

/// A node whose result may overlap one of its inputs, if both live as is needed.
struct Candidate {
  const ir::Node* node;
  uint32_t time;
  OverlappingResult found;
};

class Analysis {
 public:
  Analysis(const ir::Graph& graph, const LifetimeOptions& options, const ir::Schedule& schedule)
      : graph_(graph),
        options_(options),
        schedule_(schedule),
        end_(static_cast<uint32_t>(schedule.steps().size()) + 1) {}

  Result<Lifetimes> run() {
    visit_inputs();
    for (size_t i = 0; i < schedule_.steps().size(); ++i) {
      visit_step(schedule_.steps()[i], static_cast<uint32_t>(i) + 1);
    }
    visit_outputs();
    bind_names(graph_);
    merge_branches();
    extend();
    return collect();
  }

 private:
  /// The tensor that `argument` stands for once names of operands are resolved, or nullptr.
  Value* tensor_of(const ir::Argument& argument) const {
    Value* value = schedule_.resolve(argument).value();
    return value != nullptr && value->type.is_tensor() ? value : nullptr;
  }

  void touch(const ir::Argument& argument, uint32_t time) {
    if (Value* value = tensor_of(argument)) {
      groups_.group(value).touch(time);
    }
  }

  /// Puts a value that is defined now into its set: its own, or that of what it aliases or is bound to.
  size_t define(Value* value) {
    const size_t own = groups_.of(value);
    if (Value* base = tensor_of(ir::Argument{value}); base != nullptr && base != value) {
      groups_.merge(groups_.of(base), own);
    }
    if (value->alias_of != nullptr) {
      if (Value* base = tensor_of(ir::Argument{value->alias_of})) {
        groups_.merge(groups_.of(base), own);
      }
    }
    return groups_.of(value);
  }

  void visit_inputs() {
    for (const auto& input : graph_.inputs()) {
      if (input->type.is_tensor()) {
        Group& group = groups_.group(input.get());
        group.is_input = true;
        group.touch(0);
      }
    }
  }

  void visit_step(const ir::Step& step, uint32_t time) {
    switch (step.kind) {
      case ir::Step::Kind::kMove: {
        Value* to = const_cast<Value*>(step.to);
        if (!to->type.is_tensor()) {
          return;
        }
        Group& group = groups_.group(to);
        if (group.first == kNever && group.values.size() == 1) {
          group.is_bound_only = true;
        }
        group.touch(time);
        touch(step.from, time);
        if (Value* from = tensor_of(step.from)) {
          moves_.push_back({from, to});
        }
        return;
      }
      case ir::Step::Kind::kJumpFalse: touch(step.from, time); return;
      case ir::Step::Kind::kNode: visit_node(*step.node, time); return;
    }
  }

  void visit_node(const ir::Node& node, uint32_t time) {
    const bool is_constant = node.op == "constant";
    const bool is_buffer = node.op == "buffer";
    node.for_each_input([&](Value* value) { touch(ir::Argument{value}, time); });
    for (const auto& result : node.results()) {
      if (!result->type.is_tensor()) {
        continue;
      }
      const size_t index = define(result.get());
      Group& group = groups_.at(index);
      if (is_constant) {
        group.is_constant = true;
      } else if (is_buffer) {
        group.buffer = &node;
        group.touch(0);
        group.touch(end_);
      } else {
        group.touch(time);
      }
    }
    if (options_.overlap_inputs && node.results().size() == 1) {
      if (const auto found = overlapping_result(node)) {
        candidates_.push_back({&node, time, *found});
      }
    }
  }

  void visit_outputs() {
    for (const ir::Output& output : graph_.outputs) {
      if (Value* value = tensor_of(output)) {
        Group& group = groups_.group(value);
        group.touch(end_);
        group.is_output = true;
      }
    }
    for (const ir::Write& write : graph_.writes) {
      touch(ir::Argument{write.value}, end_);
    }
  }

  /// Inputs of regions and results of loops are other names of values: they lie where those do.
  void bind_names(const ir::Graph& graph) {
    for (const auto& node : graph.nodes()) {
      for (const auto& region : node->regions) {
        for (const auto& input : region->inputs()) {
          if (input->type.is_tensor()) {
            define(input.get());
          }
        }
        bind_names(*region);
      }
      for (const auto& result : node->results()) {
        if (!node->regions.empty() && result->type.is_tensor()) {
          define(result.get());
        }
      }
    }
  }

  /// Only one branch runs, so the two sources of a result can share memory, and the result has it too.
  void merge_branches() {
    std::unordered_map<Value*, Value*> first_source;
    std::vector<Value*> used;
    for (const Move& move : moves_) {
      const auto [entry, is_new] = first_source.emplace(move.to, move.from);
      if (is_new) {
        continue;
      }
      const size_t a = groups_.of(entry->second);
      const size_t b = groups_.of(move.from);
      if (a == b || !is_mergeable(a, move.to) || !is_mergeable(b, move.to) || contains(used, groups_.at(a).values) ||
          contains(used, groups_.at(b).values)) {
        continue;
      }
      groups_.merge(a, b);
      used.push_back(move.from);
      used.push_back(entry->second);
    }
  }

  static bool contains(const std::vector<Value*>& list, const std::vector<Value*>& items) {
    return std::any_of(items.begin(), items.end(),
                       [&](Value* item) { return std::find(list.begin(), list.end(), item) != list.end(); });
  }

  /// True when every value of the set is made inside a branch of the node that makes `result`.
  bool is_mergeable(size_t index, const Value* result) {
    const Group& group = groups_.at(index);
    if (group.is_constant || group.is_input || group.buffer != nullptr || group.is_bound_only) {
      return false;
    }
    return std::all_of(group.values.begin(), group.values.end(), [&](const Value* value) {
      for (const ir::Graph* scope = value->graph(); scope != nullptr && scope->owner != nullptr;
           scope = scope->owner->graph()) {
        if (scope->owner == result->producer()) {
          return value->producer() != nullptr;
        }
      }
      return false;
    });
  }

  /// Loops and moves lengthen lives; each may lengthen another, so until nothing changes.
  void extend() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Move& move : moves_) {
        Group& from = groups_.group(move.from);
        const Group& to = groups_.group(move.to);
        if (from.last < to.last) {
          from.last = to.last;
          changed = true;
        }
      }
      for (const ir::LoopRange& loop : schedule_.loops()) {
        const uint32_t begin = static_cast<uint32_t>(loop.begin) + 1;
        const uint32_t end = static_cast<uint32_t>(loop.end);
        for (size_t i = 0; i < groups_.size(); ++i) {
          if (!groups_.is_root(i)) {
            continue;
          }
          Group& group = groups_.at(i);
          if (group.first < begin && group.last >= begin && group.last < end) {
            group.last = end;
            changed = true;
          }
        }
      }
    }
  }

  Result<Lifetimes> collect() {
    Lifetimes out;
    out.num_steps = end_ - 1;
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (!groups_.is_root(i)) {
        continue;
      }
      Group& group = groups_.at(i);
      if (group.is_constant || group.first == kNever) {
        continue;
      }
      if (group.is_bound_only) {
        continue;  // below
      }
      const bool is_unused = group.accesses == 1 && !group.is_output;  // no place that others could share: no copy
      if (group.is_input && (!options_.plan_inputs || is_unused)) {
        continue;
      }
      if (group.is_output && !options_.plan_outputs && !group.is_input && group.buffer == nullptr) {
        ET_CHECK_OR_RETURN(group.values.size() == 1, InvalidArgument,
                           "output %%%s of %s is not planned, but %%%s shares its memory",
                           group.values[0]->name.c_str(), graph_.name.c_str(), group.values[1]->name.c_str());
        continue;
      }
      Lifetime life;
      life.first = group.first;
      life.last = group.last;
      life.accesses = group.accesses;
      life.buffer = group.buffer;
      bool bounded = true;
      for (Value* value : group.values) {
        const int64_t nbytes = value->type.tensor.max_nbytes();
        bounded = bounded && nbytes != ir::kUnbounded;
        life.nbytes = std::max(life.nbytes, static_cast<uint64_t>(nbytes));
        life.memory_id = std::max(life.memory_id, value->allocation.memory_id);
      }
      if (!bounded) {
        continue;  // memory comes from the caller's allocator at run time
      }
      const bool is_end = group.is_input != group.is_output && group.values.size() == 1;
      life.is_input = is_end && group.is_input;
      life.is_output = is_end && group.is_output;
      life.values = std::move(group.values);
      out.planned.push_back(std::move(life));
    }
    collect_bound(out);
    collect_overlaps(out);
    out.max_live_nbytes = max_live_nbytes(out.planned);
    return out;
  }

  void collect_bound(Lifetimes& out) {
    std::unordered_map<const Value*, Value*> place;
    for (const Lifetime& life : out.planned) {
      for (Value* value : life.values) {
        place.emplace(value, life.values.front());
      }
    }
    // A source may be a bound result of an inner node, which stands earlier in the order of moves.
    for (const Move& move : moves_) {
      if (!groups_.group(move.to).is_bound_only) {
        continue;
      }
      const auto found = place.find(move.from);
      auto entry = std::find_if(out.bound.begin(), out.bound.end(), [&](const auto& b) { return b.first == move.to; });
      if (entry == out.bound.end()) {
        out.bound.emplace_back(move.to, nullptr);
        entry = out.bound.end() - 1;
      }
      if (entry->second == nullptr && found != place.end()) {
        entry->second = found->second;
        place.emplace(move.to, found->second);
      }
    }
  }

  /// None in methods with control flow: where a moved tensor lies is known when it is read, not at load.
  void collect_overlaps(Lifetimes& out) {
    if (std::any_of(schedule_.steps().begin(), schedule_.steps().end(),
                    [](const ir::Step& step) { return step.kind != ir::Step::Kind::kNode; })) {
      return;
    }
    std::unordered_map<size_t, uint32_t> index_of;
    for (size_t i = 0; i < out.planned.size(); ++i) {
      index_of.emplace(groups_.of(out.planned[i].values.front()), static_cast<uint32_t>(i));
    }
    for (const Candidate& candidate : candidates_) {
      const size_t result = groups_.of(candidate.node->result());
      const Value* const value = tensor_of(ir::Argument{const_cast<Value*>(candidate.found.input)});
      const size_t input = groups_.of(const_cast<Value*>(value));
      if (input == result || index_of.count(input) == 0 || index_of.count(result) == 0) {
        continue;
      }
      size_t num_read = 0;  // arguments in the memory of the input
      candidate.node->for_each_input([&](Value* other) {
        Value* const resolved = tensor_of(ir::Argument{other});
        num_read += resolved != nullptr && groups_.of(resolved) == input ? 1 : 0;
      });
      const Lifetime& from = out.planned[index_of[input]];
      Lifetime& to = out.planned[index_of[result]];
      if (num_read == 1 && from.last == candidate.time && to.first == candidate.time && has_fixed_place(from) &&
          has_fixed_place(to)) {
        to.over = {index_of[input], static_cast<uint64_t>(candidate.found.least.in_front),
                   static_cast<uint64_t>(candidate.found.least.behind)};
      }
    }
  }

  /// No state, and no view whose sizes are known at run time.
  static bool has_fixed_place(const Lifetime& life) {
    return life.buffer == nullptr && std::all_of(life.values.begin(), life.values.end(),
                                                 [](const Value* value) { return value->type.tensor.is_static(); });
  }

  const ir::Graph& graph_;
  const LifetimeOptions& options_;
  const ir::Schedule& schedule_;
  const uint32_t end_;
  Groups groups_;
  std::vector<Move> moves_;
  std::vector<Candidate> candidates_;
};

}  // namespace

Result<Lifetimes> compute_lifetimes(const ir::Graph& graph, const LifetimeOptions& options) {
  ET_TRY(const ir::Schedule schedule, ir::Schedule::of(graph));
  return Analysis(graph, options, schedule).run();
}

uint64_t max_live_nbytes(const std::vector<Lifetime>& lifetimes) {
  struct Event {
    uint32_t time;
    bool is_end;
    uint64_t nbytes;
  };
  std::vector<Event> events;
  events.reserve(2 * lifetimes.size());
  for (const Lifetime& life : lifetimes) {
    events.push_back({life.first, false, life.nbytes});
    events.push_back({life.last + 1, true, life.nbytes});
    if (life.over.input != Overlap::kNone) {  // at that one time both take less
      const uint64_t apart = lifetimes[life.over.input].nbytes + life.nbytes;
      const uint64_t saved = apart - std::min(apart, life.over.nbytes(apart - life.nbytes, life.nbytes));
      events.push_back({life.first, true, saved});
      events.push_back({life.first + 1, false, saved});
    }
  }
  std::sort(events.begin(), events.end(),
            [](const Event& a, const Event& b) { return a.time != b.time ? a.time < b.time : a.is_end && !b.is_end; });
  int64_t live = 0;  // less than it is while the events of one time are not all counted
  int64_t most = 0;
  for (const Event& event : events) {
    live += event.is_end ? -static_cast<int64_t>(event.nbytes) : static_cast<int64_t>(event.nbytes);
    most = std::max(most, live);
  }
  return static_cast<uint64_t>(most);
}

}  // namespace et::planning
