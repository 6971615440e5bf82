/// ConstantEvaluator: runs one operator on constants at compile time.
///
/// For: the pass fold-constants. passes/ may not include the runtime, so it declares what it needs and driver/
/// implements it with the portable kernels.
#pragma once

#include <vector>

#include "base/error.h"
#include "ir/graph.h"

namespace et::passes {

class ConstantEvaluator {
 public:
  virtual ~ConstantEvaluator() = default;
  /// Computes `node` (Stage::kEdge, an operator of the table), whose tensor arguments are all results of `constant`
  /// nodes that have data in `constants`. Appends one constant for each result, with the result's type.
  ///
  /// Errors: NotSupported     no kernel for the operator and dtypes; the pass leaves the node alone.
  ///         any other        the kernel's; the pass leaves the node alone, so that the same error comes at run time.
  /// Memory: the results own their data through keep_alive.
  virtual Error evaluate(const ir::Node& node, const ir::ConstantTable& constants,
                         std::vector<ir::Constant>* results) = 0;
};

}  // namespace et::passes
