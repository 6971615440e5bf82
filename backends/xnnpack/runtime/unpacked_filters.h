/// Filters that the file holds without their zeros, while the library makes a runtime.
///
/// For: delegate.cpp. The graph needs an address for each filter, the library reads each once, to pack it. It looks for
/// most filters among packed weights first, and packs a missing one at once. Such filters are written to one block at
/// that moment, one over the other, at addresses that differ by a line. So a model takes the memory of its largest
/// filter for its zeros, which stays in the cache, and a second runtime or method with the same weights unpacks
/// nothing. The others, and all where packed weights are not shared, are written before and have memory of their own.
///
///     const PackedWeightsScope scope(…);
///     UnpackedFilters filters(model, named_data);
///     ET_RETURN_IF_ERROR(filters.prepare(scope.cache() != nullptr));
///     subgraph.build(model, bounds, filters);     // names filters by data_of
///     xnn_create_runtime(…);                      // calls write and packed from the cache's functions
///
/// Addresses here name nothing beyond that: weights are found again by the address of their sparse form (name_of),
/// which stays as long as the program.
#pragma once

#include <utility>

#include "backends/xnnpack/runtime/model.h"
#include "runtime/host/heap_allocator.h"

namespace et::backends::xnnpack {

class UnpackedFilters {
 public:
  /// `model` outlives this object. `named_data` (may be nullptr) is told that sparse forms are not needed soon.
  UnpackedFilters(const Model& model, const runtime::NamedDataMap* named_data)
      : model_(model), named_data_(named_data) {}
  UnpackedFilters(const UnpackedFilters&) = delete;
  UnpackedFilters& operator=(const UnpackedFilters&) = delete;

  /// Gives each sparse filter its address. `has_cache` = the library looks for packed weights. Errors:
  /// MemoryAllocationFailed.
  Error prepare(bool has_cache);
  /// Where the library finds a constant; nullptr for other values.
  const void* data_of(const Value& value) const;
  /// The address that names a filter which the library knows by `data`.
  const void* name_of(const void* data) const;

  /// The library is about to pack a filter.
  void write(const void* data);
  /// It has packed one. False when that had not been written: then it packed another's numbers.
  bool packed(const void* data);
  /// True when that has happened.
  bool was_missed() const { return was_missed_; }

 private:
  struct Filter {
    uint8_t* data = nullptr;  // nullptr: no value names it
    bool is_shared = true;    // in block_
  };

  /// Memory with room for what the library reads past it. Errors: MemoryAllocationFailed.
  Error allocate(size_t nbytes, uint8_t** memory);
  uint32_t position_of(const void* data) const;
  void unpack_to(uint32_t position);

  const Model& model_;
  const runtime::NamedDataMap* named_data_;
  List<Filter> filters_;  // as in Model::sparse
  List<std::pair<const void*, uint32_t>> by_address_;
  runtime::HeapAllocator memory_{0};  // a block for each request
  uint8_t* block_ = nullptr;
  uint32_t in_block_ = kDense;  // the filter that was written last
  bool was_missed_ = false;
};

}  // namespace et::backends::xnnpack
