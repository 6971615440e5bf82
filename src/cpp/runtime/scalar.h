/// Scalar: a number whose kind (integer, floating, bool) the caller decides, as in ATen's `Scalar` arguments.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace et::runtime {

inline namespace lean {

class Scalar {
 public:
  enum class Kind : uint8_t { kInt, kDouble, kBool };

  Scalar() : int_(0), kind_(Kind::kInt) {}
  explicit Scalar(int64_t value) : int_(value), kind_(Kind::kInt) {}
  explicit Scalar(double value) : double_(value), kind_(Kind::kDouble) {}
  explicit Scalar(bool value) : int_(value ? 1 : 0), kind_(Kind::kBool) {}

  bool is_integral() const { return kind_ == Kind::kInt; }
  bool is_floating_point() const { return kind_ == Kind::kDouble; }
  bool is_boolean() const { return kind_ == Kind::kBool; }
  /// The value converted as C++ does. A double outside T's range is the caller's to refuse.
  template <typename T>
  T to() const {
    return kind_ == Kind::kDouble ? static_cast<T>(double_) : static_cast<T>(int_);
  }

 private:
  union {
    int64_t int_;
    double double_;
  };
  Kind kind_;
};

}  // namespace lean
}  // namespace et::runtime
