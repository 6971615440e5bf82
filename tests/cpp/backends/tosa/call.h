/// Loads and runs a payload of one input and one output, without a program around it.
#pragma once

#include <algorithm>
#include <memory>

#include "../arguments.h"
#include "backends/tosa/runtime/graph.h"
#include "payload_builder.h"

namespace et::test {

/// Loads `payload` and, where that works, runs it on the example's input. `output` gets the result.
inline Error call(const Bytes& payload, const Example& example, std::vector<int8_t>& output, size_t limit = 1 << 24) {
  // At the end of a block of its own, so that sanitizers see reads past it.
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[payload.size()]);
  std::copy(payload.begin(), payload.end(), exact.get());
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
