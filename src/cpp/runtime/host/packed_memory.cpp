#include "runtime/host/packed_memory.h"

#include <algorithm>
#include <cstdlib>

#include "base/checked_math.h"
#include "runtime/host/pack_cache.h"
#include "runtime/host/pages.h"
#include "runtime/shared_cache.h"

namespace et::runtime {
namespace {

constexpr size_t kAlignment = 64;                                        // kernels load whole lines
constexpr size_t kSmall = size_t{256} << 10, kLarge = size_t{64} << 20;  // bytes of a slab

}  // namespace

PackedMemory::~PackedMemory() {
  while (slabs_ != nullptr) {
    Slab* const next = slabs_->next;
    slabs_->is_mapped ? unmap_pages(slabs_->base, slabs_->size) : std::free(slabs_->base);
    std::free(slabs_);
    slabs_ = next;
  }
}

void PackedMemory::expect(size_t nbytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  more_ += std::min(nbytes, SIZE_MAX - more_);
}

Result<void*> PackedMemory::allocate(size_t nbytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t size;
  const bool overflows = align_up_overflow(nbytes, kAlignment, &size);
  ET_CHECK_OR_RETURN(!overflows && ((slabs_ != nullptr && slabs_->size - slabs_->used >= size) || add_slab(size)),
                     MemoryAllocationFailed, "no memory for %zu bytes of packed weights", nbytes);
  last_ = slabs_->base + slabs_->used;
  slabs_->used += size;
  total_ += size;
  const size_t whole = slabs_->used / kHugePage * kHugePage;
  if (slabs_->is_mapped && whole > slabs_->huge) {  // more than was expected
    want_huge_pages(slabs_->base + slabs_->huge, whole - slabs_->huge);
    slabs_->huge = whole;
  }
  return last_;
}

void PackedMemory::undo(void* memory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (memory != nullptr && memory == last_) {
    const auto used = static_cast<size_t>(static_cast<char*>(memory) - slabs_->base);
    total_ -= slabs_->used - used;
    slabs_->used = used;
    last_ = nullptr;
  }
}

size_t PackedMemory::nbytes_of_last(const void* memory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return memory == nullptr || memory != last_
             ? 0
             : static_cast<size_t>(slabs_->base + slabs_->used - static_cast<const char*>(memory));
}

const void* PackedMemory::kept(const PackedName& name) { return file_ == nullptr ? nullptr : file_->find(name); }

void PackedMemory::keep(const PackedName& name, const void* packed, size_t nbytes) {
  if (file_ != nullptr) {
    file_->add(name, packed, nbytes);
  }
}

bool PackedMemory::add_slab(size_t least) {
  auto* const slab = static_cast<Slab*>(std::malloc(sizeof(Slab)));
  if (slab == nullptr) {
    return false;
  }
  const bool is_mapped = total_ + least > 2 * kSmall;
  size_t size = std::max(least, is_mapped ? kLarge : kSmall);
  size_t written = 0;
  void* base = nullptr;
  if (is_mapped) {
    const size_t known = owner_->constant_nbytes();
    const size_t expected = known + std::min(more_, SIZE_MAX - known);
    written = std::max(least, expected - std::min(expected, total_));
    base = map_pages(size, written);
    if (base == nullptr) {  // a system that counts address space as memory
      size = least;
      base = map_pages(size);
    }
  } else if (posix_memalign(&base, kAlignment, size) != 0) {
    base = nullptr;
  }
  if (base == nullptr) {
    std::free(slab);
    return false;
  }
  *slab = {slabs_, static_cast<char*>(base), size, 0, written / kHugePage * kHugePage, is_mapped};
  slabs_ = slab;
  return true;
}

}  // namespace et::runtime
