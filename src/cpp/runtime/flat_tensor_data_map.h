/// FlatTensorDataMap: the entries of a `.ptd` file.
///
///     BufferLoader loader(bytes, size);
///     ET_TRY(FlatTensorDataMap map, FlatTensorDataMap::load(&loader));
///     options.external_data = &map;
#pragma once

#include "runtime/named_data_map.h"

namespace et::schema::flat_tensor {
struct FlatTensor;
}

namespace et::runtime {

/// Movable. Threads: const and safe at any time after load().
class FlatTensorDataMap final : public NamedDataMap {
 public:
  /// Reads and verifies the tables of a file: every range inside the file, every layout well-formed and no larger than
  /// its range, keys UTF-8. `loader` must outlive the map. Errors: InvalidExternalData, saying where; the loader's.
  static Result<FlatTensorDataMap> load(DataLoader* loader);

  FlatTensorDataMap(FlatTensorDataMap&&) noexcept = default;
  FlatTensorDataMap& operator=(FlatTensorDataMap&&) noexcept = default;

  Result<FreeableBuffer> get(std::string_view key) const override;
  size_t num_entries() const override;
  NamedDataEntry entry(size_t i) const override;
  void discard(const void* data, size_t nbytes) const override { loader_->discard(data, nbytes); }

 private:
  FlatTensorDataMap() = default;

  DataLoader* loader_ = nullptr;
  FreeableBuffer bytes_;
  const schema::flat_tensor::FlatTensor* tables_ = nullptr;
  uint64_t segment_base_ = 0;
};

}  // namespace et::runtime
