/// HeapAllocator: a MemoryAllocator that takes blocks from the heap as they are needed.
///
/// For: hosts with an operating system. Not for: microcontrollers (this folder is left out there).
#pragma once

#include "runtime/memory_allocator.h"
#include "runtime/tensor.h"

namespace et::runtime {

/// Grows without limit. reset() keeps blocks for the next round, but those that were too small for all that this one
/// requested; the destructor frees them. Kernels may read kReadAhead bytes (tensor.h) past what is handed out. Large
/// blocks come from the system in huge pages (pages.h). Memory is zeroed when it is handed out first, not when it is
/// handed out again after a reset.
class HeapAllocator final : public MemoryAllocator {
 public:
  /// `block_size`: bytes of a block; a larger request gets a block of its own.
  explicit HeapAllocator(size_t block_size = 16 * 1024) : block_size_(block_size) {}
  ~HeapAllocator() override;

  void* allocate(size_t nbytes, size_t alignment = kDefaultAlignment) override;
  void reset() override;
  size_t used() const override { return used_; }

 private:
  struct Block {
    Block* next;
    size_t size;  // bytes behind the header
    size_t used;
  };
  /// What a block has beside its bytes: the header before them, and behind them what kernels read past a tensor.
  static constexpr size_t kAround = sizeof(Block) + kReadAhead;
  static Block* make_block(size_t total);
  static void free_block(Block* block);

  Block* first_ = nullptr;
  Block* current_ = nullptr;
  size_t block_size_;
  size_t used_ = 0;
};

}  // namespace et::runtime
