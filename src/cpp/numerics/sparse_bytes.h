/// Bytes that are mostly zero, as files hold them: a bit for each element, and the elements whose bit is set.
///
/// For: named data of delegates, and int8 weights of kernels. The emitter writes it; a backend that wants it
/// unpacks it while it packs its weights, and the host unpacks those of kernels. Not for: float weights of kernels,
/// which run on their sparse form (sparse_weight.h). A reader needs no dtype and no sizes: an element is 1, 2 or 4
/// bytes.
///
///     SparseBytes sparse;
///     ET_RETURN_IF_ERROR(read_sparse_bytes(key, {entry, entry_nbytes}, &sparse));
///     void* const dense = std::malloc(sparse.nbytes());
///     unpack(sparse, dense);
///
/// The entry "sparse:<key>" stands for the entry "<key>", which the file then has not:
///
///     0   4  "EPSB"
///     4   1  version, 0
///     5   1  bytes of an element: 1, 2 or 4
///     6   2  zero
///     8   8  bytes of the dense form, little-endian like all numbers of the file; a multiple of the element's
///     16  m  bit i % 8 of byte i / 8 says whether element i is stored; zeros up to a multiple of 8 bytes
///     ..     the stored elements, in order, to the end of the entry
///
/// How many elements are stored, their bits say, and the entry's size has to fit: no number is there twice.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"
#include "base/span.h"

namespace et {

/// Stands in front of the key of an entry that is stored sparse.
inline constexpr std::string_view kSparsePrefix = "sparse:";
/// The same of a constant of the program, which no delegate looks for (runtime/host/sparse_constants.h).
inline constexpr std::string_view kSparseConstantPrefix = "sparse_constant:";

/// An entry that was checked: as many elements as bits are set, none set behind the last element. Points into the
/// entry.
struct SparseBytes {
  const uint8_t* mask = nullptr;    ///< [ceil(num_elements / 64)] words of 64 bits, of any alignment
  const uint8_t* values = nullptr;  ///< [num_values] elements, of any alignment
  size_t element_size = 1;          ///< bytes
  size_t num_elements = 0;
  size_t num_values = 0;

  /// Bytes of the dense form: at most 32 times those of the entry.
  size_t nbytes() const { return num_elements * element_size; }
};

/// Fills `out` after everything was checked that is used as an address later. `key` is for messages.
/// Errors: InvalidProgram. Cost: a look at each word of the mask.
Error read_sparse_bytes(std::string_view key, Span<const uint8_t> entry, SparseBytes* out);

/// Writes the dense form to out[nbytes()].
void unpack(const SparseBytes& sparse, void* out);

/// How bytes would be stored.
struct SparseLayout {
  size_t element_size = 0;  ///< bytes; 0: these bytes have no sparse form
  size_t num_elements = 0;
  size_t num_values = 0;
  size_t nbytes = 0;          ///< of the entry
  bool ignores_sign = false;  ///< a zero with a sign is a zero, too
};

/// The layout of elements of `dtype`. Zeros of floats count with either sign, and come back as positive ones.
SparseLayout sparse_layout(Span<const uint8_t> dense, ScalarType dtype);

/// Writes the entry for `dense`, whose layout it is, to out[layout.nbytes].
void write_sparse_bytes(const SparseLayout& layout, Span<const uint8_t> dense, uint8_t* out);

}  // namespace et
