#include "emit/sink.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace et::emit {
namespace {

Error fail(const char* what, const std::string& path) {
  ET_LOG_ERROR("%s %s: %s", what, path.c_str(), std::strerror(errno));
  return Error::AccessFailed;
}

Error write_zeros(Sink& sink, uint64_t nbytes) {
  static constexpr uint8_t kZeros[512] = {};
  while (nbytes > 0) {
    const uint64_t count = std::min<uint64_t>(nbytes, sizeof(kZeros));
    ET_RETURN_IF_ERROR(sink.write(kZeros, count));
    nbytes -= count;
  }
  return Error::Ok;
}

}  // namespace

Error MemorySink::write(const void* data, uint64_t nbytes) {
  ET_CHECK_OR_RETURN(nbytes <= left_, OutOfResources, "the buffer is %" PRIu64 " bytes too small", nbytes - left_);
  if (nbytes != 0) {
    std::memcpy(next_, data, nbytes);
  }
  next_ += nbytes;
  left_ -= nbytes;
  return Error::Ok;
}

FileSink::FileSink(std::string path) : path_(std::move(path)) {
  // The same folder, so that the rename stays on one file system; the process id, so that two writers do not meet.
  temporary_ = path_ + "." + std::to_string(getpid()) + ".tmp";
}

FileSink::~FileSink() {
  if (file_ != nullptr) {
    static_cast<void>(std::fclose(file_));
    static_cast<void>(std::remove(temporary_.c_str()));
  }
}

Error FileSink::open() {
  file_ = std::fopen(temporary_.c_str(), "wb");
  return file_ != nullptr ? Error::Ok : fail("cannot write", path_);
}

Error FileSink::write(const void* data, uint64_t nbytes) {
  if (nbytes != 0 && std::fwrite(data, 1, nbytes, file_) != nbytes) {
    return fail("cannot write", path_);
  }
  return Error::Ok;
}

Error FileSink::commit() {
  if (std::fflush(file_) != 0 || fsync(fileno(file_)) != 0) {
    return fail("cannot write", path_);
  }
  const bool closed = std::fclose(file_) == 0;
  file_ = nullptr;
  if (!closed || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const Error error = fail("cannot write", path_);
    static_cast<void>(std::remove(temporary_.c_str()));
    return error;
  }
  return Error::Ok;
}

Error File::write(Sink& sink) const {
  ET_RETURN_IF_ERROR(sink.write(head.data(), head.size()));
  uint64_t position = head.size();
  for (const Piece& piece : pieces) {
    ET_RETURN_IF_ERROR(write_zeros(sink, piece.offset - position));
    ET_RETURN_IF_ERROR(sink.write(piece.data, piece.nbytes));
    position = piece.offset + piece.nbytes;
  }
  return write_zeros(sink, nbytes - position);
}

Error save(const File& file, const std::string& path) {
  FileSink sink(path);
  ET_RETURN_IF_ERROR(sink.open());
  ET_RETURN_IF_ERROR(file.write(sink));
  return sink.commit();
}

}  // namespace et::emit
