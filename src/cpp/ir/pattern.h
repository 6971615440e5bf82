/// Pattern: several nodes that compute one thing, written as the formula that they compute.
///
/// For: passes, delegation and backends that look for more than one node. Not for: one operator (compare Node::op), nor
/// for sums and products in any grouping (recognise_activations.cpp compares those as polynomials).
///
///     const Pattern kSoftmax = R"(
///       softmax = div(e, sum(e, dim, keepdim=1))
///       e = exp(sub(x, amax(x, dim, keepdim=1) | max(x, dim, keepdim=1)))
///     )";
///     if (const std::optional<Match> m = kSoftmax.match(node, program)) m->value("x");
///
/// The first definition is the root; it is matched against the result of the node. A term is
///
///     x               a capture: any argument, the same at each place. A defined name is matched by its definition
///     _               any argument
///     2  -0.5  inf    a number: a literal, a bool as 0 or 1, or a constant of rank 0
///     none  [1, 0]    no argument; a list of numbers. One number also stands for a list of it alone
///     exp(x)          a node of an operator: all its overloads, and its copying form (view, view_copy)
///     max.dim(x, …)   only this overload. Other name spaces are written: et::lstm_gates(x, c)
///     split(x, 2)#1   result 1 of a node; #_ any result; without it, result 0
///     cast?(x, ...)   the node, or x itself where it is not there. view*(x): any number of such nodes
///     a | b           either; the first one that leads to a match
///     STEPS           in capitals, a name stands for its definition each time anew: STEPS = view(STEPS, _) | exp(x)
///     &f(x)           a node that others may read and that is no part of the match
///
/// Arguments stand in the order of the operator's schema or by name (keepdim=1). One that is not written has its
/// default, and any value where it has none or `...` ends the list. A number for a dim counts from the front or from
/// the back. The operands of add, mul, maximum and minimum match in both orders, and sub(a, b) also matches rsub(b, a).
/// `cast`, `quantize`, `dequantize` and `constant` are families of operators (pattern_text.cpp).
///
/// A match is closed: nodes outside of it read the results of its root and of nodes with & only. All nodes stand in one
/// graph. Tags and types are the caller's: `where` refuses a match, and the next one is tried.
///
/// Place: compiled at the first match; the text is data, so that tables of patterns need no initialisation.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace et::ir {

/// What a pattern found. Nodes and values are the graph's.
class Match {
 public:
  /// The argument that a name stands for; no argument (Argument::None) where its part of the pattern is not there.
  const Argument& operator[](std::string_view name) const;
  /// The same as a value; nullptr when it is a literal or not there.
  Value* value(std::string_view name) const { return (*this)[name].value(); }
  /// The node that made the value; nullptr for inputs, and when there is no value.
  Node* node(std::string_view name) const;

  Node* root() const { return nodes.front(); }
  bool has(const Node* node) const;

  std::vector<Node*> nodes;  ///< of the pattern without those with &, each once, the root first
  std::vector<Node*> kept;   ///< those with &, each once
  std::vector<std::pair<std::string_view, Argument>> captures;
};

/// See above.
class Pattern {
 public:
  using Condition = std::function<bool(const Match&)>;

  /// `text` must outlive the pattern.
  constexpr Pattern(const char* text) : text_(text) {}  // NOLINT(google-explicit-constructor): tables of texts

  /// The first match at `root` that `where` accepts. Cost: terms of the pattern, and twice what is below for a
  /// commutative node that does not fit at once. A search gives up after a fixed number of steps, and at a depth that
  /// half a MiB of stack holds.
  std::optional<Match> match(Node& root, const Program& program, const Condition& where = nullptr) const;
  /// The same at the node whose first result the argument is.
  std::optional<Match> match_producer(const Argument& argument, const Program& program,
                                      const Condition& where = nullptr) const;

  /// What is wrong with the text, empty when nothing is. A pattern with an error matches nothing.
  const std::string& error() const;

  struct Compiled;

 private:
  const Compiled& compiled() const;

  const char* text_;
  mutable std::once_flag once_;
  mutable std::shared_ptr<const Compiled> compiled_;
};

}  // namespace et::ir
