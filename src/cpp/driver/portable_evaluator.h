/// PortableEvaluator: folds constants with the portable kernels.
///
/// For: the pass fold-constants, which declares what it needs (passes/constant_evaluator.h) and may not know the
/// runtime. The folded value is bit for bit what the portable kernel would compute on the device.
#pragma once

#include "passes/constant_evaluator.h"
#include "runtime/kernel.h"

namespace et::driver {

/// Threads: one at a time.
class PortableEvaluator final : public passes::ConstantEvaluator {
 public:
  /// `registry` must outlive the evaluator.
  explicit PortableEvaluator(const runtime::KernelRegistry& registry) : registry_(registry) {}

  Error evaluate(const ir::Node& node, const ir::ConstantTable& constants, std::vector<ir::Constant>* results) override;

 private:
  const runtime::KernelRegistry& registry_;
};

}  // namespace et::driver
