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
#include <mutex>

#include "base/result.h"

namespace et::runtime {

class SharedCache;

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
  /// So many bytes more than the owner says will be packed. Threads: safe.
  void expect(size_t nbytes);
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
  std::mutex mutex_;       // guards all below
  Slab* slabs_ = nullptr;  // the one in use first
  void* last_ = nullptr;
  size_t total_ = 0, more_ = 0;  // bytes handed out, and expected beyond what the owner says
};

}  // namespace et::runtime
