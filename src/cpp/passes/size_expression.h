/// The number that a symbolic size is at run time, as an argument: for passes that make memory of such a size.
///
/// For: lower-loops. Not for: sizes that an operator computes itself, which are most.
///
///     const std::optional<ir::Argument> rows = size_argument(ir::Dim("2*s0 + 1", 3, 17), before);
///     // %size = aten::sym_size.int(%x, 0)             // some value before `before` has the size s0
///     // %part = executorch_prim::mul.Scalar(2, %size)
///     // %sum = executorch_prim::add.Scalar(%part, 1)  // *rows is %sum
#pragma once

#include <optional>

#include "ir/graph.h"

namespace et::passes {

/// A literal for a constant; else a number that is there already, or one that new nodes before `before` compute from
/// the sizes of values that are visible there. Nothing when the expression has a symbol that no such value has as a
/// size.
std::optional<ir::Argument> size_argument(const ir::Dim& dim, ir::Node& before);

}  // namespace et::passes
