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
  size_t constant_nbytes() const override { return constant_nbytes_; }
  void set_constant_nbytes(size_t nbytes) { constant_nbytes_ = nbytes; }

 private:
  struct Entry {
    Key key;
    void* object;
    Destroy destroy;
  };

  std::mutex mutex_;
  std::vector<Entry> entries_;
  size_t constant_nbytes_ = SIZE_MAX;
};

}  // namespace et::runtime
