/// Types of the IR: what is known about a value before it exists.
///
/// For: every pass, the planner and the emitter. A tensor's type has its dtype, its dims (constants or bounded symbols)
/// and its dim_order; a scalar's type is its kind. Not for: data (constants.h).
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"

namespace et::ir {

/// Upper bound of a dim that only the data decides (nonzero, masked select).
inline constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

/// One dimension: a constant, or a symbolic expression with its bounds. Text: `8`, `s0:{1..64}`, `2*s0:{2..128}`,
/// `u0:{0..}`. Equal expressions are equal sizes. In expressions only + - * // % min max and symbols stand.
struct Dim {
  int64_t min = 0;
  int64_t max = 0;
  std::string expr;  ///< empty for a constant (then min == max)

  Dim() = default;
  Dim(int64_t value) : min(value), max(value) {}  // NOLINT(google-explicit-constructor)
  Dim(std::string expression, int64_t lower, int64_t upper) : min(lower), max(upper), expr(std::move(expression)) {}

  bool is_static() const { return expr.empty(); }
  bool is_bounded() const { return max != kUnbounded; }
  bool operator==(const Dim& o) const { return min == o.min && max == o.max && expr == o.expr; }
  bool operator!=(const Dim& o) const { return !(*this == o); }
};

/// Type of a tensor. `dim_order` is a permutation, outermost first; row-major is 0, 1, 2, ….
struct TensorType {
  ScalarType dtype = ScalarType::Float;
  std::vector<Dim> dims;
  std::vector<uint8_t> dim_order;

  /// Row-major.
  static TensorType contiguous(ScalarType dtype, std::vector<Dim> dims);

  size_t rank() const { return dims.size(); }
  bool is_static() const;
  bool is_bounded() const;
  bool is_row_major() const;
  /// Elements and bytes at the upper bound; kUnbounded when there is none (or it overflows).
  int64_t max_numel() const;
  int64_t max_nbytes() const;
  /// Elements when all dims are constant.
  int64_t numel() const;
  bool operator==(const TensorType& o) const { return dtype == o.dtype && dims == o.dims && dim_order == o.dim_order; }
  bool operator!=(const TensorType& o) const { return !(*this == o); }
};

/// What kind of thing a value is.
enum class Kind : uint8_t {
  kTensor,
  kInt,     ///< int or SymInt
  kDouble,  ///< float or SymFloat
  kBool,    ///< bool or SymBool
  kString,  ///< inputs only
  kNone,    ///< inputs only
};

/// Type of a value. `tensor` is meaningful for kTensor; `dim` for a symbolic kInt (its expression and bounds).
///
/// An input that was no tensor when the program was exported became part of it, and must have the same value at each
/// call. It is a constant `dim` of a kInt, `number` of a kDouble or kBool (1 for true), `text` of a kString.
struct Type {
  Kind kind = Kind::kTensor;
  TensorType tensor;
  Dim dim;
  double number = 0;
  std::string text;

  static Type of(TensorType type) {
    Type made;
    made.tensor = std::move(type);
    return made;
  }
  static Type of(Kind kind) {
    Type made;
    made.kind = kind;
    return made;
  }
  bool is_tensor() const { return kind == Kind::kTensor; }
};

}  // namespace et::ir
