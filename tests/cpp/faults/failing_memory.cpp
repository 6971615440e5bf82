#include "failing_memory.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <new>

// What stands behind: the C library's functions, or those of the address sanitizer.
#ifdef ET_ADDRESS_SANITIZER
#define ET_BEHIND(name) __interceptor_##name
#else
#define ET_BEHIND(name) __libc_##name
#endif

extern "C" {
void* ET_BEHIND(malloc)(size_t size);
void* ET_BEHIND(calloc)(size_t count, size_t size);
void* ET_BEHIND(realloc)(void* block, size_t size);
void* ET_BEHIND(memalign)(size_t alignment, size_t size);
void ET_BEHIND(free)(void* block);
}

namespace et::failing_memory {
namespace {

constexpr uint64_t kNever = UINT64_MAX;

std::atomic<uint64_t> requests{0};
std::atomic<uint64_t> fails_at{kNever};
std::atomic<bool> fails_for_good{false};
std::atomic<size_t> least{0};
std::atomic<bool> failed{false};
std::atomic<size_t> failed_size{0};
std::atomic<int64_t> blocks{0};
std::atomic<int64_t> mapped{0};
bool trace = false;

/// Counts a request; true when it is to fail.
bool fails(size_t nbytes) {
  const uint64_t at = fails_at.load(std::memory_order_relaxed);
  if (at == kNever || nbytes < least.load(std::memory_order_relaxed)) {
    return false;
  }
  const uint64_t number = requests.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number < at || (number > at && !fails_for_good.load(std::memory_order_relaxed))) {
    return false;
  }
  if (!failed.exchange(true)) {
    failed_size.store(nbytes);
    if (trace) {
      fails_at.store(kNever);
      void* frames[40];
      backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
      fails_at.store(at);
    }
  }
  return true;
}

void* counted(void* block) {
  if (block != nullptr) {
    blocks.fetch_add(1, std::memory_order_relaxed);
  }
  return block;
}

void* allocate(size_t nbytes, size_t alignment) {
  if (fails(nbytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return counted(alignment == 0 ? ET_BEHIND(malloc)(nbytes) : ET_BEHIND(memalign)(alignment, nbytes));
}

int64_t whole_pages(size_t nbytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return static_cast<int64_t>((nbytes + page - 1) / page * page);
}

}  // namespace

void arm(uint64_t n, bool for_good, size_t least_nbytes) {
  least.store(least_nbytes);
  requests.store(0);
  failed.store(false);
  failed_size.store(0);
  fails_for_good.store(for_good);
  fails_at.store(n);
}

uint64_t disarm() {
  fails_at.store(kNever);
  return requests.load();
}

bool has_failed() { return failed.load(); }
size_t failed_nbytes() { return failed_size.load(); }
void set_trace(bool on) { trace = on; }
int64_t live_blocks() { return blocks.load(); }
int64_t mapped_nbytes() { return mapped.load(); }

}  // namespace et::failing_memory

using et::failing_memory::allocate;

extern "C" {

// For ctypes, in a process that loads this before all others.
void et_failing_memory_arm(uint64_t n, size_t least_nbytes) { et::failing_memory::arm(n, false, least_nbytes); }
uint64_t et_failing_memory_disarm() { return et::failing_memory::disarm(); }

void* malloc(size_t nbytes) { return allocate(nbytes, 0); }

void* calloc(size_t count, size_t size) {
  if (et::failing_memory::fails(count * size)) {
    errno = ENOMEM;
    return nullptr;
  }
  return et::failing_memory::counted(ET_BEHIND(calloc)(count, size));
}

void* realloc(void* block, size_t nbytes) {
  if (et::failing_memory::fails(nbytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  void* const moved = ET_BEHIND(realloc)(block, nbytes);
  return block == nullptr ? et::failing_memory::counted(moved) : moved;
}

void free(void* block) {
  if (block != nullptr) {
    et::failing_memory::blocks.fetch_sub(1, std::memory_order_relaxed);
  }
  ET_BEHIND(free)(block);
}

void* memalign(size_t alignment, size_t nbytes) { return allocate(nbytes, alignment); }
void* aligned_alloc(size_t alignment, size_t nbytes) { return allocate(nbytes, alignment); }

int posix_memalign(void** block, size_t alignment, size_t nbytes) {
  void* const memory = allocate(nbytes, alignment);
  if (memory == nullptr) {
    return ENOMEM;
  }
  *block = memory;
  return 0;
}

void* mmap(void* address, size_t nbytes, int protection, int flags, int file, off_t offset) noexcept {
  if (et::failing_memory::fails(nbytes)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  void* const place = reinterpret_cast<void*>(syscall(SYS_mmap, address, nbytes, protection, flags, file, offset));
  if (place != MAP_FAILED && (flags & MAP_FIXED) == 0) {
    et::failing_memory::mapped.fetch_add(et::failing_memory::whole_pages(nbytes));
  }
  return place;
}

int munmap(void* address, size_t nbytes) noexcept {
  et::failing_memory::mapped.fetch_sub(et::failing_memory::whole_pages(nbytes));
  return static_cast<int>(syscall(SYS_munmap, address, nbytes));
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (et::failing_memory::fails(0)) {
    return EAGAIN;
  }
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, run, argument);
}

}  // extern "C"

#ifdef ET_ADDRESS_SANITIZER
// The sanitizer has operators of its own, which would pass malloc by.
void* operator new(size_t nbytes) {
  void* const block = malloc(nbytes);
  return block != nullptr ? block : throw std::bad_alloc();
}
void* operator new(size_t nbytes, std::align_val_t alignment) {
  void* const block = memalign(static_cast<size_t>(alignment), nbytes);
  return block != nullptr ? block : throw std::bad_alloc();
}
void* operator new(size_t nbytes, const std::nothrow_t&) noexcept { return malloc(nbytes); }
void* operator new(size_t nbytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return memalign(static_cast<size_t>(alignment), nbytes);
}
void* operator new[](size_t nbytes) { return operator new(nbytes); }
void* operator new[](size_t nbytes, std::align_val_t alignment) { return operator new(nbytes, alignment); }
void* operator new[](size_t nbytes, const std::nothrow_t&) noexcept { return malloc(nbytes); }
void* operator new[](size_t nbytes, std::align_val_t alignment, const std::nothrow_t& tag) noexcept {
  return operator new(nbytes, alignment, tag);
}
void operator delete(void* block) noexcept { free(block); }
void operator delete(void* block, size_t) noexcept { free(block); }
void operator delete(void* block, std::align_val_t) noexcept { free(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { free(block); }
void operator delete[](void* block) noexcept { free(block); }
void operator delete[](void* block, size_t) noexcept { free(block); }
void operator delete[](void* block, std::align_val_t) noexcept { free(block); }
void operator delete[](void* block, size_t, std::align_val_t) noexcept { free(block); }
#endif
