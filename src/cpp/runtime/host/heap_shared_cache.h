/// HeapSharedCache: the SharedCache of hosts: a list on the heap under a mutex.
#pragma once

#include <mutex>
#include <vector>

#include "runtime/shared_cache.h"

namespace et::runtime {

class HeapSharedCache final : public SharedCache {
 public:
  ~HeapSharedCache() override;
  Result<void*> get_or_create(const Key& key, Create create, void* argument, Destroy destroy) override;

 private:
  struct Entry {
    Key key;
    void* object;
    Destroy destroy;
  };

  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace et::runtime
