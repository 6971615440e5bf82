/// Memory that ends where it was asked to: what a kernel reads or writes beyond it, builds with the address sanitizer
/// report.
///
/// For: tensors and allocators of the kernels' tests. Libraries, which no sanitizer sees, may read kReadAhead bytes
///      further (tensor.h).
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime/memory_allocator.h"
#include "runtime/tensor.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#endif

namespace et::kernels::testing {

/// Each request gets a block of its own, filled with what no kernel may rely on.
class ExactAllocator final : public runtime::MemoryAllocator {
 public:
  ~ExactAllocator() override { reset(); }

  void* allocate(size_t nbytes, size_t alignment) override {
    constexpr size_t kMost = size_t{1} << 34;
    void* block = nullptr;
    if (nbytes > kMost ||
        posix_memalign(&block, std::max(alignment, sizeof(void*)), nbytes + runtime::kReadAhead) != 0) {
      return nullptr;
    }
    std::memset(block, 0xee, nbytes + runtime::kReadAhead);
    ASAN_POISON_MEMORY_REGION(static_cast<char*>(block) + nbytes, runtime::kReadAhead);
    blocks_.push_back(block);
    return block;
  }
  void reset() override {
    for (void* const block : blocks_) {
      std::free(block);
    }
    blocks_.clear();
  }

 private:
  std::vector<void*> blocks_;
};

}  // namespace et::kernels::testing
