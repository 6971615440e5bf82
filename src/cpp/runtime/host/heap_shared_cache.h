/// HeapSharedCache: the SharedCache of hosts: a list on the heap under a mutex.
#pragma once

#include <mutex>

#include "runtime/host/out_of_memory.h"
#include "runtime/host/packed_memory.h"
#include "runtime/host/sparse_constants.h"
#include "runtime/shared_cache.h"

namespace et::runtime {

class HeapSharedCache final : public SharedCache {
 public:
  ~HeapSharedCache() override;
  Result<void*> get_or_create(const Key& key, Create create, void* argument, Destroy destroy) override;
  PackedMemory& memory() override { return memory_; }
  SharedCache* cache_of(Span<const void* const> addresses) override;
  size_t constant_nbytes() const override {
    return constant_nbytes_ + (constants_ == nullptr ? 0 : constants_->nbytes_not_in_file());
  }
  void release(const void* data) override {
    if (constants_ != nullptr) {
      constants_->release(data);
    }
  }
  void set_constant_nbytes(size_t nbytes) { constant_nbytes_ = nbytes; }
  /// `cache` has what is made of `file` alone. Both must outlive this cache. To be called before any other use.
  void add_file(Span<const uint8_t> file, SharedCache* cache) { files_.push_back({file, cache}); }
  /// Where packed bytes are kept for other processes; must outlive this cache. Nothing is left to the caches of files
  /// then. To be called before any other use.
  void set_pack_cache(PackCache* file) {
    memory_.set_file(file);
    files_.clear();
  }
  /// Where constants lie that can be released; must outlive the calls of release().
  void set_constants(const SparseConstants* constants) { constants_ = constants; }

 private:
  struct Entry {
    Key key;
    void* object;
    Destroy destroy;
  };

  struct File {
    Span<const uint8_t> bytes;
    SharedCache* cache;
  };

  PackedMemory memory_{this};
  List<File> files_;
  std::mutex mutex_;  // guards entries_
  List<Entry> entries_;
  size_t constant_nbytes_ = SIZE_MAX;
  const SparseConstants* constants_ = nullptr;
};

}  // namespace et::runtime
