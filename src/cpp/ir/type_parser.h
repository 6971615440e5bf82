/// Types in the text form, for parser.cpp.
///
///     f32[2, s0:{1..64}, 8]<0, 2, 1>   int   int(s0)   double   double(2.5)   bool(true)   string("text")   none
///
/// A symbolic size has its bounds where it stands first in a method, and may go without afterwards.
#pragma once

#include <string>
#include <unordered_map>

#include "ir/scanner.h"
#include "ir/type.h"

namespace et::ir {

class TypeParser {
 public:
  explicit TypeParser(Scanner& scan) : scan_(scan) {}

  /// Reads a type; false after recording the error.
  bool parse(Type* type);
  /// Reads the name of a dtype; false after recording the error.
  bool parse_dtype(ScalarType* dtype);
  /// Forgets the bounds: another method begins.
  void clear() { bounds_.clear(); }

 private:
  bool parse_dim(Dim* dim);
  bool parse_tensor(ScalarType dtype, TensorType* type);
  bool parse_value(Type* type);

  Scanner& scan_;
  std::unordered_map<std::string, Dim> bounds_;  ///< symbolic sizes of the method, as they stood first
};

}  // namespace et::ir
