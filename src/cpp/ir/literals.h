/// Numbers that arguments say: literals, and constants of rank 0.
///
/// For: patterns (pattern.h) and passes. Not for: elements of larger constants.
///
///     const std::optional<double> eps = scalar_of(program, node.args()[2]);   // 1e-5, or @eps : f32[] with data
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace et::ir {

/// The literal integers of a list; nothing when an element is a value or another thing.
std::optional<std::vector<int64_t>> ints_of(const Argument& argument);
/// A literal integer, or a bool as 0 or 1.
std::optional<int64_t> int_of(const Argument& argument);
/// A literal int, double or bool as a double.
std::optional<double> number_of(const Argument& argument);
/// Whether a literal is what a schema's default says ("1", "True", "None").
bool is_default(const Argument& argument, std::string_view text);

/// The entry that `value` stands for when a `constant` node made it and its data are there; nullptr otherwise.
const Constant* constant_of(const Program& program, const Value* value);
/// The same for an argument.
const Constant* constant_of(const Program& program, const Argument& argument);
/// The number that an argument is: a literal, or a constant tensor of rank 0.
std::optional<double> scalar_of(const Program& program, const Argument& argument);

}  // namespace et::ir
