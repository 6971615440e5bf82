#include "ir/pattern.h"

#include <algorithm>
#include <cassert>

#include "ir/literals.h"
#include "ir/pattern_text.h"

namespace et::ir {
namespace {

using Compiled = Pattern::Compiled;

/// A term to match with an argument.
struct Goal {
  size_t term;
  Argument argument;
  int64_t rank = 0;  ///< of the tensor whose dims the argument names; negative numbers of the term count from it
};

/// What was found on the way, and what is still to be matched, the next one last.
struct State {
  std::vector<Goal> goals;
  std::vector<std::optional<Argument>> names;
  std::vector<Node*> nodes, kept;
};

bool contains(const std::vector<Node*>& nodes, const Node* node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

/// Arguments that name dims; those of a tensor of `rank` dims count from the front, one alone stands for a list of it.
bool is_dim(std::string_view name) { return name == "dim" || name == "dims" || name == "dim0" || name == "dim1"; }

Argument counted_from_front(const Argument& argument, int64_t rank) {
  if (const std::optional<int64_t> dim = int_of(argument)) {
    return {*dim < 0 ? *dim + rank : *dim};
  }
  const auto dims = ints_of(argument);
  if (!dims) {
    return argument;
  }
  Argument::List list;
  for (const int64_t dim : *dims) {
    list.push_back(counted_from_front({dim}, rank));
  }
  return list.size() == 1 ? list.front() : Argument{std::move(list)};
}

class Search {
 public:
  Search(const Compiled& pattern, const Program& program, Node& root, const Pattern::Condition& where)
      : pattern_(pattern), program_(program), graph_(*root.graph()), where_(where) {}

  std::optional<Match> run(Node& root) {
    State start;
    start.names.resize(pattern_.names.size());
    start.goals.push_back({*pattern_.names.front().definition, {root.result()}});
    start.names.front() = Argument{root.result()};
    root_ = &root;
    return solve(std::move(start)) ? std::move(found_) : std::nullopt;
  }

 private:
  /// One call of solve(), which stands in several calls of itself.
  struct Level {
    explicit Level(size_t* of) : levels(of) { ++*levels; }
    ~Level() { --*levels; }
    size_t* levels;
  };

  bool solve(State state) {
    const Level level(&levels_);
    if (levels_ > kMostLevels) {
      return false;
    }
    while (!state.goals.empty()) {
      if (++steps_ > kMostSteps) {
        return false;
      }
      const Goal goal = std::move(state.goals.back());
      state.goals.pop_back();
      const Term& term = pattern_.terms[goal.term];
      switch (term.kind) {
        case Term::Kind::kEither:
          return std::any_of(term.terms.begin(), term.terms.end(),
                             [&](size_t one) { return solve(with(state, {{one, goal.argument, goal.rank}})); });
        case Term::Kind::kCall: return call(std::move(state), goal);
        case Term::Kind::kName:
          if (!name(state, term.name, goal.argument)) {
            return false;
          }
          break;
        default:
          if (!is_literal(term, goal)) {
            return false;
          }
      }
    }
    return accept(state);
  }

  static State with(State state, std::vector<Goal> goals) {
    std::move(goals.rbegin(), goals.rend(), std::back_inserter(state.goals));
    return state;
  }

  bool is_literal(const Term& term, const Goal& goal) const {
    const auto wanted = [&](double number) {
      return number < 0 && goal.rank != 0 ? number + static_cast<double>(goal.rank) : number;
    };
    const auto list = ints_of(goal.argument);
    switch (term.kind) {
      case Term::Kind::kNone: return goal.argument.is_none();
      case Term::Kind::kNumber: {
        const std::optional<double> given =
            list && list->size() == 1 ? std::optional<double>(list->front()) : scalar_of(program_, goal.argument);
        return given == wanted(term.number);
      }
      case Term::Kind::kList:
        return list && std::equal(list->begin(), list->end(), term.list.begin(), term.list.end(),
                                  [&](int64_t given, double number) { return given == wanted(number); });
      default: return true;
    }
  }

  /// Binds a name, or compares with what it stands for. A value that is computed in the same way is the same.
  bool name(State& state, size_t index, const Argument& argument) const {
    if (pattern_.names[index].is_rule) {
      state.goals.push_back({*pattern_.names[index].definition, argument});
      return true;
    }
    std::optional<Argument>& bound = state.names[index];
    if (bound && *bound == argument) {
      return true;
    }
    const std::optional<size_t> definition = pattern_.names[index].definition;
    if (bound && !definition) {
      return false;
    }
    bound = bound ? bound : argument;
    if (definition) {
      state.goals.push_back({*definition, argument});
    }
    return true;
  }

  bool call(State state, const Goal& goal) {
    const Term& term = pattern_.terms[goal.term];
    const Value* value = goal.argument.value();
    Node* node = value == nullptr ? nullptr : value->producer();
    if (node != nullptr && node->graph() == &graph_ &&
        value->result_index() == term.result.value_or(value->result_index())) {
      const auto callee = std::find_if(term.callees.begin(), term.callees.end(), [&](const Callee& one) {
        return node->op == (one.op == nullptr ? "constant" : one.op->name);
      });
      if (callee != term.callees.end() && takes(state, goal, *callee, *node)) {
        return true;
      }
    }
    return term.count != Term::Count::kOne && solve(with(std::move(state), {{term.terms[0], goal.argument}}));
  }

  bool takes(State state, const Goal& goal, const Callee& callee, Node& node) {
    std::vector<Node*>& taken = pattern_.terms[goal.term].is_kept ? state.kept : state.nodes;
    if (!contains(taken, &node)) {
      taken.push_back(&node);
    }
    if (callee.op == nullptr) {
      return solve(std::move(state));
    }
    return (callee.order != Callee::Order::kSwapped && arguments(state, goal, *callee.op, node, false)) ||
           (callee.order != Callee::Order::kGiven && arguments(state, goal, *callee.op, node, true));
  }

  /// Matches the arguments of a node, and all that is still to be matched.
  bool arguments(const State& state, const Goal& goal, const ops::OpInfo& op, const Node& node, bool swaps) {
    const Term& term = pattern_.terms[goal.term];
    std::vector<Goal> goals;
    size_t written = 0;
    const size_t count = std::min<size_t>(op.arguments.size(), node.args().size());
    for (size_t i = 0; i < count; ++i) {
      const ops::Argument& formal = op.arguments[i];
      const size_t at = swaps && i < 2 ? 1 - i : i;
      const std::optional<size_t> wanted = term_for(term, formal.name, i);
      const Argument& given = node.args()[at];
      if (!wanted) {
        if (!term.is_open && formal.has_default() && !is_default(given, formal.default_text)) {
          return false;
        }
        continue;
      }
      ++written;
      const bool again = i == 0 && term.count == Term::Count::kMany;
      const int64_t rank = is_dim(formal.name) ? rank_of(node) : 0;
      goals.push_back({again ? goal.term : *wanted, rank == 0 ? given : counted_from_front(given, rank), rank});
    }
    return written == term.terms.size() && solve(with(state, std::move(goals)));
  }

  static std::optional<size_t> term_for(const Term& call, std::string_view name, size_t position) {
    for (size_t i = 0; i < call.terms.size(); ++i) {
      if (call.argument_names[i].empty() ? i == position : call.argument_names[i] == name) {
        return call.terms[i];
      }
    }
    return std::nullopt;
  }

  static int64_t rank_of(const Node& node) {
    const Value* self = node.args()[0].value();
    return self != nullptr && self->type.is_tensor() ? static_cast<int64_t>(self->type.tensor.rank()) : 0;
  }

  bool accept(const State& state) {
    const auto is_read_inside = [&](const Node* node) {
      return std::all_of(node->results().begin(), node->results().end(), [&](const auto& result) {
        const auto& users = result->users();
        return !graph_.is_output(result.get()) && std::all_of(users.begin(), users.end(), [&](const Node* user) {
          return contains(state.nodes, user) || contains(state.kept, user);
        });
      });
    };
    if (state.nodes.empty() || state.nodes.front() != root_ ||
        !std::all_of(state.nodes.begin() + 1, state.nodes.end(), is_read_inside)) {
      return false;
    }
    Match match;
    match.nodes = state.nodes;
    match.kept = state.kept;
    for (size_t i = 0; i < state.names.size(); ++i) {
      match.captures.emplace_back(pattern_.names[i].text, state.names[i].value_or(Argument{}));
    }
    if (where_ != nullptr && !where_(match)) {
      return false;
    }
    found_ = std::move(match);
    return true;
  }

  /// Terms that are tried before the search gives up: sums of sums can be read in as many ways as there are subsets.
  /// Matches of the passes take some hundred.
  static constexpr size_t kMostSteps = 4096;
  /// Calls of solve() inside each other, two for a node of a chain: a thread of a caller may have half a MiB of stack.
  static constexpr size_t kMostLevels = 256;

  const Compiled& pattern_;
  const Program& program_;
  const Graph& graph_;
  const Pattern::Condition& where_;
  const Node* root_ = nullptr;
  size_t steps_ = 0, levels_ = 0;
  std::optional<Match> found_;
};

/// Whether a term may be made by a node of this operator: what rules most nodes out at once.
bool may_be(const Compiled& pattern, size_t index, std::string_view op) {
  const Term& term = pattern.terms[index];
  if (term.kind == Term::Kind::kEither) {
    return std::any_of(term.terms.begin(), term.terms.end(), [&](size_t one) { return may_be(pattern, one, op); });
  }
  if (term.kind == Term::Kind::kName) {
    const std::optional<size_t> definition = pattern.names[term.name].definition;
    return !definition || may_be(pattern, *definition, op);
  }
  return term.kind == Term::Kind::kCall &&
         ((term.count != Term::Count::kOne && may_be(pattern, term.terms[0], op)) ||
          std::any_of(term.callees.begin(), term.callees.end(),
                      [&](const Callee& callee) { return callee.op != nullptr && callee.op->name == op; }));
}

}  // namespace

const Argument& Match::operator[](std::string_view name) const {
  static const Argument kNone;
  const auto found =
      std::find_if(captures.begin(), captures.end(), [&](const auto& capture) { return capture.first == name; });
  assert(found != captures.end());
  return found == captures.end() ? kNone : found->second;
}

Node* Match::node(std::string_view name) const {
  const Value* found = value(name);
  return found == nullptr ? nullptr : found->producer();
}

bool Match::has(const Node* node) const { return contains(nodes, node); }

const Compiled& Pattern::compiled() const {
  std::call_once(once_, [&] { compiled_ = std::make_shared<const Compiled>(compile(text_)); });
  return *compiled_;
}

const std::string& Pattern::error() const { return compiled().error; }

std::optional<Match> Pattern::match(Node& root, const Program& program, const Condition& where) const {
  const Compiled& pattern = compiled();
  assert(pattern.error.empty());
  if (!pattern.error.empty() || root.results().empty() ||
      !may_be(pattern, *pattern.names.front().definition, root.op)) {
    return std::nullopt;
  }
  return Search(pattern, program, root, where).run(root);
}

std::optional<Match> Pattern::match_producer(const Argument& argument, const Program& program,
                                             const Condition& where) const {
  const Value* value = argument.value();
  const bool is_made = value != nullptr && value->producer() != nullptr && value->result_index() == 0;
  return is_made ? match(*value->producer(), program, where) : std::nullopt;
}

}  // namespace et::ir
