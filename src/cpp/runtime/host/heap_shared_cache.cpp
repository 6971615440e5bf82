#include "runtime/host/heap_shared_cache.h"

namespace et::runtime {

HeapSharedCache::~HeapSharedCache() {
  for (const Entry& entry : entries_) {
    if (entry.destroy != nullptr) {
      entry.destroy(entry.object);
    }
  }
}

Result<void*> HeapSharedCache::get_or_create(const Key& key, Create create, void* argument, Destroy destroy) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.key.maker == key.maker && entry.key.a == key.a && entry.key.b == key.b &&
        entry.key.variant == key.variant && entry.key.shape == key.shape) {
      return entry.object;
    }
  }
  ET_TRY(void* const object, create(argument));
  entries_.push_back({key, object, destroy});
  return object;
}

}  // namespace et::runtime
