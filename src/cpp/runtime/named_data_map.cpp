#include "runtime/named_data_map.h"

#include <algorithm>

namespace et::runtime {

int64_t NamedDataMap::index_of(std::string_view key) const {
  const size_t count = num_entries();
  if (order_.size() == count) {
    const uint32_t* const found =
        std::lower_bound(order_.begin(), order_.end(), key,
                         [this](uint32_t i, std::string_view wanted) { return entry(i).key < wanted; });
    return found != order_.end() && entry(*found).key == key ? int64_t{*found} : -1;
  }
  for (size_t i = 0; i < count; ++i) {
    if (entry(i).key == key) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

}  // namespace et::runtime
