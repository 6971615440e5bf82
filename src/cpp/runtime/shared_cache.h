/// SharedCache: objects that are made once and used by all methods of a Program, above all packed weights.
///
/// For: `prepare` of kernels and `init` of delegates. An object is named by what it was made from: the address of the
/// constant bytes (which all methods of a Program share) and a tag for how.
/// Not for: anything that an execution changes.
///
///     SharedCache::Key key{&kPackConv, weight.const_data_ptr(), nullptr, tile_size};
///     ET_TRY(void* const packed, shared->get_or_create(key, &pack, &arguments, &unpack));
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "base/span.h"

namespace et::runtime {

class PackedMemory;

class SharedCache {
 public:
  /// Two keys are the same object when all five members are equal. What decides how large the object is must be in
  /// them: a program may show the same bytes in several shapes.
  struct Key {
    const void* maker = nullptr;  ///< address of something of the maker's own, so that makers never meet
    const void* a = nullptr;      ///< address of the bytes it is made from
    const void* b = nullptr;      ///< of further bytes
    uint64_t variant = 0;         ///< parameters of how it is made, hashed or packed
    uint64_t shape = 0;           ///< sizes of what it is made from, packed side by side
  };
  /// Makes the object. Runs under the cache's lock, so it must not use the cache itself.
  using Create = Result<void*> (*)(void* argument);
  using Destroy = void (*)(void* object);

  virtual ~SharedCache() = default;

  /// The object of `key`, made by `create(argument)` at its first use. Lives as long as the cache; `destroy` ends it.
  /// Without `destroy` it is what `create` took last of memory(): plain bytes (PackedMemory::keep). Threads: safe.
  virtual Result<void*> get_or_create(const Key& key, Create create, void* argument, Destroy destroy) = 0;

  /// The cache for what is made of nothing but the bytes at these addresses; those that are nullptr do not count. It is
  /// this one, unless all of them lie in a file that several programs have mapped. That has a cache of its own, for all
  /// of them, which lives as long as the mapping.
  virtual SharedCache* cache_of(Span<const void* const> addresses) {
    static_cast<void>(addresses);
    return this;
  }

  /// Said by a kernel at the end of its `prepare`, when it has packed the constant bytes at `data` and will not read
  /// them again. Where they were unpacked for it, their memory can be given back.
  virtual void release(const void* data) { static_cast<void>(data); }

  /// Bytes of the constants that objects are made from, which is about what packed weights take; SIZE_MAX: not known.
  virtual size_t constant_nbytes() const { return SIZE_MAX; }

  /// Memory for what objects are made of (runtime/host/packed_memory.h). It lives as long as the cache, and is there
  /// in a Create, too.
  virtual PackedMemory& memory() = 0;
};

/// SharedCache::release for a cache that may be nullptr.
inline void release(SharedCache* shared, const void* data) {
  if (shared != nullptr) {
    shared->release(data);
  }
}

}  // namespace et::runtime
