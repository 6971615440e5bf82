#include "kernels/optimized/register.h"

#include "kernels/optimized/float_runs.h"
#include "kernels/optimized/tables.h"
#include "kernels/optimized/targets.h"
#include "kernels/portable/run_conversions.h"

#include <hwy/targets.h>

namespace et::kernels::optimized {

namespace {

// The kernels of each file, one a line.
// clang-format off
constexpr Span<const Kernel> (*kTables[])() = {
    &attention_kernels,
    &batch_norm_kernels,
    &binary_kernels,
    &cast_kernels,
    &compare_kernels,
    &convolution_kernels,
    &copy_kernels,
    &depthwise_kernels,
    &distance_kernels,
    &dot_kernels,
    &doubles_kernels,
    &dynamic_linear_kernels,
    &embedding_kernels,
    &fft_kernels,
    &glu_kernels,
    &grouped_matmul_kernels,
    &integers_kernels,
    &losses_kernels,
    &matmul_kernels,
    &max_pool_kernels,
    &nonzero_kernels,
    &norm_doubles_kernels,
    &norm_kernels,
    &quantized_depthwise_kernels,
    &quantized_pointwise_kernels,
    &random_kernels,
    &recurrent_kernels,
    &reduce_doubles_kernels,
    &reduce_index_kernels,
    &reduce_integers_kernels,
    &reduce_kernels,
    &renorm_kernels,
    &resize_kernels,
    &resize_lines_kernels,
    &round_decimals_kernels,
    &row_product_kernels,
    &scan_kernels,
    &softmax_backward_kernels,
    &softmax_kernels,
    &sort_kernels,
    &sparse_kernels,
    &special_kernels,
    &step_gates_kernels,
    &ternary_kernels,
    &transcendental_kernels,
    &transposed_convolution_kernels,
    &truth_kernels,
    &unary_kernels,
    &vector_norm_kernels,
    &weight_only_convolution_kernels,
    &weight_only_kernels,
    &winograd_kernels,
};
// clang-format on

// Portable kernels gain from them, too: they convert a piece at a time.
constexpr portable::RunConversions kConversions = {
    [](ScalarType dtype, const void* data, size_t n, float* out) { floats_from(dtype, data, 1, n, out); },
    [](ScalarType dtype, const float* values, size_t n, void* data) { floats_to(dtype, values, n, data); },
};

}  // namespace

Error register_optimized_kernels(runtime::KernelRegistry& registry) {
  // Now, and once: a function that is looked up before asks the processor itself at each of its calls, and CPUID is some
  // 5 us in a virtual machine (it was 2.2 of the 2.3 ms of DS-CNN's first inference).
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  portable::use_run_conversions(kConversions);
  for (const auto table : kTables) {
    ET_RETURN_IF_ERROR(registry.add(table(), "optimized"));
  }
  return Error::Ok;
}

}  // namespace et::kernels::optimized
