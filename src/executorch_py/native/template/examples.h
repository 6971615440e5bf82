// Calls of the model's methods with example inputs, and what the interpreter computed from them on the host.
#pragma once

#include <cstddef>
#include <cstdint>

namespace firmware {

struct Bytes {
  const uint8_t* data;
  size_t size;
};

struct Example {
  const char* method;
  int (*run)();
  void* (*input)(int);
  const void* (*output)(int);
  const Bytes* inputs;  // one for each; none for what was fixed at export
  size_t num_inputs;
  const Bytes* outputs;
  size_t num_outputs;
  const bool* is_float;  // of each output: float32
};

extern const Example kExamples[];
extern const size_t kNumExamples;
extern const char* (*const kFailed)();
extern void (*const kResetState)();
extern size_t (*const kScratchUsed)();
inline constexpr size_t kWeightBytes = @weights@;
inline constexpr size_t kTensorBytes = @tensors@;

}  // namespace firmware
