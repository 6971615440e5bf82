/// MemoryAllocator: where the runtime takes memory from, and MemoryManager: the allocators of one Method.
///
/// For: embedders, who decide where every byte comes from. The runtime never calls malloc; with the allocators of
/// runtime/host/heap_allocator.h it runs on the heap, with a static array on a microcontroller.
/// Not for: freeing single blocks. Everything taken is given back together.
///
///     alignas(16) static uint8_t pool[16 * 1024];
///     MemoryAllocator method_allocator(pool, sizeof(pool));
///     uint8_t* arena = …;                       // meta.memory_planned_buffer_size(0) bytes
///     Span<uint8_t> planned[] = {{arena, arena_size}};
///     MemoryManager memory(&method_allocator, planned);
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/checked_math.h"
#include "base/result.h"
#include "base/span.h"

namespace et::runtime {

/// Hands out pieces of one block, one after the other. Derive from it to take memory from elsewhere.
/// Threads: one at a time.
class MemoryAllocator {
 public:
  static constexpr size_t kDefaultAlignment = 16;

  /// An allocator of nothing, for those who override allocate().
  MemoryAllocator() = default;
  /// Hands out [base, base + size), which must live as long as what was taken from it.
  MemoryAllocator(uint8_t* base, size_t size) : base_(base), size_(size) {}
  MemoryAllocator(const MemoryAllocator&) = delete;
  MemoryAllocator& operator=(const MemoryAllocator&) = delete;
  virtual ~MemoryAllocator() = default;

  /// `nbytes` bytes at a multiple of `alignment` (a power of two), or nullptr when there is no room. The bytes are not
  /// initialised. nbytes = 0 gives a pointer that must not be read through.
  virtual void* allocate(size_t nbytes, size_t alignment = kDefaultAlignment) {
    const uintptr_t here = reinterpret_cast<uintptr_t>(base_) + used_;
    size_t start;
    if (base_ == nullptr || align_up_overflow(here, alignment, &start)) {
      return nullptr;
    }
    const size_t padding = start - here;
    if (padding > size_ - used_ || nbytes > size_ - used_ - padding) {
      return nullptr;
    }
    used_ += padding + nbytes;
    return reinterpret_cast<void*>(start);
  }

  /// Makes all memory available again. What was taken before must not be used any more.
  virtual void reset() { used_ = 0; }

  /// Bytes handed out since the last reset, padding included.
  virtual size_t used() const { return used_; }

  /// `count` uninitialised objects of type T. Errors: MemoryAllocationFailed.
  template <typename T>
  Result<T*> allocate_list(size_t count) {
    size_t nbytes;
    void* memory = mul_overflow(count, sizeof(T), &nbytes)
                       ? nullptr
                       : allocate(nbytes, alignof(T) > kDefaultAlignment ? alignof(T) : kDefaultAlignment);
    ET_CHECK_OR_RETURN(memory != nullptr, MemoryAllocationFailed,
                       "allocator has no room for %zu objects of %zu bytes (%zu bytes are used); give it more memory",
                       count, sizeof(T), used());
    return static_cast<T*>(memory);
  }

 private:
  uint8_t* base_ = nullptr;
  size_t size_ = 0;
  size_t used_ = 0;
};

/// The memory of one Method. Everything in it must outlive the Method and is used by nothing else meanwhile.
struct MemoryManager {
  /// For what lives as long as the Method: value table, instructions, states of kernels and delegates.
  MemoryAllocator* method_allocator = nullptr;
  /// The planned buffers: planned_memory[i] has memory id i + 1. Each is at least as long as
  /// MethodMeta::memory_planned_buffer_size(i) says and aligned to 16 bytes. A buffer that a Session holds may be
  /// empty.
  Span<const Span<uint8_t>> planned_memory = {};
  /// For one instruction's scratch memory; reset after each. nullptr: kernels that need some fail.
  MemoryAllocator* temp_allocator = nullptr;
  /// For outputs whose size depends on data (nullptr: they fail), and copies of what ends where a page may; reset at
  /// each execution.
  MemoryAllocator* data_allocator = nullptr;
};

}  // namespace et::runtime
