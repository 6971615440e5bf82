/// The tables of this folder, one a source file. For register.cpp only.
#pragma once

#include "base/startup.h"
#include "runtime/kernel_types.h"

namespace et::kernels::optimized {

ET_STARTUP Span<const Kernel> attention_kernels();
ET_STARTUP Span<const Kernel> batch_norm_kernels();
ET_STARTUP Span<const Kernel> binary_kernels();
ET_STARTUP Span<const Kernel> cast_kernels();
ET_STARTUP Span<const Kernel> compare_kernels();
ET_STARTUP Span<const Kernel> convolution_kernels();
ET_STARTUP Span<const Kernel> copy_kernels();
ET_STARTUP Span<const Kernel> depthwise_kernels();
ET_STARTUP Span<const Kernel> distance_kernels();
ET_STARTUP Span<const Kernel> dot_kernels();
ET_STARTUP Span<const Kernel> doubles_kernels();
ET_STARTUP Span<const Kernel> dynamic_linear_kernels();
ET_STARTUP Span<const Kernel> embedding_kernels();
ET_STARTUP Span<const Kernel> fft_kernels();
ET_STARTUP Span<const Kernel> glu_kernels();
ET_STARTUP Span<const Kernel> grouped_matmul_kernels();
ET_STARTUP Span<const Kernel> integers_kernels();
ET_STARTUP Span<const Kernel> losses_kernels();
ET_STARTUP Span<const Kernel> matmul_kernels();
ET_STARTUP Span<const Kernel> max_pool_kernels();
ET_STARTUP Span<const Kernel> nonzero_kernels();
ET_STARTUP Span<const Kernel> norm_doubles_kernels();
ET_STARTUP Span<const Kernel> norm_kernels();
ET_STARTUP Span<const Kernel> quantized_depthwise_kernels();
ET_STARTUP Span<const Kernel> quantized_pointwise_kernels();
ET_STARTUP Span<const Kernel> random_kernels();
ET_STARTUP Span<const Kernel> recurrent_kernels();
ET_STARTUP Span<const Kernel> reduce_doubles_kernels();
ET_STARTUP Span<const Kernel> reduce_index_kernels();
ET_STARTUP Span<const Kernel> reduce_integers_kernels();
ET_STARTUP Span<const Kernel> reduce_kernels();
ET_STARTUP Span<const Kernel> renorm_kernels();
ET_STARTUP Span<const Kernel> resize_kernels();
ET_STARTUP Span<const Kernel> resize_lines_kernels();
ET_STARTUP Span<const Kernel> round_decimals_kernels();
ET_STARTUP Span<const Kernel> row_product_kernels();
ET_STARTUP Span<const Kernel> scan_kernels();
ET_STARTUP Span<const Kernel> softmax_backward_kernels();
ET_STARTUP Span<const Kernel> softmax_kernels();
ET_STARTUP Span<const Kernel> sort_kernels();
ET_STARTUP Span<const Kernel> sparse_kernels();
ET_STARTUP Span<const Kernel> special_kernels();
ET_STARTUP Span<const Kernel> step_gates_kernels();
ET_STARTUP Span<const Kernel> ternary_kernels();
ET_STARTUP Span<const Kernel> transcendental_kernels();
ET_STARTUP Span<const Kernel> transposed_convolution_kernels();
ET_STARTUP Span<const Kernel> truth_kernels();
ET_STARTUP Span<const Kernel> unary_kernels();
ET_STARTUP Span<const Kernel> vector_norm_kernels();
ET_STARTUP Span<const Kernel> weight_only_convolution_kernels();
ET_STARTUP Span<const Kernel> weight_only_kernels();
ET_STARTUP Span<const Kernel> winograd_kernels();

}  // namespace et::kernels::optimized
