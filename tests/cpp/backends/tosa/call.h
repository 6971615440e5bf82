/// Loads and runs a payload of one input and one output, without a program around it.
#pragma once

#include <cstring>
#include <memory>

#include "backends/tosa/runtime/graph.h"
#include "payload_builder.h"
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

/// Loads `payload` and, where that works, runs it on the example's input. `output` gets the result.
inline Error call(const Bytes& payload, const Example& example, std::vector<int8_t>& output, size_t limit = 1 << 24) {
  // At the end of a block of its own, so that sanitizers see reads past it.
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[payload.size()]);
  std::memcpy(exact.get(), payload.data(), payload.size());
  LimitedAllocator allocator(limit), temp(limit);
  backends::tosa::Graph graph;
  ET_RETURN_IF_ERROR(graph.load({exact.get(), payload.size()}, allocator));
  Argument in(ScalarType::Char, example.input_sizes, example.input);
  Argument out(ScalarType::Char, example.output_sizes, std::vector<int8_t>(example.output.size()));
  runtime::EValue* const args[] = {&in.value, &out.value};
  ET_RETURN_IF_ERROR(graph.check_arguments(args));
  runtime::KernelContext context(&temp, nullptr, nullptr, nullptr, nullptr);
  ET_RETURN_IF_ERROR(graph.run(context, args));
  output = out.data;
  return Error::Ok;
}

}  // namespace et::test
