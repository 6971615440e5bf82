/// A ConstantEvaluator for tests: f32 permute_copy, mul.Tensor of equal shapes or of a row and a column and full. The
/// real one is driver's.
#pragma once

#include "passes/constant_evaluator.h"

namespace et::passes {

class TestEvaluator final : public ConstantEvaluator {
 public:
  Error evaluate(const ir::Node& node, const ir::ConstantTable& constants, std::vector<ir::Constant>* results) override;
};

}  // namespace et::passes
