/// Attention of 8-bit integers as products of bytes, for processors that multiply four at a time (multiplies_quads()):
/// keys and values are packed once a head, and tasks (attention/attention.h) multiply rows by them.
///
/// For: attention.cpp, which says what is computed.
///
///     pack_heads(heads, 0, key_heads);   // shared by threads, by heads
///     attend_rows(task);                 // any number at a time
#pragma once

#include "base/rounding.h"
#include "kernels/optimized/amx/quad_tiles.h"
#include "kernels/optimized/attention/attention.h"
#include "kernels/quantized/affine.h"

namespace et::kernels::optimized::quantized {

/// Keys and values of a head, packed: columns in panels, quads of the depth one after another, as tiles and vectors of
/// quads read them.
struct PackedHeads {
  size_t keys, depth, value_depth;
  size_t columns;            // of a panel: two vectors
  size_t unit;               // the depth of products is a multiple of it: 4, or what a tile has
  uint8_t flip_signed;       // makes signed bytes of all elements
  int32_t query_zero_point;  // of unsigned bytes
  const char *key, *value;

  int8_t* packed_keys;    // [heads][panels][padded_depth() / 4, columns, 4]
  int32_t* key_terms;     // [heads][panels][columns]: -query_zero_point times the sum of a key's numbers
  int8_t* packed_values;  // [heads][blocks of keys][panels][keys of the block / 4, columns, 4]

  size_t padded_depth() const { return round_up(depth, unit); }
  size_t padded_keys() const { return round_up(keys, columns); }
  size_t padded_columns() const { return round_up(value_depth, columns); }
  size_t key_nbytes() const { return padded_keys() * padded_depth(); }
  size_t value_nbytes() const { return round_up(keys, unit) * padded_columns(); }
};

/// Rows of a head of the query.
struct QuantizedTask : attention::AttentionRows<float> {
  const char* query;
  char* out;
  const int8_t* packed_keys;
  const int32_t* key_terms;
  const int8_t* packed_values;
  const PackedHeads* heads;
  uint8_t flip_unsigned;              // makes unsigned bytes of the elements
  kernels::quantized::Affine values;  // as signed bytes
  const kernels::quantized::Requantizer* requantizer;
  uint8_t* rows;     // [count up to whole kRowBlock, padded_depth] scratch
  uint8_t* weights;  // [2 kRowBlock, attention::kKeyBlock] scratch: the high and the low bytes of a row's in turn
  float* sums;       // [count, padded_columns] scratch: weights times values
};

/// Rows that are treated together: those of two tiles.
inline constexpr size_t kRowBlock = amx::kQuadBlock;

/// Heads [begin, end) of the keys and values.
void pack_heads(const PackedHeads& heads, size_t begin, size_t end);
void attend_rows(const QuantizedTask& task);

/// n results, x * factor + offset in units of the output's scale, as its integers.
void to_bytes(const float* x, size_t n, float factor, float offset, const kernels::quantized::Requantizer& result,
              char* to);

}  // namespace et::kernels::optimized::quantized
