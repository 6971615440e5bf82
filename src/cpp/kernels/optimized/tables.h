/// The tables of this folder, one a source file: a new file adds a line here.
///
/// For: register.cpp, and kernels that hand their arguments on to those of another file. Others include table.h only,
///      so that a new table does not compile the whole folder again.
#pragma once

#include "base/startup.h"
#include "runtime/kernel_types.h"

#define ET_KERNEL_TABLES(TABLE)  \
  TABLE(attention)               \
  TABLE(batch_norm)              \
  TABLE(binary)                  \
  TABLE(cast)                    \
  TABLE(compare)                 \
  TABLE(convolution)             \
  TABLE(convolution_backward)    \
  TABLE(copy)                    \
  TABLE(depthwise)               \
  TABLE(distance)                \
  TABLE(division)                \
  TABLE(dot)                     \
  TABLE(doubles)                 \
  TABLE(dynamic_linear)          \
  TABLE(embedding)               \
  TABLE(fft)                     \
  TABLE(float_recurrent)         \
  TABLE(glu)                     \
  TABLE(grouped_matmul)          \
  TABLE(integers)                \
  TABLE(large_matrices)          \
  TABLE(losses)                  \
  TABLE(matmul)                  \
  TABLE(nonzero)                 \
  TABLE(norm)                    \
  TABLE(norm_doubles)            \
  TABLE(pad)                     \
  TABLE(pairs)                   \
  TABLE(pixel_convolution)       \
  TABLE(pixel_linear)            \
  TABLE(plane_pool)              \
  TABLE(pooling)                 \
  TABLE(quantized_depthwise)     \
  TABLE(quantized_grouped)       \
  TABLE(quantized_pointwise)     \
  TABLE(quantized_pooling)       \
  TABLE(quantized_recurrent)     \
  TABLE(random)                  \
  TABLE(recurrent)               \
  TABLE(reduce)                  \
  TABLE(reduce_doubles)          \
  TABLE(reduce_index)            \
  TABLE(reduce_integers)         \
  TABLE(renorm)                  \
  TABLE(resize)                  \
  TABLE(resize_bytes)            \
  TABLE(resize_lines)            \
  TABLE(rms_norm)                \
  TABLE(round_decimals)          \
  TABLE(row_product)             \
  TABLE(scan)                    \
  TABLE(search)                  \
  TABLE(separable_convolution)   \
  TABLE(softmax)                 \
  TABLE(softmax_backward)        \
  TABLE(sort)                    \
  TABLE(sparse)                  \
  TABLE(special)                 \
  TABLE(step_gates)              \
  TABLE(ternary)                 \
  TABLE(tile_convolution)        \
  TABLE(transcendental)          \
  TABLE(transposed_convolution)  \
  TABLE(truth)                   \
  TABLE(unary)                   \
  TABLE(vector_norm)             \
  TABLE(weight_only)             \
  TABLE(weight_only_convolution) \
  TABLE(window_convolution)      \
  TABLE(winograd)

namespace et::kernels::optimized {

#define ET_DECLARE_TABLE(NAME) ET_STARTUP Span<const Kernel> NAME##_kernels();
ET_KERNEL_TABLES(ET_DECLARE_TABLE)
#undef ET_DECLARE_TABLE

}  // namespace et::kernels::optimized
