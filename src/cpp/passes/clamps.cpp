#include "passes/clamps.h"

#include <algorithm>

#include "ir/literals.h"
#include "ops/names.h"
#include "ops/op_table.h"

namespace et::passes {

bool is_clamp(const ir::Node& node) { return ops::has_tag(node.op, ops::kClamps); }

std::optional<Bounds> bounds_of(const ir::Node& node) {
  if (!is_clamp(node)) {
    return std::nullopt;
  }
  Bounds bounds;
  if (node.op == op::relu) {
    bounds.min = ir::Argument{int64_t{0}};
  }
  const Span<const ops::Argument> formals = ops::find_op(node.op)->arguments;
  for (size_t i = 1; i < formals.size(); ++i) {  // min, max; hardtanh's are called min_val and max_val
    ir::Argument& bound = formals[i].name.substr(0, 3) == "min" ? bounds.min : bounds.max;
    bound = node.args()[i];
  }
  return bounds;
}

Clamp Clamp::then(const Clamp& next) const {  // what `next` makes of the ends
  return {std::clamp(min, next.min, next.max), std::clamp(max, next.min, next.max)};
}

std::optional<Clamp> clamp_of(const ir::Node& node) {
  const std::optional<Bounds> bounds = bounds_of(node);
  if (!bounds) {
    return std::nullopt;
  }
  const auto number = [](const ir::Argument& bound, double otherwise) {
    return bound.is_none() ? std::optional(otherwise) : ir::number_of(bound);
  };
  const Clamp open;
  const std::optional<double> low = number(bounds->min, open.min), high = number(bounds->max, open.max);
  return low && high && *low <= *high ? std::optional(Clamp{*low, *high}) : std::nullopt;
}

}  // namespace et::passes
