/// Named data that a file may hold sparse (numerics/sparse_bytes.h): the entry "<key>", or "sparse:<key>" in its place.
///
/// For: the runtime half of backends whose compiler gave entries a `sparse_dtype`. Not for: anybody else's entries,
///      which are always under their own keys.
///
///     ET_TRY(const FreeableBuffer weight, get_dense(*context.named_data, key));   // packs it, and lets it go
#pragma once

#include <string_view>

#include "numerics/sparse_bytes.h"
#include "runtime/named_data_map.h"

namespace et::runtime {

/// An entry as it stands in the file.
struct StoredData {
  FreeableBuffer buffer;
  bool is_sparse = false;
  SparseBytes sparse;  ///< points into `buffer`

  size_t nbytes() const { return is_sparse ? sparse.nbytes() : buffer.size(); }  ///< of the dense form
};

/// The entry under `key`, or else its sparse form, checked.
/// Errors: NotFound when there is neither; InvalidProgram, naming the key, when the sparse form is damaged; the
///         loader's.
Result<StoredData> get_stored(const NamedDataMap& map, std::string_view key);

/// Unpacks into memory of the heap that the buffer frees: an address that another buffer may have next, which therefore
/// names nothing (is_borrowed() is false). Errors: MemoryAllocationFailed.
Result<FreeableBuffer> unpack_to_heap(const SparseBytes& sparse);

/// The dense bytes under `key`, whichever form the file has. Errors: those of both.
Result<FreeableBuffer> get_dense(const NamedDataMap& map, std::string_view key);

}  // namespace et::runtime
