#include "runtime/host/pages.h"

#include <sys/mman.h>

#include "base/checked_math.h"

namespace et::runtime {
namespace {

/// Bytes of address space for a block; 0 when there are not so many.
size_t mapped_size(size_t nbytes) {
  constexpr size_t kSmallPage = 4096;
  size_t huge;
  if (nbytes == 0 || align_up_overflow(nbytes, kHugePage, &huge)) {
    return 0;
  }
  const size_t unused = huge - nbytes;
  return unused <= kHugePage / 2 && unused <= nbytes / 4 ? huge : (nbytes + kSmallPage - 1) / kSmallPage * kSmallPage;
}

}  // namespace

void* map_pages(size_t nbytes, size_t written) {
  const size_t size = mapped_size(nbytes);
  size_t with_slack;
  if (size == 0 || add_overflow(size, kHugePage, &with_slack)) {
    return nullptr;
  }
  // Not MAP_NORESERVE: a size that this machine can never give, as a hostile file may plan, is refused here.
  void* const mapping = ::mmap(nullptr, with_slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    return nullptr;
  }
  // What the alignment left over in front and behind goes back.
  auto* const begin = static_cast<char*>(mapping);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(mapping) % kHugePage) % kHugePage;
  if (before > 0) {
    ::munmap(begin, before);
  }
  if (before < kHugePage) {
    ::munmap(begin + before + size, kHugePage - before);
  }
  want_huge_pages(begin + before, written < size ? written : size);
  return begin + before;
}

void want_huge_pages(void* at, size_t nbytes) {
#if defined(MADV_HUGEPAGE)
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(at) % kHugePage) % kHugePage;
  if (nbytes >= before + kHugePage) {  // a wish: where it is not granted nothing changes
    ::madvise(static_cast<char*>(at) + before, (nbytes - before) / kHugePage * kHugePage, MADV_HUGEPAGE);
  }
#else
  static_cast<void>(at), static_cast<void>(nbytes);
#endif
}

void drop_pages(void* block, size_t nbytes) { ::madvise(block, mapped_size(nbytes), MADV_DONTNEED); }

void unmap_pages(void* block, size_t nbytes) {
  if (block != nullptr) {
    ::munmap(block, mapped_size(nbytes));
  }
}

}  // namespace et::runtime
