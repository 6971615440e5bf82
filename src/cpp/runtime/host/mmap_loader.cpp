#include "runtime/host/mmap_loader.h"

#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "runtime/host/open_file.h"
#include "runtime/host/out_of_memory.h"

namespace et::runtime {
namespace {

size_t page_size() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

/// What a mapping takes: whole pages, and a page of zeros behind them, which kernels that read whole vectors may touch.
size_t room_for(size_t nbytes) {
  const size_t page = page_size();
  return (nbytes + page - 1) / page * page + page;
}

}  // namespace

Result<std::unique_ptr<MmapLoader>> MmapLoader::open(const std::string& path) try {
  std::unique_ptr<MmapLoader> loader(new MmapLoader(path));
  ET_TRY(const OpenFile file, open_file(path));
  void* data = nullptr;
  int error = 0;
  if (file.size > 0) {
    void* const room = ::mmap(nullptr, room_for(file.size), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    data = room == MAP_FAILED ? room : ::mmap(room, file.size, PROT_READ, MAP_PRIVATE | MAP_FIXED, file.descriptor, 0);
    error = errno;
    if (data == MAP_FAILED && room != MAP_FAILED) {
      ::munmap(room, room_for(file.size));
    }
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
  if (begin < base || begin - base > size_ || nbytes > size_ - (begin - base)) {
    return;  // not of this file
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
