/// PackedMemory: where packed weights lie that live as long as their cache (SharedCache::memory).
///
/// For: kernels and delegates that pack constants at load. Not for: what is given back one by one.
///
///     ET_TRY(void* const packed, context.shared()->memory().allocate(nbytes));   // in a cache's `create`
///
/// The first blocks are small, for small programs. Those that follow are address space for many weights. The system
/// makes memory of it, in huge pages, as far as it is written. With small pages a load spends more time on page faults
/// than on packing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/result.h"
#include "base/span.h"

namespace et::runtime {

class PackCache;
class SharedCache;

/// What packed bytes were made from: addresses of constants, of which any may be nullptr, and all else that decides how
/// they are packed. The first address is the maker's.
struct PackedName {
  Span<const void* const> addresses;
  Span<const uint64_t> numbers;
};

class PackedMemory {
 public:
  /// `owner` says about how many bytes will be packed (SharedCache::constant_nbytes); it outlives this.
  explicit PackedMemory(const SharedCache* owner) : owner_(owner) {}
  ~PackedMemory();
  PackedMemory(const PackedMemory&) = delete;
  PackedMemory& operator=(const PackedMemory&) = delete;

  /// `nbytes` bytes at a multiple of 64, as the last owner left them. Errors: MemoryAllocationFailed. Threads: safe.
  Result<void*> allocate(size_t nbytes);
  /// Gives back what allocate() returned last; does nothing for any other address. Threads: safe.
  void undo(void* memory);
  /// Bytes, in whole lines, of what allocate() returned last; 0 for any other address. Threads: safe.
  size_t nbytes_of_last(const void* memory);
  /// So many bytes more than the owner says will be packed. Threads: safe.
  void expect(size_t nbytes);

  /// The bytes that an earlier process packed under this name and kept in a file; nullptr: none. Threads: safe.
  const void* kept(const PackedName& name);
  /// Says that `packed` may be kept in a file: `nbytes` plain bytes of this memory, without an address in them, that
  /// nobody changes any more. Threads: safe.
  void keep(const PackedName& name, const void* packed, size_t nbytes);
  /// Where they are kept; nullptr: nowhere. Must outlive this. To be called before any other use.
  void set_file(PackCache* file) { file_ = file; }

  /// Handed out, in whole lines.
  size_t nbytes() const { return total_; }

 private:
  struct Slab {
    Slab* next;
    char* base;
    size_t size, used, huge;  // huge: bytes from the start that are, or will be, in huge pages
    bool is_mapped;
  };

  bool add_slab(size_t least);

  const SharedCache* owner_;
  PackCache* file_ = nullptr;
  std::mutex mutex_;       // guards all below
  Slab* slabs_ = nullptr;  // the one in use first
  void* last_ = nullptr;
  size_t total_ = 0, more_ = 0;  // bytes handed out, and expected beyond what the owner says
};

}  // namespace et::runtime
