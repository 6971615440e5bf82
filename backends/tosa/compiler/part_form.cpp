#include "backends/tosa/compiler/part_form.h"

#include <iterator>

#include "ir/copy.h"
#include "passes/pass_manager.h"

namespace et::backends::tosa::compiler {
namespace {

constexpr std::string_view kPasses[] = {
    "eliminate-no-ops",    "fold-constants",           "fold-conv-batch-norm", "drop-unused-results",
    "fuse-linear",         "fold-quantize-dequantize", "propagate-dequantize", "fold-quantize-dequantize",
    "fold-constants",      "fuse-quantized",           "fold-constants",       "eliminate-common-subexpressions",
    "eliminate-dead-code",
};

}  // namespace

Error make_part_form(const passes::BackendPart& part, PartForm& out, ir::Diagnostics& diagnostics) {
  out.program.constants = part.program.constants;
  out.program.methods.push_back(ir::copy_graph(part.graph));
  passes::PassContext context{out.program, diagnostics};
  context.evaluator = part.evaluator;
  context.tabulate_16_bits = true;
  return passes::PassManager().run(Span<const std::string_view>(kPasses, std::size(kPasses)), out.program, context);
}

}  // namespace et::backends::tosa::compiler
