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
  /// Errors: AccessFailed, naming the path and the system's reason.
  static Result<std::unique_ptr<FileLoader>> open(const std::string& path);
  ~FileLoader() override;

  Result<FreeableBuffer> load(size_t offset, size_t nbytes) override;
  size_t size() const override { return size_; }

 private:
  FileLoader(std::string path, int file, size_t size) : path_(std::move(path)), file_(file), size_(size) {}

  std::string path_;
  int file_;
  size_t size_;
};

}  // namespace et::runtime
