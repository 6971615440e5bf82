/// NamedDataMap: bytes by name, from a program's own segments or from `.ptd` files beside it.
///
/// For: external weights, and what backends store under keys of their own (shared weights).
/// Not for: constants that a program holds by index.
#pragma once

#include <string_view>

#include "runtime/data_loader.h"
#include "runtime/tensor.h"

namespace et::runtime {

/// What the bytes of an entry are, when they are a tensor. Points into the file.
struct TensorLayout {
  ScalarType dtype = ScalarType::Byte;
  Span<const int32_t> sizes;      ///< elements
  Span<const uint8_t> dim_order;  ///< outermost dimension first
};

/// One entry of a map.
struct NamedDataEntry {
  std::string_view key;
  uint64_t nbytes = 0;
  bool is_tensor = false;  ///< `layout` is set
  TensorLayout layout;
};

/// Threads: all functions are safe at any time. No virtual function is defined elsewhere: the library has no type
/// information, which a class that derives from this one with it would look for there.
class NamedDataMap {
 public:
  virtual ~NamedDataMap() = default;

  /// Fills `entry` and returns true when the key exists. `entry` may be nullptr.
  virtual bool find(std::string_view key, NamedDataEntry* entry) const {
    const int64_t index = index_of(key);
    if (index >= 0 && entry != nullptr) {
      *entry = this->entry(static_cast<size_t>(index));
    }
    return index >= 0;
  }
  /// The bytes of an entry. Errors: NotFound, and those of the loader.
  virtual Result<FreeableBuffer> get(std::string_view key) const = 0;
  virtual size_t num_entries() const = 0;
  /// Entry `i`, in the order of the file.
  virtual NamedDataEntry entry(size_t i) const = 0;
  /// DataLoader::discard for bytes that get() gave: nobody will read them soon.
  virtual void discard(const void* data, size_t nbytes) const {
    static_cast<void>(data);
    static_cast<void>(nbytes);
  }
  /// Numbers of all entries in the order of their keys, of equal keys the first one first; outlives the map. With it a
  /// lookup halves what is left, without it (no heap) it walks over all entries.
  void set_order(Span<const uint32_t> order) { order_ = order; }

 protected:
  /// The first entry with this key; -1: there is none.
  int64_t index_of(std::string_view key) const;

 private:
  Span<const uint32_t> order_;
};

/// Several maps as one: the first that has a key answers.
class MergedDataMap final : public NamedDataMap {
 public:
  /// `maps` (and what they point at) must outlive this map; entries may be nullptr.
  explicit MergedDataMap(Span<const NamedDataMap* const> maps) : maps_(maps) {}

  bool find(std::string_view key, NamedDataEntry* entry) const override {
    const NamedDataMap* map = owner(key);
    return map != nullptr && map->find(key, entry);
  }
  Result<FreeableBuffer> get(std::string_view key) const override {
    const NamedDataMap* map = owner(key);
    ET_CHECK_OR_RETURN(map != nullptr, NotFound, "no named data '%.*s' in the program or its .ptd files",
                       static_cast<int>(key.size()), key.data());
    return map->get(key);
  }
  size_t num_entries() const override {
    size_t count = 0;
    for (const NamedDataMap* map : maps_) {
      count += map == nullptr ? 0 : map->num_entries();
    }
    return count;
  }
  NamedDataEntry entry(size_t i) const override {
    for (const NamedDataMap* map : maps_) {
      const size_t count = map == nullptr ? 0 : map->num_entries();
      if (i < count) {
        return map->entry(i);
      }
      i -= count;
    }
    return {};
  }
  void discard(const void* data, size_t nbytes) const override {
    for (const NamedDataMap* map : maps_) {
      if (map != nullptr) {
        map->discard(data, nbytes);
      }
    }
  }

 private:
  const NamedDataMap* owner(std::string_view key) const {
    for (const NamedDataMap* map : maps_) {
      if (map != nullptr && map->find(key, nullptr)) {
        return map;
      }
    }
    return nullptr;
  }

  Span<const NamedDataMap* const> maps_;
};

}  // namespace et::runtime
