/// Sinks: where the bytes of a file go, and File: the bytes, borrowed, in order.
///
/// For: writing files of any size without putting them together in memory first. A File is its flatbuffer and a list of
/// borrowed pieces behind it (weights stay where they are); `write` sends them to a sink in one pass.
///
///     ET_RETURN_IF_ERROR(save(emitted.program, "model.pte"));         // temporary name, then rename
///     std::vector<uint8_t> bytes(emitted.program.nbytes);             // or in memory
///     MemorySink sink(bytes.data(), bytes.size());
///     ET_RETURN_IF_ERROR(emitted.program.write(sink));
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace et::emit {

/// Takes bytes in the order of the file.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Errors: the sink's own; the file is then incomplete.
  virtual Error write(const void* data, uint64_t nbytes) = 0;
};

/// Writes to memory of the caller. Errors: OutOfResources when it is full.
class MemorySink final : public Sink {
 public:
  MemorySink(void* data, uint64_t nbytes) : next_(static_cast<uint8_t*>(data)), left_(nbytes) {}
  Error write(const void* data, uint64_t nbytes) override;

 private:
  uint8_t* next_;
  uint64_t left_;
};

/// Writes a file that appears under its name only when it is whole: the bytes go to a temporary name beside it, which
/// `commit` renames. Without `commit` the temporary file is removed.
class FileSink final : public Sink {
 public:
  explicit FileSink(std::string path);
  ~FileSink() override;
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

  /// Errors: AccessFailed, with the system's reason.
  Error open();
  Error write(const void* data, uint64_t nbytes) override;
  /// Flushes to the device and renames. Errors: AccessFailed.
  Error commit();

 private:
  std::string path_;
  std::string temporary_;
  std::FILE* file_ = nullptr;
};

/// Borrowed bytes at an offset of a file.
struct Piece {
  const void* data = nullptr;
  uint64_t nbytes = 0;
  uint64_t offset = 0;  ///< bytes from the file's beginning
};

/// A file that has been laid out and not yet written.
struct File {
  std::vector<uint8_t> head;                            ///< headers and flatbuffer, from byte 0
  std::vector<Piece> pieces;                            ///< by rising offset; what lies between them is zero
  uint64_t nbytes = 0;                                  ///< of the whole file; 0 = there is no such file
  std::vector<std::shared_ptr<const void>> keep_alive;  ///< owners of the pieces

  Error write(Sink& sink) const;
};

/// Writes `file` to `path`. Errors: AccessFailed; a file that was there before is untouched then.
Error save(const File& file, const std::string& path);

}  // namespace et::emit
