#include "runtime/host/file_loader.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include <fcntl.h>
#include <unistd.h>

#include "base/checked_math.h"
#include "runtime/host/open_file.h"
#include "runtime/host/out_of_memory.h"

namespace et::runtime {

Result<OpenFile> open_file(const std::string& path) {
  // A named pipe, which is refused below, would wait for a writer.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  ET_CHECK_OR_RETURN(file >= 0, AccessFailed, "cannot open '%s': %s", path.c_str(), std::strerror(errno));
  struct stat status;
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    ET_LOG_ERROR("'%s' is not a regular file", path.c_str());
    ::close(file);
    return Error::AccessFailed;
  }
  return OpenFile{file, static_cast<size_t>(status.st_size)};
}

Result<std::unique_ptr<FileLoader>> FileLoader::open(const std::string& path) try {
  std::unique_ptr<FileLoader> loader(new FileLoader(path));
  ET_TRY(const OpenFile file, open_file(path));
  loader->file_ = file.descriptor;
  loader->size_ = file.size;
  return loader;
}
ET_NO_MEMORY("the loader of '%s'", path.c_str())

FileLoader::~FileLoader() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

Result<FreeableBuffer> FileLoader::load(size_t offset, size_t nbytes) {
  ET_CHECK_OR_RETURN(offset <= size_ && nbytes <= size_ - offset, InvalidArgument,
                     "%zu bytes at %zu are not inside '%s' of %zu bytes", nbytes, offset, path_.c_str(), size_);
  constexpr size_t kAlignment = 64;
  size_t rounded;
  const bool overflows = align_up_overflow(nbytes == 0 ? 1 : nbytes, kAlignment, &rounded);
  void* memory = overflows ? nullptr : std::aligned_alloc(kAlignment, rounded);
  ET_CHECK_OR_RETURN(memory != nullptr, MemoryAllocationFailed, "no memory for %zu bytes of '%s'", nbytes,
                     path_.c_str());
  FreeableBuffer buffer(memory, nbytes, [](void*, const void* data, size_t) { std::free(const_cast<void*>(data)); });
  for (size_t done = 0; done < nbytes;) {
    const ssize_t count =
        ::pread(file_, static_cast<char*>(memory) + done, nbytes - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    ET_CHECK_OR_RETURN(count > 0, AccessFailed, "cannot read '%s' at byte %zu: %s", path_.c_str(), offset + done,
                       count == 0 ? "the file became shorter" : std::strerror(errno));
    done += static_cast<size_t>(count);
  }
  return buffer;
}

}  // namespace et::runtime
