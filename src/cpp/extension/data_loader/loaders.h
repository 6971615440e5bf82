/// The published data loaders: a file that is read, a file that is mapped, bytes in memory.
///
/// For: Program::load, and Module with a loader of the caller's. Not for: Module with a path, which opens it itself.
///
///     Result<FileDataLoader> loader = FileDataLoader::from("model.pte");
///     if (!loader.ok()) return loader.error();           // the message names the file and the system's reason
#pragma once

#include <memory>
#include <string>

#include "runtime/host/data_file.h"

namespace et::extension {

using runtime::DataLoader;
using runtime::FreeableBuffer;
using BufferDataLoader = runtime::BufferLoader;

/// A loader of the runtime's, as a value.
class OwnedDataLoader : public DataLoader {
 public:
  Result<FreeableBuffer> load(size_t offset, size_t nbytes) override { return loader_->load(offset, nbytes); }
  void discard(const void* data, size_t nbytes) override { loader_->discard(data, nbytes); }
  size_t size() const override { return loader_->size(); }

 protected:
  explicit OwnedDataLoader(std::unique_ptr<DataLoader> loader) : loader_(std::move(loader)) {}

 private:
  std::unique_ptr<DataLoader> loader_;
};

/// Reads a file piece by piece.
class FileDataLoader final : public OwnedDataLoader {
 public:
  /// Errors: AccessFailed. Pieces are aligned to 64 bytes, whatever `alignment` says below that.
  static Result<FileDataLoader> from(const std::string& path, size_t alignment = 16);

 private:
  using OwnedDataLoader::OwnedDataLoader;
};

/// Maps a file.
class MmapDataLoader final : public OwnedDataLoader {
 public:
  /// Whether the mapping is kept in memory, and whether it is an error where the system does not allow it.
  enum class MlockConfig : uint8_t { NoMlock, UseMlock, UseMlockIgnoreErrors };
  /// Errors: AccessFailed.
  static Result<MmapDataLoader> from(const std::string& path, MlockConfig mlock = MlockConfig::UseMlock);

 private:
  using OwnedDataLoader::OwnedDataLoader;
};

}  // namespace et::extension
