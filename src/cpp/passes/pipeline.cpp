#include "passes/pipeline.h"

#include <set>
#include <string>

namespace et::passes {
namespace {

constexpr std::string_view kBeforeCut[] = {
    "canonicalise-dim-order",    // first: what follows compares types, and they shall not differ by order alone
    "quantize-borders",          // before delegation, so that a backend sees integers come and go
    "eliminate-no-ops",          // copies and views hide equal and constant expressions
    "fold-constants",            // before CSE: folded subgraphs need no comparing
    "fold-conv-batch-norm",      // before delegation, so that a backend gets one convolution; needs folded constants
    "fold-quantize-dequantize",  // before delegation, so that a backend sees integers pass on
    "eliminate-common-subexpressions",  // after folding has made constants of what fed them
    "eliminate-dead-code",              // before delegation: a delegate shall not compute what nobody reads
};

constexpr std::string_view kAfterCut[] = {
    "eliminate-no-ops",          // delegation leaves copies at its borders
    "drop-unused-results",       // before fusion, so that it finds the operators that we have fast kernels for
    "recognise-activations",     // before anything rewrites the arithmetic that they are made of
    "recognise-norms",           // the same; before fuse-attention, which looks for softmax
    "fuse-attention",            // before anything rewrites the products that it is made of
    "fuse-linear",               // before fuse-activation, which knows linear; leaves transposes to fold-constants
    "propagate-dequantize",      // before fuse-quantized, so that q/dq pairs stand next to what computes
    "fold-quantize-dequantize",  // pairs that met
    "fold-constants",            // integer weights that were moved
    "fuse-lstm-gates",           // before fuse-quantized, which makes tables of activations
    "fuse-gru-gates",            // the same
    "fuse-quantized",            // before fuse-activation: clamps become ranges of integers
    "eliminate-dead-code",       // before fuse-recurrent-steps: splits of integers that nobody reads any more
    "fuse-recurrent-steps",      // after fuse-quantized, which makes the steps' products
    "fuse-activation",           // before lift-scalars: bounds stay numbers
    "fuse-integer-filters",      // after fuse-activation: the operator has the clamp's bounds
    "lift-scalars",              // before folding: a lifted constant may be all that a node waits for
    "fold-constants",            // what fusion prepared
    "eliminate-common-subexpressions",  // also merges the constants that passes made
    "eliminate-dead-code",              // last of the edge stage: lowering complains about operators without a kernel
    "compress-sparse-weights",     // after folding, which makes weights; it needs the clamps that fuse-activation adds
    "propagate-dim-order",         // after all fusion: it looks at what kernels will run; types change from here on
    "fuse-separable-convolution",  // after dim orders: its kernel wants channels innermost, where convolutions take
                                   // both
    "to-out-variants",             // from here on nodes are kernel calls
    "lower-loops",                 // before remove-views: the copies that loops need must not look like views
    "remove-views",                // before write-backs: a view keeps the old content of a buffer in use
    "insert-write-backs",          // before in-place reuse: a buffer's memory is the better place for its new content
    "reuse-in-place",              // last: needs the final uses of every value
};

void collect(const ir::Graph& graph, std::set<std::string>& constants, std::set<std::string>& buffers) {
  for (const auto& node : graph.nodes()) {
    if (node->op == "constant") {
      constants.insert(node->symbol);
    } else if (node->op == "buffer") {
      buffers.insert(node->symbol);
    }
    for (const auto& region : node->regions) {
      collect(*region, constants, buffers);
    }
  }
}

template <typename Table>
void keep(Table& table, const std::set<std::string>& names) {
  for (auto entry = table.begin(); entry != table.end();) {
    entry = names.count(entry->first) == 0 ? table.erase(entry) : std::next(entry);
  }
}

}  // namespace

Span<const std::string_view> before_cut() { return kBeforeCut; }

Span<const std::string_view> after_cut() { return kAfterCut; }

void drop_unused_symbols(ir::Program& program) {
  std::set<std::string> constants;
  std::set<std::string> buffers;
  for (const auto& method : program.methods) {
    collect(*method, constants, buffers);
    for (const ir::Write& write : method->writes) {
      buffers.insert(write.buffer);
    }
  }
  for (const ir::ConstantMethod& method : program.constant_methods) {
    for (const ir::Argument& value : method.values) {
      if (const auto* name = value.as<std::string>(); name != nullptr && !name->empty() && name->front() == '@') {
        constants.insert(name->substr(1));
      }
    }
  }
  keep(program.constants, constants);
  keep(program.buffers, buffers);
}

}  // namespace et::passes
