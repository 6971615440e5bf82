#include "runtime/host/heap_allocator.h"

#include <cstdlib>

#include "runtime/host/pages.h"

namespace et::runtime {

namespace {
/// Blocks from this size on are worth pages of their own, which go back to the system as they are freed.
constexpr size_t kLarge = size_t{64} << 10;
/// Between this and kHugePage / 2 a block has room for somewhat larger requests of later rounds, which costs address
/// space only.
constexpr size_t kLeastRoom = size_t{512} << 10;

/// Bytes of a block, all in all, for a request that takes `total`.
size_t with_room(size_t total) {
  return total < kLarge || total > kHugePage / 2 ? total : total <= kLeastRoom ? kLeastRoom : kHugePage / 2;
}
}  // namespace

HeapAllocator::Block* HeapAllocator::make_block(size_t total) {
  return static_cast<Block*>(total >= kLarge ? map_pages(total) : std::calloc(1, total));
}

void HeapAllocator::free_block(Block* block) {
  const size_t total = kAround + block->size;
  if (total >= kLarge) {
    unmap_pages(block, total);
  } else {
    std::free(block);
  }
}

HeapAllocator::~HeapAllocator() {
  while (first_ != nullptr) {
    Block* next = first_->next;
    free_block(first_);
    first_ = next;
  }
}

void* HeapAllocator::allocate(size_t nbytes, size_t alignment) {
  // The bytes of a block begin behind its header; a request is placed by address, whatever that alignment is.
  const auto place = [&](Block* block) -> void* {
    const uintptr_t base = reinterpret_cast<uintptr_t>(block + 1);
    size_t start;
    size_t end;
    if (align_up_overflow(base + block->used, alignment, &start) || add_overflow(start, nbytes, &end) ||
        end > base + block->size) {
      return nullptr;
    }
    used_ += end - base - block->used;
    block->used = end - base;
    return reinterpret_cast<void*>(start);
  };
  for (; current_ != nullptr; current_ = current_->next) {
    void* memory = place(current_);
    if (memory != nullptr) {
      return memory;
    }
    if (current_->next == nullptr) {
      break;
    }
  }
  size_t needed;
  if (add_overflow(nbytes, alignment, &needed)) {
    return nullptr;
  }
  const size_t size = needed > block_size_ ? needed : block_size_;
  size_t total;
  if (add_overflow(size, kAround, &total)) {
    return nullptr;
  }
  total = with_room(total);
  Block* const block = make_block(total);
  if (block == nullptr) {
    return nullptr;
  }
  block->size = total - kAround;
  if (current_ == nullptr) {
    first_ = block;
  } else {
    current_->next = block;
  }
  current_ = block;
  return place(block);
}

void HeapAllocator::reset() {
  // A round that took several blocks gets one for all of it, the next time that it needs a new one.
  if (first_ != nullptr && used_ > first_->size && used_ > block_size_) {
    block_size_ = used_ + used_ / 16 + 256;
  }
  // Blocks that this round passed over are too small for the request, where there is a larger one. The others
  // stay.
  size_t largest = 0;
  for (Block* block = first_; block != nullptr; block = block->next) {
    largest = block->size > largest ? block->size : largest;
  }
  for (Block** link = &first_; *link != nullptr;) {
    Block* const block = *link;
    if (block->used == 0 && block->size < largest) {
      *link = block->next;
      free_block(block);
    } else {
      block->used = 0;
      link = &block->next;
    }
  }
  current_ = first_;
  used_ = 0;
}

}  // namespace et::runtime
