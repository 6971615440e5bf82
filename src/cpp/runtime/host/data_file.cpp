#include "runtime/host/data_file.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>

#include "runtime/host/file_loader.h"
#include "runtime/host/mmap_loader.h"

namespace et::runtime {
namespace {

/// A file as it was when it was opened, and how it is read.
using Identity = std::pair<FileStamp, LoadMode>;

struct OpenFiles {
  std::mutex mutex;
  std::map<Identity, std::weak_ptr<const DataFile>> files;
};

OpenFiles& open_files() {
  static OpenFiles* const files = new OpenFiles;  // for as long as the process: programs may be the last to go
  return *files;
}

}  // namespace

Result<std::unique_ptr<DataLoader>> open_loader(const std::string& path, LoadMode mode) {
  if (mode == LoadMode::kFile) {
    ET_TRY(std::unique_ptr<DataLoader> loader, FileLoader::open(path));
    return loader;
  }
  ET_TRY(std::unique_ptr<MmapLoader> loader, MmapLoader::open(path));
  if (mode != LoadMode::kMmap) {
    const Error error = loader->lock(mode == LoadMode::kMmapLocked);
    if (mode == LoadMode::kMmapLocked && error != Error::Ok) {
      return error;
    }
  }
  return std::unique_ptr<DataLoader>(std::move(loader));
}

List<uint32_t> order_by_key(const NamedDataMap& map) {
  List<uint32_t> order(map.num_entries());
  std::iota(order.begin(), order.end(), uint32_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&map](uint32_t a, uint32_t b) { return map.entry(a).key < map.entry(b).key; });
  return order;
}

DataFile::DataFile(std::unique_ptr<DataLoader> loader, FlatTensorDataMap map, Span<const uint8_t> mapped)
    : loader_(std::move(loader)), map_(std::move(map)), order_(order_by_key(map_)), mapped_(mapped) {
  map_.set_order(order_);
  shared_cache_.set_constant_nbytes(mapped.size());
}

Result<std::shared_ptr<DataFile>> DataFile::make(const std::string& path, LoadMode mode) {
  ET_TRY(std::unique_ptr<DataLoader> loader, open_loader(path, mode));
  Result<FlatTensorDataMap> map = FlatTensorDataMap::load(loader.get());
  if (!map.ok()) {
    ET_LOG_CONTEXT("'%s' cannot be used as external data: %s", path.c_str(), to_string(map.error()));
    return map.error();
  }
  Span<const uint8_t> mapped;
  if (mode != LoadMode::kFile) {
    ET_TRY(const FreeableBuffer whole, loader->load(0, loader->size()));
    mapped = {static_cast<const uint8_t*>(whole.data()), whole.size()};
  }
  return std::shared_ptr<DataFile>(new DataFile(std::move(loader), std::move(map.get()), mapped));
}

Result<std::shared_ptr<const DataFile>> DataFile::open(const std::string& path, LoadMode mode) try {
  const FileStamp stamp = mode == LoadMode::kFile ? FileStamp{} : stamp_of(path);
  if (stamp == FileStamp{}) {
    ET_TRY(std::shared_ptr<const DataFile> file, make(path, mode));  // which says what is wrong with it
    return file;
  }
  OpenFiles& open = open_files();
  const std::lock_guard<std::mutex> lock(open.mutex);
  for (auto entry = open.files.begin(); entry != open.files.end();) {
    entry = entry->second.expired() ? open.files.erase(entry) : std::next(entry);
  }
  std::weak_ptr<const DataFile>& known = open.files[{stamp, mode}];
  if (std::shared_ptr<const DataFile> file = known.lock()) {
    return file;
  }
  ET_TRY(const std::shared_ptr<DataFile> file, make(path, mode));
  file->stamp_ = stamp;
  known = file;
  return std::shared_ptr<const DataFile>(file);
}
ET_NO_MEMORY("the tables of '%s'", path.c_str())

}  // namespace et::runtime
