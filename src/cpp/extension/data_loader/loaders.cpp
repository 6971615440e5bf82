#include "extension/data_loader/loaders.h"

#include "runtime/platform.h"

namespace et::extension {

Result<FileDataLoader> FileDataLoader::from(const std::string& path, size_t alignment) {
  runtime::platform_install_default_log();
  ET_CHECK_OR_RETURN(alignment > 0 && (alignment & (alignment - 1)) == 0 && alignment <= 64, InvalidArgument,
                     "'%s' cannot be read: the alignment %zu is no power of two up to 64", path.c_str(), alignment);
  ET_TRY(std::unique_ptr<DataLoader> loader, runtime::open_loader(path, runtime::LoadMode::kFile));
  return FileDataLoader(std::move(loader));
}

Result<MmapDataLoader> MmapDataLoader::from(const std::string& path, MlockConfig mlock) {
  runtime::platform_install_default_log();
  const runtime::LoadMode mode = mlock == MlockConfig::NoMlock    ? runtime::LoadMode::kMmap
                                 : mlock == MlockConfig::UseMlock ? runtime::LoadMode::kMmapLocked
                                                                  : runtime::LoadMode::kMmapTryLocked;
  ET_TRY(std::unique_ptr<DataLoader> loader, runtime::open_loader(path, mode));
  return MmapDataLoader(std::move(loader));
}

}  // namespace et::extension
