/// Opening files: a program's own, and the `.ptd` files with external weights beside it.
///
/// For: HostProgram. A `.ptd` that is mapped is opened once in a process, however many programs name it. So models over
/// one file of base weights, each with an adapter of its own, take its memory once. What backends pack of its bytes
/// alone is packed once, too, and kept as long as the file.
///
///     ET_TRY(const std::shared_ptr<const DataFile> base, DataFile::open("base.ptd", LoadMode::kMmap));
///     base->map().get("layer.weight");
///
/// A file that another one replaces (by a rename) is another file: programs that have it open keep the old one.
/// Threads: safe at any time.
#pragma once

#include <memory>
#include <string>

#include "runtime/flat_tensor_data_map.h"
#include "runtime/host/heap_shared_cache.h"
#include "runtime/host/pack_identity.h"

namespace et::runtime {

/// How a file is read.
enum class LoadMode : uint8_t {
  kMmap,  ///< Mapped: pages are read when they are used and shared with other processes. The file must not be changed
          ///< or cut off while it is mapped (SECURITY.md).
  kFile,  ///< Read into memory: slower to begin, independent of the file afterwards.
  kMmapLocked,  ///< Mapped and kept in memory. Errors: AccessFailed when the system does not let the process lock it.
  kMmapTryLocked,  ///< The same; where the system does not allow it, as kMmap.
};

/// Errors: AccessFailed, naming the path and the system's reason.
Result<std::unique_ptr<DataLoader>> open_loader(const std::string& path, LoadMode mode);

/// For NamedDataMap::set_order. Throws OutOfMemory.
List<uint32_t> order_by_key(const NamedDataMap& map);

class DataFile {
 public:
  /// Errors: AccessFailed; InvalidExternalData. Both name the path.
  static Result<std::shared_ptr<const DataFile>> open(const std::string& path, LoadMode mode);

  const NamedDataMap& map() const { return map_; }
  size_t nbytes() const { return loader_->size(); }
  /// The mapped bytes; empty when the file is read into memory.
  Span<const uint8_t> mapped() const { return mapped_; }
  /// Of the file before it was mapped; zeros where it is read into memory.
  const FileStamp& stamp() const { return stamp_; }
  /// Objects made of the mapped bytes, for all programs that have the file open.
  SharedCache* shared_cache() const { return &shared_cache_; }

 private:
  DataFile(std::unique_ptr<DataLoader> loader, FlatTensorDataMap map, Span<const uint8_t> mapped);
  static Result<std::shared_ptr<DataFile>> make(const std::string& path, LoadMode mode);

  std::unique_ptr<DataLoader> loader_;
  FlatTensorDataMap map_;
  List<uint32_t> order_;
  Span<const uint8_t> mapped_;
  FileStamp stamp_{};
  mutable HeapSharedCache shared_cache_;  // declared last: it goes before the bytes
};

}  // namespace et::runtime
