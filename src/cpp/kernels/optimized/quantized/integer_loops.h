/// The loops of a product of int8 (integer_product.h), compiled for every instruction set.
///
/// For: integer_product.cpp, which packs a matrix for one of them and parts a call. All read windows of int8 into rows
/// of their own, in blocks, and multiply a block's rows by panels of columns; sums are equal bit for bit.
///
/// | loop | rows | instructions for four numbers of a row and a vector of columns |
/// |---|---|---|
/// | chain_loop.cpp | unsigned bytes, more by 128 | from 3.3 to 4 where the weights allow it (quad_chains.h), else 7 |
/// | pair_loop.cpp | 16 bits, less the zero point | 5: two products of 9 and 8 bits never leave 32 |
/// | quad_loop.cpp | unsigned bytes, more by 128 | 1, of processors that have it (VNNI) |
/// | patch_loop.cpp | transformed patches of 16 bits, for 2x2 windows of 3x3 | 2.2, and what transforms take |
#pragma once

#include "kernels/optimized/quantized/integer_product.h"

namespace et::kernels::optimized::quantized {

/// A part of a call: windows of one group, and some of the panels that they meet.
struct IntegerBlock {
  size_t group, first_row, rows, begin, end;
  uint8_t* scratch;  ///< of the loop, of so many bytes as it says, in whole lines of a cache
};

/// Vectors of columns of a panel.
inline constexpr size_t kPanelVectors = 2;
/// Numbers of int32 of a vector.
size_t integer_lanes();

// Of each loop: bytes of a row, of what else a block needs, and of a packed group; rows and products of a block.
size_t pair_row_nbytes(const IntegerProduct& p);
size_t pair_block_nbytes(const IntegerProduct& p);
void make_pair_rows(const IntegerProduct& p, const IntegerBlock& block);
void multiply_pairs(const IntegerProduct& p, const IntegerBlock& block);
size_t chain_row_nbytes(const IntegerProduct& p);
size_t chain_block_nbytes(const IntegerProduct& p);
void make_chain_rows(const IntegerProduct& p, const IntegerBlock& block);
void multiply_chains(const IntegerProduct& p, const IntegerBlock& block);

/// False where the processor does not multiply four bytes at a time.
bool multiplies_quads();
size_t quad_row_nbytes(const IntegerProduct& p);
void make_quad_rows(const IntegerProduct& p, const IntegerBlock& block);
void multiply_quads(const IntegerProduct& p, const IntegerBlock& block);

/// Numbers of a transformed patch in each channel.
inline constexpr size_t kPatchPoints = 16;
/// Four times a sum of so many channels, 9 * 255 * 128 each, fits in 32 bits.
inline constexpr size_t kMostPatchChannels = 1820;
size_t patch_row_nbytes(const IntegerProduct& p);
void make_patch_rows(const IntegerProduct& p, const IntegerBlock& block);
void multiply_patches(const IntegerProduct& p, const IntegerBlock& block);

/// The window of row `of_row`, [depth]; beside the image it has zero points.
inline void read_window(const IntegerProduct& p, size_t group, size_t of_row, int8_t* to) {
  const size_t channels = p.group_channels();
  const auto zero = static_cast<int8_t>(p.input_zero_point);
  const auto pixel = static_cast<int64_t>(p.channels);
  const bool joins = p.dilation_w == 1 && p.groups == 1;  // pixels of a row of a window stand side by side
  const auto row = static_cast<int64_t>(of_row);
  const int64_t y = row / p.out_w, top = y % p.out_h * p.stride_h - p.pad_h;
  const int64_t left = row % p.out_w * p.stride_w - p.pad_w;
  const int8_t* const image = p.in + y / p.out_h * p.in_h * p.in_w * pixel + group * channels;
  for (int64_t i = 0; i < p.kernel_h; ++i) {
    const int64_t in_y = top + i * p.dilation_h;
    const int64_t begin = joins ? std::min(std::max<int64_t>(-left, 0), p.kernel_w) : 0;
    const int64_t end = joins ? std::max(std::min(p.in_w - left, p.kernel_w), begin) : 0;
    const size_t width = static_cast<size_t>(p.kernel_w) * channels;
    if (in_y < 0 || in_y >= p.in_h) {
      std::fill_n(to, width, zero);
    } else if (joins) {
      const size_t before = static_cast<size_t>(begin) * channels, behind = static_cast<size_t>(end) * channels;
      std::fill(to, to + before, zero);
      if (before < behind) {
        std::memcpy(to + before, image + (in_y * p.in_w + left + begin) * pixel, behind - before);
      }
      std::fill(to + behind, to + width, zero);
    } else {
      for (int64_t j = 0; j < p.kernel_w; ++j) {
        const int64_t in_x = left + j * p.dilation_w;
        int8_t* const tap = to + static_cast<size_t>(j) * channels;
        if (in_x < 0 || in_x >= p.in_w) {
          std::fill_n(tap, channels, zero);
        } else {
          std::memcpy(tap, image + (in_y * p.in_w + in_x) * pixel, channels);
        }
      }
    }
    to += width;
  }
}

}  // namespace et::kernels::optimized::quantized
