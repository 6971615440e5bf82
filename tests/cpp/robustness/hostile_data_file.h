/// Does with bytes everything that a process does with a `.ptd`, and expects to come back.
///
/// For: the mutation test and the fuzz target.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "hostile_program.h"
#include "runtime/flat_tensor_data_map.h"

namespace et::test {

/// Loads a data file, finds every entry by its key and reads its bytes, 4 MiB in all. kRan = it has entries.
inline Outcome run_hostile_data_file(const uint8_t* data, size_t size) {
  using namespace runtime;  // NOLINT: this function is about that namespace
  // A heap block of the exact size, so that a sanitizer sees one byte too many.
  const std::shared_ptr<uint8_t> copy(static_cast<uint8_t*>(::operator new(size == 0 ? 1 : size, std::align_val_t(16))),
                                      [](uint8_t* p) { ::operator delete(p, std::align_val_t(16)); });
  if (size != 0) {
    std::memcpy(copy.get(), data, size);
  }
  BufferLoader loader(copy.get(), size);
  auto map = FlatTensorDataMap::load(&loader);
  if (!map.ok()) {
    return Outcome::kRefused;
  }
  const NamedDataMap* const maps[] = {nullptr, &*map};
  const MergedDataMap merged(maps);
  volatile uint64_t sink = 0;
  uint64_t left = detail::kMaxBytes;
  const size_t count = std::min<size_t>(merged.num_entries(), 256);
  for (size_t i = 0; i < count; ++i) {
    const NamedDataEntry entry = merged.entry(i);
    NamedDataEntry first;  // keys may repeat
    const auto bytes = merged.get(entry.key);
    if (!merged.find(entry.key, &first) || !bytes.ok() || bytes->size() != first.nbytes) {
      std::abort();  // what load() accepted is there
    }
    for (size_t d = 0; entry.is_tensor && d < entry.layout.sizes.size(); ++d) {
      sink = sink + static_cast<uint64_t>(entry.layout.sizes[d]) + entry.layout.dim_order[d];
    }
    const uint64_t nbytes = std::min<uint64_t>(bytes->size(), left);
    for (uint64_t b = 0; b < nbytes; ++b) {
      sink = sink + bytes->data()[b];
    }
    left -= nbytes;
  }
  return count == 0 ? Outcome::kLoaded : Outcome::kRan;
}

}  // namespace et::test
