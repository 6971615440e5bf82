/// Packed products (gemm.h) of BFloat16 by the processor's own instructions, and the blocks they have in common with
/// others.
///
/// For: gemm.cpp, convolution_windows.cpp, direct_convolution.cpp. Not for: other kernels, which say what they have in
///      GemmStripsOf::pack_pairs.
///
/// Each step takes a pair of products a lane: AVX512_BF16 multiplies exactly and adds in float, subnormal numbers count
/// as 0.
#pragma once

#include "kernels/optimized/vec/gemm_block.h"

namespace et::kernels::optimized::matmul {

/// Multiplies a block; its tiles have the rows and columns of those of float. nullptr on processors without the
/// instructions.
using MultiplyPairs = void (*)(const GemmBlock<float, BFloat16>& block);
MultiplyPairs pairs_function();

/// pairs[2 * i] = first[i], pairs[2 * i + 1] = second[i].
void pack_pair(const BFloat16* first, const BFloat16* second, size_t n, BFloat16* pairs);

/// out[j, i] = in[i, j] of pairs: [rows, columns] to [columns, rows], both multiples of 4. It turns strips of steps
/// side by side into strips of pairs, and back.
void transpose_pairs(const BFloat16* in, size_t rows, size_t columns, BFloat16* out);

}  // namespace et::kernels::optimized::matmul
