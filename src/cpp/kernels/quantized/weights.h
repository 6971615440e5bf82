/// Integer weights [rows, columns]: 8 bits an element (i8), or 4 bits (u8 with two columns a byte), with scales for the
/// tensor, for each row, or for groups of columns in each row.
///
/// For: products and embeddings. Not for: filters of convolutions, which have 8 bits.
///
/// Four bits are packed as numerics/nibbles.h describes it.
#pragma once

#include "kernels/quantized/affine.h"

namespace et::kernels::quantized {

class WeightRows {
 public:
  /// `columns`: of a row, which a packed tensor does not say.
  /// Errors: InvalidType, InvalidArgument when the tensor has not that many columns.
  static Result<WeightRows> make(const char* op, const Tensor& weight, int64_t columns);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  bool is_packed() const { return packed_; }
  /// Elements of a row; `memory` [columns] is used where they are packed.
  const int8_t* row(int64_t i, int8_t* memory) const;

 private:
  const void* data_ = nullptr;
  int64_t rows_ = 0, columns_ = 0;
  bool packed_ = false;
};

/// Scales and zero points of rows: one for all, one a row, or one a group of columns.
class RowScales {
 public:
  /// `group_size` 0: no groups. Scales f32 or bf16; zero points none, i8, i32 or i64, as many as scales.
  /// Errors: InvalidType; InvalidArgument when their number is another one or groups do not divide a row.
  static Result<RowScales> make(const char* op, const Tensor& scales, const OptionalTensor& zero_points, int64_t rows,
                                int64_t columns, int64_t group_size);

  /// Columns that share a scale.
  int64_t group_size() const { return group_size_; }
  int64_t groups() const { return groups_; }
  float scale(int64_t row, int64_t group) const;
  float zero_point(int64_t row, int64_t group) const;

 private:
  int64_t index(int64_t row, int64_t group) const { return single_ ? 0 : row * groups_ + group; }

  const void* scales_ = nullptr;
  const void* zero_points_ = nullptr;
  ScalarType zero_type_ = ScalarType::Long;
  int64_t group_size_ = 1, groups_ = 1;
  bool single_ = false;
  bool is_half_ = false;
};

}  // namespace et::kernels::quantized
