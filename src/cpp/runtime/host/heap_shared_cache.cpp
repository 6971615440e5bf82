#include "runtime/host/heap_shared_cache.h"

#include <functional>

namespace et::runtime {

HeapSharedCache::~HeapSharedCache() {
  for (const Entry& entry : entries_) {
    if (entry.destroy != nullptr) {
      entry.destroy(entry.object);
    }
  }
}

Result<void*> HeapSharedCache::get_or_create(const Key& key, Create create, void* argument, Destroy destroy) try {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.key.maker == key.maker && entry.key.a == key.a && entry.key.b == key.b &&
        entry.key.variant == key.variant && entry.key.shape == key.shape) {
      return entry.object;
    }
  }
  const void* const addresses[] = {key.maker, key.a, key.b};
  const uint64_t numbers[] = {key.variant, key.shape};
  const PackedName name{addresses, numbers};
  const bool is_plain = destroy == nullptr;
  entries_.push_back({key, nullptr, destroy});  // before there is an object that could be lost
  const void* const found = is_plain ? memory_.kept(name) : nullptr;
  Result<void*> object = found == nullptr ? create(argument) : Result<void*>(const_cast<void*>(found));
  if (!object.ok()) {
    entries_.pop_back();
    return object;
  }
  entries_.back().object = *object;
  if (is_plain && found == nullptr) {
    memory_.keep(name, *object, memory_.nbytes_of_last(*object));
  }
  return object;
}
ET_NO_MEMORY("a cache of %zu objects that methods share", entries_.size())

SharedCache* HeapSharedCache::cache_of(Span<const void* const> addresses) {
  for (const File& file : files_) {
    bool has_any = false, has_all = true;
    for (const void* const address : addresses) {
      const std::less<const void*> before;
      const bool is_inside =
          !before(address, file.bytes.data()) && before(address, file.bytes.data() + file.bytes.size());
      has_any = has_any || is_inside;
      has_all = has_all && (is_inside || address == nullptr);
    }
    if (has_any && has_all) {
      return file.cache;
    }
  }
  return this;
}

}  // namespace et::runtime
