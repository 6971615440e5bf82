#include "backends/tosa/compiler/part_form.h"

#include <iterator>

#include "backends/tosa/compiler/op_support.h"
#include "ir/copy.h"
#include "passes/pass_manager.h"

namespace et::backends::tosa::compiler {
namespace {

/// Dead code goes before equal code: what only operators read that are integers now is not what others read as floats.
constexpr std::string_view kPasses[] = {
    "eliminate-no-ops",
    "fold-constants",
    "fold-conv-batch-norm",
    "drop-unused-results",
    "fuse-linear",
    "fold-quantize-dequantize",
    "propagate-dequantize",
    "fold-quantize-dequantize",
    "fold-constants",
    "fuse-quantized",
    "fold-constants",
    "eliminate-dead-code",
    "eliminate-common-subexpressions",
};

/// Of the profile FP: operators stay what they are.
constexpr std::string_view kFloatPasses[] = {
    "eliminate-no-ops",
    "fold-constants",
    "fold-conv-batch-norm",
    "drop-unused-results",
    "fuse-linear",
    "fold-constants",
    "eliminate-common-subexpressions",
    "eliminate-dead-code",
};

}  // namespace

Error make_part_form(const passes::BackendPart& part, PartForm& out, ir::Diagnostics& diagnostics) {
  out.program.constants = part.program.constants;
  out.program.methods.push_back(ir::copy_graph(part.graph));
  passes::PassContext context{out.program, diagnostics};
  context.evaluator = part.evaluator;
  context.tabulate_16_bits = true;
  const Span<const std::string_view> integers(kPasses, std::size(kPasses)),
      floats(kFloatPasses, std::size(kFloatPasses));
  return passes::PassManager().run(read_target(part.compile_specs).floats ? floats : integers, out.program, context);
}

}  // namespace et::backends::tosa::compiler
