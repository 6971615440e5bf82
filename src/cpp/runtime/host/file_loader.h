/// FileLoader: reads ranges of a file into memory of its own.
///
/// For: files that may change or go away while a program is in use, and systems without mmap.
#pragma once

#include <memory>
#include <string>

#include "runtime/data_loader.h"

namespace et::runtime {

/// Holds the file open. load() allocates (aligned to 64 bytes) and reads. Threads: safe.
class FileLoader final : public DataLoader {
 public:
  /// Errors: AccessFailed, naming the path and the system's reason; MemoryAllocationFailed.
  static Result<std::unique_ptr<FileLoader>> open(const std::string& path);
  ~FileLoader() override;

  Result<FreeableBuffer> load(size_t offset, size_t nbytes) override;
  size_t size() const override { return size_; }

 private:
  explicit FileLoader(std::string path) : path_(std::move(path)) {}

  std::string path_;
  int file_ = -1;
  size_t size_ = 0;
};

}  // namespace et::runtime
