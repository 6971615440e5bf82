/// Registers the compiler half of the delegate.
#include <algorithm>

#include "backends/xnnpack/compiler/lowering.h"
#include "backends/xnnpack/compiler/op_support.h"
#include "backends/xnnpack/costs/costs.h"

namespace et::backends::xnnpack {
namespace {

class XnnpackCompiler final : public passes::BackendCompiler {
 public:
  std::string_view backend_id() const override { return "XnnpackBackend"; }

  Error preprocess(const passes::BackendPart& part, passes::BackendPayload& payload,
                   ir::Diagnostics& diagnostics) override {
    return Lowering(part, diagnostics).run(payload);
  }

  std::string refusal(const ir::Node& node, const ir::Program& program,
                      const std::vector<ir::Delegate::CompileSpec>& specs) override {
    return refusal_of(node, program, read_options(specs));
  }

  /// A call costs about as much as a small kernel: parts of elementwise operators and views alone are better left.
  passes::Offer offer(Span<ir::Node* const> part) override {
    const bool heavy = std::any_of(part.begin(), part.end(), [](const ir::Node* node) {
      const OperatorRow* row = find_operator(node->op);
      return row != nullptr && row->is_heavy;
    });
    return {heavy ? "" : "its part would hold no product, pooling or resize and is not worth a call", &kCosts};
  }
};

}  // namespace

Error register_compiler(passes::BackendCompilers& compilers) {
  static XnnpackCompiler compiler;
  return compilers.add(compiler);
}

}  // namespace et::backends::xnnpack
