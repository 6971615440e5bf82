/// Constants of a program that its file holds without their zeros, as tensors from outside. The tensor that the tables
/// call external under the name "<name>" is the entry "sparse_constant:<name>" of the program's own named data,
/// unpacked.
///
/// For: HostProgram, which gives this map to its methods in place of the `.ptd` files' one. Not for: named data of
/// delegates (runtime/host/sparse_data.h). Programs on machines without this map need files with dense weights.
///
///     SparseConstants constants(program.named_data(), ptd_files);
///     options.external_data = &constants;
///     shared_cache.set_constants(&constants);   // release() goes there
///
/// A constant is unpacked when a method is loaded that uses it, to an address that is the same for all methods and
/// stays the same, so that packed weights can be named by it. When the kernel that uses it has packed it and says so,
/// its pages are given back; a method that is loaded later finds them unpacked anew. Threads: safe at any time. What
/// release() gives back, nobody reads: it waits until one user is left, and that one calls.
#pragma once

#include <list>
#include <map>
#include <mutex>
#include <string_view>

#include "numerics/sparse_bytes.h"
#include "runtime/named_data_map.h"

namespace et::runtime {

class SparseConstants final : public NamedDataMap {
 public:
  /// `program` has the sparse entries; `others` answers for all other names. Both outlive this map.
  SparseConstants(const NamedDataMap& program, const NamedDataMap& others);
  ~SparseConstants() override;
  SparseConstants(const SparseConstants&) = delete;
  SparseConstants& operator=(const SparseConstants&) = delete;

  bool find(std::string_view key, NamedDataEntry* entry) const override;
  /// Errors: InvalidProgram, naming the key, when the sparse form is damaged; MemoryAllocationFailed; the loader's.
  Result<FreeableBuffer> get(std::string_view key) const override;
  size_t num_entries() const override { return others_.num_entries(); }
  NamedDataEntry entry(size_t i) const override { return others_.entry(i); }
  void discard(const void* data, size_t nbytes) const override { others_.discard(data, nbytes); }

  /// SharedCache::release. Does nothing for addresses that are none of this map's.
  void release(const void* data) const;
  /// Bytes that the constants which were unpacked so far have more than their entries.
  size_t nbytes_not_in_file() const;

 private:
  struct Constant;
  /// A tensor of a method. It ceases to hold the constant when it goes, or when its kernel releases it.
  struct User {
    Constant* constant;
    bool holds;
  };
  struct Constant {
    const SparseConstants* owner;
    size_t position;  // in the program's map
    FreeableBuffer entry;
    SparseBytes sparse;  // points into `entry`
    void* pages = nullptr;
    size_t num_holding = 0;
    std::list<User> users = {};
  };

  Error load(Constant& constant) const;
  static void stop(User& user);
  static void free_user(void* user, const void* data, size_t nbytes);

  const NamedDataMap& program_;
  const NamedDataMap& others_;
  mutable std::mutex mutex_;                                // guards all below
  mutable std::map<std::string_view, Constant> constants_;  // all there are, by the file's own names
  mutable std::map<const void*, Constant*> by_address_;
};

}  // namespace et::runtime
