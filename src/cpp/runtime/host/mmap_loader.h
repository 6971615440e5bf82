/// MmapLoader: serves ranges of a mapped file without copying.
///
/// For: large models: pages are read when they are used, and processes share them. Weights that a kernel has packed are
/// not held twice: their pages leave the process (discard) and come back from the system's cache if they are read
/// again. Not for: files that others write. Who truncates a file while it is mapped makes the system end this process
/// with SIGBUS at the next access (SECURITY.md); replace a file by renaming a new one over it instead, or use
/// FileLoader.
#pragma once

#include <memory>
#include <string>

#include "runtime/data_loader.h"

namespace et::runtime {

/// Maps the whole file once, read-only; buffers point into the mapping. Threads: safe.
class MmapLoader final : public DataLoader {
 public:
  /// Errors: AccessFailed, naming the path and the system's reason; MemoryAllocationFailed.
  static Result<std::unique_ptr<MmapLoader>> open(const std::string& path);
  ~MmapLoader() override;

  /// Keeps the whole mapping in memory. Errors: AccessFailed with the system's reason, which is logged when `report`.
  Error lock(bool report);
  Result<FreeableBuffer> load(size_t offset, size_t nbytes) override;
  void discard(const void* data, size_t nbytes) override;
  size_t size() const override { return size_; }

 private:
  explicit MmapLoader(std::string path) : path_(std::move(path)) {}

  std::string path_;
  const void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace et::runtime
