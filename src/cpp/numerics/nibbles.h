/// Integers of 4 bits, two a byte: each is held as value + 8, the first of two in the low half.
///
/// For: the compiler that packs weights, kernels that read them, and libraries that unpack them once at load. In
/// matrices the two numbers of a byte are neighbours of a row. Each row begins a byte; an odd row leaves the last half
/// unused. In filters of convolutions they are one place of two neighbouring rows, so that the inner sizes stay as they
/// are.
///
///     unpack_nibbles(row, columns, integers);                       // a row of a matrix
///     unpack_nibble_rows(filter, rows, elements_of_a_row, integers);  // a filter
#pragma once

#include <cstddef>
#include <cstdint>

namespace et {

/// Bytes, or pairs of rows, that hold `count` of them.
template <typename T>
constexpr T packed_count(T count) {
  return count / 2 + count % 2;
}

constexpr int8_t low_nibble(uint8_t byte) { return static_cast<int8_t>((byte & 15) - 8); }
constexpr int8_t high_nibble(uint8_t byte) { return static_cast<int8_t>((byte >> 4) - 8); }
constexpr uint8_t pack_nibbles(int low, int high) {
  return static_cast<uint8_t>(static_cast<unsigned>(low + 8) | (static_cast<unsigned>(high + 8) << 4));
}

inline void unpack_nibbles(const uint8_t* from, size_t count, int8_t* to) {
  for (size_t i = 0; i < count / 2; ++i) {
    to[2 * i] = low_nibble(from[i]);
    to[2 * i + 1] = high_nibble(from[i]);
  }
  if (count % 2 != 0) {
    to[count - 1] = low_nibble(from[count / 2]);
  }
}

inline void pack_nibbles(const int8_t* from, size_t count, uint8_t* to) {
  for (size_t i = 0; i < count / 2; ++i) {
    to[i] = pack_nibbles(from[2 * i], from[2 * i + 1]);
  }
  if (count % 2 != 0) {
    to[count / 2] = pack_nibbles(from[count - 1], 0);
  }
}

/// Rows of `size` elements; byte i of a pair of rows holds element i of both.
inline void unpack_nibble_rows(const uint8_t* from, size_t rows, size_t size, int8_t* to) {
  for (size_t row = 0; row < rows; ++row) {
    const uint8_t* const pair = from + row / 2 * size;
    for (size_t i = 0; i < size; ++i) {
      to[row * size + i] = row % 2 == 0 ? low_nibble(pair[i]) : high_nibble(pair[i]);
    }
  }
}

inline void pack_nibble_rows(const int8_t* from, size_t rows, size_t size, uint8_t* to) {
  for (size_t row = 0; row < rows; row += 2) {
    for (size_t i = 0; i < size; ++i) {
      const int8_t* const first = from + row * size + i;
      to[row / 2 * size + i] = pack_nibbles(*first, row + 1 < rows ? first[size] : 0);
    }
  }
}

}  // namespace et
