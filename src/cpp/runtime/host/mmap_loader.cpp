#include "runtime/host/mmap_loader.h"

#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "runtime/host/open_file.h"
#include "runtime/host/out_of_memory.h"

namespace et::runtime {
namespace {

#ifdef __EMSCRIPTEN__
constexpr bool kMapsInPlace = false;  // a mapped file is a copy, where the C library wants it
#else
constexpr bool kMapsInPlace = true;
#endif

size_t page_size() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

/// What a mapping takes: whole pages, and a page of zeros behind them, which kernels that read whole vectors may touch.
size_t room_for(size_t nbytes) {
  const size_t page = page_size();
  return kMapsInPlace ? (nbytes + page - 1) / page * page + page : nbytes;
}

/// The file in memory; MAP_FAILED with errno.
void* map_file(int descriptor, size_t nbytes) {
  if (!kMapsInPlace) {
    return ::mmap(nullptr, nbytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  }
  void* const room = ::mmap(nullptr, room_for(nbytes), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    return room;
  }
  void* const data = ::mmap(room, nbytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, descriptor, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    ::munmap(room, room_for(nbytes));
    errno = error;
  }
  return data;
}

}  // namespace

Result<std::unique_ptr<MmapLoader>> MmapLoader::open(const std::string& path) try {
  std::unique_ptr<MmapLoader> loader(new MmapLoader(path));
  ET_TRY(const OpenFile file, open_file(path));
  void* data = nullptr;
  int error = 0;
  if (file.size > 0) {
    data = map_file(file.descriptor, file.size);
    error = errno;
  }
  ::close(file.descriptor);  // the mapping stays
  ET_CHECK_OR_RETURN(data != MAP_FAILED || error != ENOMEM, MemoryAllocationFailed,
                     "no memory to map the %zu bytes of '%s'", file.size, path.c_str());
  ET_CHECK_OR_RETURN(data != MAP_FAILED, AccessFailed, "cannot map '%s': %s", path.c_str(), std::strerror(error));
  loader->data_ = data;
  loader->size_ = file.size;
  return loader;
}
ET_NO_MEMORY("the loader of '%s'", path.c_str())

MmapLoader::~MmapLoader() {
  if (size_ > 0) {
    ::munmap(const_cast<void*>(data_), room_for(size_));
  }
}

Error MmapLoader::lock(bool report) {
  if (size_ == 0 || ::mlock(data_, size_) == 0) {
    return Error::Ok;
  }
  const int error = errno;
  ET_CHECK_OR_RETURN(!report, AccessFailed,
                     "cannot keep '%s' (%zu bytes) in memory: %s; raise `ulimit -l` or map it "
                     "without locking",
                     path_.c_str(), size_, std::strerror(error));
  return Error::AccessFailed;
}

Result<FreeableBuffer> MmapLoader::load(size_t offset, size_t nbytes) {
  ET_CHECK_OR_RETURN(offset <= size_ && nbytes <= size_ - offset, InvalidArgument,
                     "%zu bytes at %zu are not inside '%s' of %zu bytes", nbytes, offset, path_.c_str(), size_);
  return FreeableBuffer(static_cast<const uint8_t*>(data_) + offset, nbytes);
}

void MmapLoader::discard(const void* data, size_t nbytes) {
  const auto base = reinterpret_cast<uintptr_t>(data_);
  const auto begin = reinterpret_cast<uintptr_t>(data);
  if (!kMapsInPlace || begin < base || begin - base > size_ || nbytes > size_ - (begin - base)) {
    return;  // not of this file, or a copy of it
  }
  // Whole pages only. They are the file's, since nothing can write to the mapping.
  const auto page = uintptr_t{page_size()};
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t end = (begin + nbytes) / page * page;
  if (first < end) {
    ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
  }
}

}  // namespace et::runtime
