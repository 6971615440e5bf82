// Ids to passes, from passes.def.
#include "passes/canonicalise_dim_order.h"
#include "passes/compress_sparse_weights.h"
#include "passes/drop_unused_results.h"
#include "passes/eliminate_common_subexpressions.h"
#include "passes/eliminate_dead_code.h"
#include "passes/eliminate_no_ops.h"
#include "passes/fold_constants.h"
#include "passes/fold_conv_batch_norm.h"
#include "passes/fold_quantize_dequantize.h"
#include "passes/fuse_activation.h"
#include "passes/fuse_attention.h"
#include "passes/fuse_gru_gates.h"
#include "passes/fuse_integer_filters.h"
#include "passes/fuse_linear.h"
#include "passes/fuse_lstm_gates.h"
#include "passes/fuse_quantized.h"
#include "passes/fuse_recurrent_steps.h"
#include "passes/fuse_separable_convolution.h"
#include "passes/insert_write_backs.h"
#include "passes/lift_scalars.h"
#include "passes/lower_loops.h"
#include "passes/pass_manager.h"
#include "passes/propagate_dequantize.h"
#include "passes/propagate_dim_order.h"
#include "passes/quantize_borders.h"
#include "passes/recognise_activations.h"
#include "passes/recognise_norms.h"
#include "passes/remove_views.h"
#include "passes/reuse_in_place.h"
#include "passes/to_out_variants.h"

namespace et::passes {

std::vector<std::unique_ptr<Pass>> all_passes() {
  std::vector<std::unique_ptr<Pass>> passes;
#define ET_PASS(Class) passes.push_back(std::make_unique<Class>());
#include "passes/passes.def"
#undef ET_PASS
  return passes;
}

std::unique_ptr<Pass> make_pass(std::string_view id) {
  for (std::unique_ptr<Pass>& pass : all_passes()) {
    if (pass->info().id == id) {
      return std::move(pass);
    }
  }
  return nullptr;
}

}  // namespace et::passes
