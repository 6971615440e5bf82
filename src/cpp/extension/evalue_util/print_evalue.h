/// Printing values: `std::cout << module.get(x).get();`
///
/// For: programs that show their results. Not for: messages, which name dtypes and sizes only (describe).
///
///     std::cout << evalue_edge_items(3) << outputs[0];     // tensor(sizes=[2, 8], [1., 2., 3., ..., 6., 7., 8.])
///
/// Of a tensor with more than twice the edge items, those in the middle are left out.
#pragma once

#include <ostream>

#include "extension/evalue.h"

namespace et::extension {

std::ostream& operator<<(std::ostream& out, const EValue& value);

/// Sets how many elements of each end are printed, on this stream; 0: the default of 3.
class evalue_edge_items {
 public:
  explicit evalue_edge_items(long count) : count_(count) {}

 private:
  friend std::ostream& operator<<(std::ostream& out, const evalue_edge_items& items);
  long count_;
};

}  // namespace et::extension
