/// The published classes that give a method its memory.
///
/// For: Program::load_method in its published form (extension/program/program.h). Not for: the runtime's own
///      MemoryManager, a struct (runtime/memory_allocator.h).
///
///     static uint8_t pool[16 * 1024];
///     MemoryAllocator allocator(sizeof(pool), pool);
///     MemoryManager memory(&allocator, &planned);
#pragma once

#include <vector>

#include "runtime/host/heap_allocator.h"

namespace et::extension {

/// Hands out pieces of one block; the base of allocators of the application's.
class MemoryAllocator : public runtime::MemoryAllocator {
 public:
  MemoryAllocator(uint32_t size, uint8_t* base) : runtime::MemoryAllocator(base, size) {}

  /// One object or several, not made yet; nullptr when there is no room.
  template <typename T>
  T* allocateInstance(size_t alignment = alignof(T)) {
    return allocateList<T>(1, alignment);
  }
  template <typename T>
  T* allocateList(size_t count, size_t alignment = alignof(T)) {
    return count > SIZE_MAX / sizeof(T) ? nullptr : static_cast<T*>(allocate(count * sizeof(T), alignment));
  }
};

/// Takes memory from the heap and gives it back as a whole.
class MallocMemoryAllocator final : public MemoryAllocator {
 public:
  MallocMemoryAllocator() : MemoryAllocator(0, nullptr) {}
  void* allocate(size_t nbytes, size_t alignment = kDefaultAlignment) override {
    return heap_.allocate(nbytes, alignment);
  }
  void reset() override { heap_.reset(); }
  size_t used() const override { return heap_.used(); }

 private:
  runtime::HeapAllocator heap_;
};

/// The planned buffers of a method: buffer i has memory id i + 1. The buffers outlive it.
class HierarchicalAllocator {
 public:
  explicit HierarchicalAllocator(Span<Span<uint8_t>> buffers) : buffers_(buffers.begin(), buffers.end()) {}

  Span<const Span<uint8_t>> buffers() const { return buffers_; }
  /// The address of a range of buffer `id`, counted from 0. Errors: InvalidArgument, no such buffer;
  /// MemoryAllocationFailed, the range is not inside of it.
  Result<void*> get_offset_address(uint32_t id, size_t offset, size_t nbytes) const {
    ET_CHECK_OR_RETURN(id < buffers_.size(), InvalidArgument, "there is no buffer %u, there are %zu",
                       static_cast<unsigned>(id), buffers_.size());
    const Span<uint8_t> buffer = buffers_[id];
    ET_CHECK_OR_RETURN(offset <= buffer.size() && nbytes <= buffer.size() - offset, MemoryAllocationFailed,
                       "%zu bytes at %zu are not inside buffer %u of %zu bytes", nbytes, offset,
                       static_cast<unsigned>(id), buffer.size());
    return static_cast<void*>(buffer.data() + offset);
  }

 private:
  std::vector<Span<uint8_t>> buffers_;
};

/// Without a `temp_allocator` scratch memory comes from the heap.
class MemoryManager final {
 public:
  explicit MemoryManager(runtime::MemoryAllocator* method_allocator, HierarchicalAllocator* planned_memory = nullptr,
                         runtime::MemoryAllocator* temp_allocator = nullptr)
      : method_allocator_(method_allocator), planned_memory_(planned_memory), temp_allocator_(temp_allocator) {}

  runtime::MemoryAllocator* method_allocator() const { return method_allocator_; }
  HierarchicalAllocator* planned_memory() const { return planned_memory_; }
  runtime::MemoryAllocator* temp_allocator() const { return temp_allocator_; }

 private:
  runtime::MemoryAllocator* method_allocator_;
  HierarchicalAllocator* planned_memory_;
  runtime::MemoryAllocator* temp_allocator_;
};

}  // namespace et::extension
