/// Which constants a file holds without their zeros, and how they are stored.
///
/// For: emit.cpp and named_entries.cpp. Integer weights of our own kernels, which keep their dense form in the graph:
/// every kernel runs them as they are, and only their bytes stand in the file in another form
/// (docs/reference/format.md, "Our named data"). Not for: float weights, which have operators of their own
/// (passes/compress_sparse_weights.h).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/span.h"
#include "ir/graph.h"

namespace et::emit {

/// A file of many small entries spends more on their alignment than on their zeros.
inline constexpr size_t kLeastSparseBytes = 1024;

/// The sparse form (numerics/sparse_bytes.h) of elements of `dtype`; empty when less than `least_zeros` of them are
/// zero or it saves less than a sixteenth.
std::string sparse_form(Span<const uint8_t> dense, ScalarType dtype, double least_zeros);

/// How a constant is stored.
struct SparseConstant {
  std::string_view
      key;  ///< its name, or that of the first constant with the same bytes, under which it stands in the file
  std::string bytes;  ///< of its sparse form; empty where the key is another's name
};

/// Constants that are stored in sparse form, by their names. These are int8 weights of at least kLeastSparseBytes that
/// one call in each method uses, as the weight of a product whose kernels pack it or read it in place. Empty when
/// `least_zeros` is above 1. A constant that anything else uses, that a constant method returns, that goes to a .ptd
/// file, or whose name is a key of named data is not among them.
std::map<std::string_view, SparseConstant> sparse_constants(const ir::Program& program, double least_zeros);

}  // namespace et::emit
