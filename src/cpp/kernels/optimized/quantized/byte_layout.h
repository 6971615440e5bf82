/// How rows of signed bytes and their unsigned weights lie in memory.
///
/// For: byte_loop.cpp, which is compiled for every instruction set. Not for: other forms of rows (integer_loops.h).
#pragma once

#include "kernels/optimized/quantized/integer_loops.h"
#include "kernels/optimized/quantized/quad_chains.h"

namespace et::kernels::optimized::quantized {

/// Four quads are a unit: all that is known of a row is known of its units, and of two of them together.
constexpr size_t kUnitQuads = 4, kUnit = 4 * kUnitQuads;
/// Of the product of two norms; what is less than 2^15 covers their rounding.
constexpr float kMostSum = 32700.0f;
/// Read where they stand, so that no register keeps them beside the sums.
alignas(64) constexpr int16_t kOnes[32] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                           1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
/// A pair of a row's numbers adds up to no more, on either side of zero: 255 times it is below 2^15.
constexpr int32_t kMostPair = 127;
/// Bytes of weights that the caches fetch ahead for tiles of so many rows and more. Fewer wait for memory either way.
constexpr size_t kAhead = 4096, kRowsOfFetching = 4;

inline size_t units_of(const IntegerProduct& p) { return (p.depth() + 2 * kUnit - 1) / (2 * kUnit) * 2; }
/// Bytes from a row of a tile to the next. Rows do not meet in one set of a cache.
inline size_t stride_of_bytes(const IntegerProduct& p) {
  const size_t nbytes = kUnit * units_of(p);
  return nbytes % 1024 == 0 ? nbytes + 64 : nbytes;
}

/// Where the parts of the packed weights of a vector of columns stand.
struct ByteRecord {
  static size_t weights_offset(size_t units, size_t lanes) {
    return aligned_to_chain(lanes * sizeof(int32_t) + (units + units / 2) * sizeof(float));
  }
  static size_t nbytes(size_t units, size_t lanes) { return weights_offset(units, lanes) + kUnit * units * lanes; }
  ByteRecord(const char* memory, size_t units, size_t lanes)
      : sums(reinterpret_cast<const int32_t*>(memory)),
        of_pairs(reinterpret_cast<const float*>(sums + lanes)),
        of_units(of_pairs + units / 2),
        weights(reinterpret_cast<const uint8_t*>(memory) + weights_offset(units, lanes)) {}

  const int32_t* sums;               // of each column's weights
  const float *of_pairs, *of_units;  // the largest norm of the weights of a 16-bit lane, of two units and of one
  const uint8_t* weights;            // [quads][columns][4], more by 128
};

/// The rows of a tile, at its place in a block's scratch.
struct ByteTile {
  ByteTile(const IntegerProduct& p, uint8_t* memory, size_t rows) : units(units_of(p)), stride(stride_of_bytes(p)) {
    heavy = reinterpret_cast<uint32_t*>(memory);
    bytes = reinterpret_cast<int8_t*>(memory + 64);
    starts_of_pairs = reinterpret_cast<int32_t*>(bytes + rows * stride);
    starts = starts_of_pairs + rows * units / 2;
    shares = starts + rows * units;
    totals = shares + rows * units;
    of_pairs = reinterpret_cast<float*>(totals + rows);
    of_units = of_pairs + units / 2;
    places = reinterpret_cast<uint32_t*>(of_units + units);
    wide = reinterpret_cast<int16_t*>(places + kUnitQuads * units);
  }
  static size_t row_nbytes(const IntegerProduct& p) {
    return aligned_to_chain(64 + sizeof(int32_t) + stride_of_bytes(p) + units_of(p) * (10 + 6 + 4 * kUnitQuads));
  }
  static size_t wide_nbytes(const IntegerProduct& p) { return units_of(p) * kUnit * sizeof(int16_t); }

  size_t units, stride;
  uint32_t* heavy;  // how many quads are multiplied in 16 bits, and how many units as bytes: all or none
  int8_t* bytes;    // [rows][stride]
  int32_t *starts_of_pairs, *starts;  // [units][rows]: -128 times the sums of both 16-bit lanes, modulo 2^16
  int32_t *shares, *totals;           // [units][rows] and [rows]: -128 times the sum
  float *of_pairs, *of_units;         // the largest norm of a row's numbers of a 16-bit lane
  uint32_t* places;                   // of heavy quads
  int16_t* wide;                      // [heavy quads][rows][4], in the order 0, 2, 1, 3
};

}  // namespace et::kernels::optimized::quantized
