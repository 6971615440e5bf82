/// The loops of a product of int8 (integer_product.h), compiled for every instruction set.
///
/// For: integer_product.cpp, which packs a matrix for one of them and parts a call. All read windows of int8 into rows
/// of their own, in blocks, and multiply a block's rows by panels of columns; sums are equal bit for bit.
///
/// | loop | rows | instructions for four numbers of a row and a vector of columns |
/// |---|---|---|
/// | byte_loop.cpp | signed bytes, less a shift | from 2.6 to 3.2 where norms bound the sums, else 4.2; large pairs 7 |
/// | chain_loop.cpp | unsigned bytes, more by 128 | from 3.3 to 4 where the weights allow it (quad_chains.h), else 7 |
/// | pair_loop.cpp | 16 bits, less the zero point | 5: two products of 9 and 8 bits never leave 32 |
/// | quad_loop.cpp | unsigned bytes, more by 128; or lines of the image | 1 where VNNI is, 1/16 where AMX is |
/// | patch_loop.cpp | transformed patches of 16 bits, for 2x2 windows of 3x3 | 2.2, and what transforms take |
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

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

/// False where no instruction multiplies pairs of bytes into 16 bits.
bool multiplies_bytes();
size_t byte_row_nbytes(const IntegerProduct& p);
/// Bytes of a row that most calls touch: there is room for many large numbers.
size_t byte_row_touched(const IntegerProduct& p);
size_t byte_block_nbytes(const IntegerProduct& p);
/// What a row's numbers are less by. Where they lie between a zero point near the end and a few large ones, three
/// quarters of it make the fewest large pairs.
inline int32_t shift_of_bytes(int32_t zero_point) { return zero_point - zero_point / 4; }
/// Packs a vector of columns, i8 [quads][integer_lanes()][4], to byte_record_nbytes() at `to`.
size_t byte_record_nbytes(const IntegerProduct& p);
void pack_bytes(const IntegerProduct& p, const int8_t* weights, char* to);
const int32_t* sums_of_record(const char* record);  ///< of each column's weights
void make_byte_rows(const IntegerProduct& p, const IntegerBlock& block);
void multiply_bytes(const IntegerProduct& p, const IntegerBlock& block);

/// Bytes of a block's rows: half of a second cache.
inline constexpr size_t kBlockBytes = 192 << 10;

/// False where the processor does not multiply four bytes at a time.
bool multiplies_quads();
size_t quad_row_nbytes(const IntegerProduct& p);
/// Bytes that stand behind a block's rows or lines, which meet zeros.
inline constexpr size_t kQuadSlack = 64;
void make_quad_rows(const IntegerProduct& p, const IntegerBlock& block);
void multiply_quads(const IntegerProduct& p, const IntegerBlock& block);

/// Whole lines of an image with what stands beside it, for windows that are read where they stand: each pixel is copied
/// once, not for each of the windows that have it.
struct QuadLines {
  size_t pitch;  ///< bytes of a line; where tiles read them, those of whole windows

  explicit QuadLines(const IntegerProduct& p);
  /// A run of a window is whole quads, and lines are neither short nor larger than a block; or it is padded to them.
  static bool fit(const IntegerProduct& p);
  /// `padded_run` of such a product: that of few channels, whose pixels are no whole quads. Otherwise 0. Decided once,
  /// by the largest image.
  static size_t padded_run(const IntegerProduct& p);
  /// Lines of the image that windows meet which begin in so many others.
  static size_t halo(const IntegerProduct& p) { return static_cast<size_t>((p.kernel_h - 1) * p.dilation_h + 1); }
};
/// Blocks are whole lines of results of one image.
void make_quad_lines(const IntegerProduct& p, const IntegerBlock& block);
void multiply_quad_lines(const IntegerProduct& p, const IntegerBlock& block);

/// Numbers of a transformed patch in each channel.
inline constexpr size_t kPatchPoints = 16;
/// Four times a sum of so many channels, 9 * 255 * 128 each, fits in 32 bits.
inline constexpr size_t kMostPatchChannels = 1820;
size_t patch_row_nbytes(const IntegerProduct& p);
void make_patch_rows(const IntegerProduct& p, const IntegerBlock& block);
void multiply_patches(const IntegerProduct& p, const IntegerBlock& block);

/// std::memcpy, of few bytes without a call.
inline void copy_bytes(int8_t* to, const int8_t* from, size_t n) {
  const auto copy_ends = [&](auto size) {  // the second part overlaps the first
    constexpr size_t kSize = decltype(size)::value;
    char first[kSize], last[kSize];
    std::memcpy(first, from, kSize);
    std::memcpy(last, from + n - kSize, kSize);
    std::memcpy(to, first, kSize);
    std::memcpy(to + n - kSize, last, kSize);
  };
  if (n > 32) {
    std::memcpy(to, from, n);
  } else if (n >= 16) {
    copy_ends(std::integral_constant<size_t, 16>());
  } else if (n >= 8) {
    copy_ends(std::integral_constant<size_t, 8>());
  } else if (n >= 4) {
    copy_ends(std::integral_constant<size_t, 4>());
  } else {
    std::copy_n(from, n, to);
  }
}

/// The windows of rows one after another.
class WindowReader {
 public:
  WindowReader(const IntegerProduct& p, size_t group, size_t first_row) : p_(p) {
    const auto row = static_cast<int64_t>(first_row), pixels = p.out_h * p.out_w;
    x_ = row % p.out_w;
    y_ = row / p.out_w % p.out_h;
    image_ = p.in + row / pixels * p.in_h * p.in_w * static_cast<int64_t>(p.channels) + group * p.group_channels();
  }

  /// Writes [depth]; beside the image a window has zero points.
  void read(int8_t* to) {
    const size_t channels = p_.group_channels();
    const auto zero = static_cast<int8_t>(p_.input_zero_point);
    const auto pixel = static_cast<int64_t>(p_.channels);
    const bool joins = p_.dilation_w == 1 && p_.groups == 1;  // pixels of a row of a window stand side by side
    const int64_t top = y_ * p_.stride_h - p_.pad_h, left = x_ * p_.stride_w - p_.pad_w;
    const int64_t begin = std::min(std::max<int64_t>(-left, 0), p_.kernel_w);
    const int64_t end = std::max(std::min(p_.in_w - left, p_.kernel_w), begin);
    const size_t before = static_cast<size_t>(begin) * channels, behind = static_cast<size_t>(end) * channels;
    const size_t width = static_cast<size_t>(p_.kernel_w) * channels;
    for (int64_t i = 0; i < p_.kernel_h; ++i, to += width) {
      const int64_t in_y = top + i * p_.dilation_h;
      const int8_t* const row = image_ + in_y * p_.in_w * pixel;
      if (in_y < 0 || in_y >= p_.in_h) {
        std::fill_n(to, width, zero);
      } else if (joins) {
        if (before < behind) {
          copy_bytes(to + before, row + (left + begin) * pixel, behind - before);
        }
        std::fill(to, to + before, zero);
        std::fill(to + behind, to + width, zero);
      } else {
        for (int64_t j = 0; j < p_.kernel_w; ++j) {
          const int64_t in_x = left + j * p_.dilation_w;
          int8_t* const tap = to + static_cast<size_t>(j) * channels;
          if (in_x < 0 || in_x >= p_.in_w) {
            std::fill_n(tap, channels, zero);
          } else {
            copy_bytes(tap, row + in_x * pixel, channels);
          }
        }
      }
    }
    step();
  }

 private:
  void step() {
    if (++x_ < p_.out_w) {
      return;
    }
    x_ = 0;
    if (++y_ == p_.out_h) {
      y_ = 0;
      image_ += p_.in_h * p_.in_w * static_cast<int64_t>(p_.channels);
    }
  }

  const IntegerProduct& p_;
  int64_t x_, y_;  // of the next row in its image of results
  const int8_t* image_;
};

}  // namespace et::kernels::optimized::quantized
