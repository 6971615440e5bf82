#include "runtime/host/sparse_data.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "runtime/host/out_of_memory.h"

namespace et::runtime {

Result<StoredData> get_stored(const NamedDataMap& map, std::string_view key) try {
  StoredData out;
  if (!map.find(key, nullptr)) {
    const std::string sparse_key = std::string(kSparsePrefix).append(key);
    if (map.find(sparse_key, nullptr)) {
      ET_TRY(out.buffer, map.get(sparse_key));
      ET_RETURN_IF_ERROR(read_sparse_bytes(sparse_key, {out.buffer.data(), out.buffer.size()}, &out.sparse));
      out.is_sparse = true;
      return out;
    }
  }
  ET_TRY(out.buffer, map.get(key));  // which says what is missing
  return out;
}
ET_NO_MEMORY("a look for a key of %zu bytes", key.size())

Result<FreeableBuffer> unpack_to_heap(const SparseBytes& sparse) {
  void* const memory = std::malloc(sparse.nbytes());
  ET_CHECK_OR_RETURN(memory != nullptr, MemoryAllocationFailed, "no memory for %zu bytes of sparse data",
                     sparse.nbytes());
  unpack(sparse, memory);
  return FreeableBuffer(memory, sparse.nbytes(),
                        [](void*, const void* data, size_t) { std::free(const_cast<void*>(data)); });
}

Result<FreeableBuffer> get_dense(const NamedDataMap& map, std::string_view key) {
  ET_TRY(StoredData stored, get_stored(map, key));
  if (stored.is_sparse) {
    return unpack_to_heap(stored.sparse);
  }
  return std::move(stored.buffer);
}

}  // namespace et::runtime
