/// The tables of this folder, one a source file. For register.cpp only.
#pragma once

#include "runtime/kernel_types.h"

namespace et::kernels::optimized {

Span<const Kernel> attention_kernels();
Span<const Kernel> batch_norm_kernels();
Span<const Kernel> binary_kernels();
Span<const Kernel> bools_kernels();
Span<const Kernel> cast_kernels();
Span<const Kernel> compare_kernels();
Span<const Kernel> convolution_kernels();
Span<const Kernel> copy_kernels();
Span<const Kernel> depthwise_kernels();
Span<const Kernel> distance_kernels();
Span<const Kernel> dot_kernels();
Span<const Kernel> doubles_kernels();
Span<const Kernel> embedding_kernels();
Span<const Kernel> fft_kernels();
Span<const Kernel> glu_kernels();
Span<const Kernel> grouped_matmul_kernels();
Span<const Kernel> matmul_kernels();
Span<const Kernel> max_pool_kernels();
Span<const Kernel> nonzero_kernels();
Span<const Kernel> norm_doubles_kernels();
Span<const Kernel> norm_kernels();
Span<const Kernel> quantized_depthwise_kernels();
Span<const Kernel> quantized_pointwise_kernels();
Span<const Kernel> random_kernels();
Span<const Kernel> recurrent_kernels();
Span<const Kernel> reduce_doubles_kernels();
Span<const Kernel> reduce_index_kernels();
Span<const Kernel> reduce_integers_kernels();
Span<const Kernel> reduce_kernels();
Span<const Kernel> renorm_kernels();
Span<const Kernel> resize_kernels();
Span<const Kernel> row_product_kernels();
Span<const Kernel> scan_kernels();
Span<const Kernel> softmax_kernels();
Span<const Kernel> sort_kernels();
Span<const Kernel> sparse_kernels();
Span<const Kernel> special_kernels();
Span<const Kernel> ternary_kernels();
Span<const Kernel> transcendental_kernels();
Span<const Kernel> transposed_convolution_kernels();
Span<const Kernel> truth_kernels();
Span<const Kernel> unary_kernels();
Span<const Kernel> weight_only_convolution_kernels();
Span<const Kernel> weight_only_kernels();
Span<const Kernel> winograd_kernels();

}  // namespace et::kernels::optimized
