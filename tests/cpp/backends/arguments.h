/// What tests of delegates call them with: memory with a limit, and tensors without a program around them.
#pragma once

#include <vector>

#include "runtime/evalue.h"
#include "runtime/host/heap_allocator.h"

namespace et::test {

/// Memory up to a limit, so that hostile sizes are refused and not tried.
class LimitedAllocator final : public runtime::MemoryAllocator {
 public:
  explicit LimitedAllocator(size_t limit) : limit_(limit) {}
  void* allocate(size_t nbytes, size_t alignment = kDefaultAlignment) override {
    return nbytes > limit_ ? nullptr : heap_.allocate(nbytes, alignment);
  }

 private:
  runtime::HeapAllocator heap_;
  size_t limit_;
};

/// A dense tensor and what describes it.
struct Argument {
  Argument(ScalarType dtype, std::vector<int64_t> tensor_sizes, const std::vector<int8_t>& bytes)
      : sizes(std::move(tensor_sizes)), strides(sizes.size()), order(sizes.size()), data(bytes.begin(), bytes.end()) {
    for (size_t i = 0; i < order.size(); ++i) {
      order[i] = static_cast<uint8_t>(i);
    }
    impl =
        runtime::TensorImpl(dtype, sizes.size(), sizes.data(), strides.data(), order.data(), data.data(), data.size());
    value = runtime::EValue(runtime::Tensor(&impl));
  }
  std::vector<int64_t> sizes, strides;
  std::vector<uint8_t> order;
  std::vector<int8_t> data;
  runtime::TensorImpl impl;
  runtime::EValue value;
};

}  // namespace et::test
