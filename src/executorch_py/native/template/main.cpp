// Runs the model on its examples, and compares with what the interpreter gave on the host.
//
// The exit status is 0 when each output has the same bytes (floats: is close, as another C library's exp() is). A
// product calls the functions of the model's header itself.

#include <cstring>

#include "board/board.h"
#include "examples.h"

namespace {

using board::write_number;
using firmware::Bytes;
using firmware::Example;

bool is_close(const uint8_t* found, const Bytes& wanted) {
  for (size_t i = 0; i < wanted.size; i += sizeof(float)) {
    float a, b;
    memcpy(&a, found + i, sizeof(float));
    memcpy(&b, wanted.data + i, sizeof(float));
    const float difference = a < b ? b - a : a - b;
    if (!(difference <= 1e-5f + 1e-4f * (b < 0 ? -b : b)) && memcmp(&a, &b, sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

/// Whether an output has the sizes that it should.
bool has_sizes(const Example& example, size_t i) {
  const int64_t* const wanted = example.sizes == nullptr ? nullptr : example.sizes[example.num_inputs + i];
  const size_t rank = wanted == nullptr ? 0 : static_cast<size_t>(wanted[0]);
  return rank == 0 || memcmp(example.output_sizes(static_cast<int>(i)), wanted + 1, rank * sizeof(int64_t)) == 0;
}

/// Gives an input the example's sizes and elements. Returns an error's number.
int set_input(const Example& example, size_t i) {
  const int index = static_cast<int>(i);
  if (example.sizes != nullptr && example.sizes[i] != nullptr) {
    if (const int error = example.resize_input(index, example.sizes[i] + 1); error != 0) {
      return error;
    }
  }
  void* const place = example.input(index);
  if (place != nullptr && example.inputs[i].size != 0) {  // else it was fixed at export
    memcpy(place, example.inputs[i].data, example.inputs[i].size);
  }
  return 0;
}

bool check_output(size_t e, size_t i) {
  const Example& example = firmware::kExamples[e];
  const Bytes& wanted = example.outputs[i];
  if (wanted.data == nullptr) {
    return has_sizes(example, i);  // None, or no elements
  }
  const auto* const found = static_cast<const uint8_t*>(example.output(static_cast<int>(i)));
#ifdef FIRMWARE_WRITES_OUTPUTS
  board::write_bytes(e, i, found, wanted.size);
#endif
  const bool fits = has_sizes(example, i);
  const bool equal = fits && memcmp(found, wanted.data, wanted.size) == 0;
  const bool close = equal || (fits && example.is_float[i] && is_close(found, wanted));
  board::write(example.method);
  write_number(" output ", i);
  board::write(equal ? ": as on the host\n" : close ? ": close to the host's\n" : ": differs from the host's\n");
  return close;
}

}  // namespace

int main() {
  board::paint_stack();
  const uint64_t start = board::instructions();
  firmware::kResetState();
  const uint64_t load_instructions = board::instructions() - start;
  const size_t load_stack = board::stack_used();
  bool equal = true;
  uint64_t most_instructions = 0;
  size_t most_stack = 0;
  for (size_t e = 0; e < firmware::kNumExamples; ++e) {
    const Example& example = firmware::kExamples[e];
    board::paint_stack();
    int error = 0;
    for (size_t i = 0; i < example.num_inputs && error == 0; ++i) {
      error = set_input(example, i);
    }
    const uint64_t before = board::instructions();
    error = error != 0 ? error : example.run();
    if (error != 0) {
      write_number("error ", static_cast<uint64_t>(error));
      board::write(" in ");
      board::write(firmware::kFailed() == nullptr ? "an input" : firmware::kFailed());
      board::write("\n");
      return error;
    }
    const uint64_t instructions = board::instructions() - before;
    const size_t stack = board::stack_used();
    most_instructions = instructions > most_instructions ? instructions : most_instructions;
    most_stack = stack > most_stack ? stack : most_stack;
    for (size_t i = 0; i < example.num_outputs; ++i) {
      equal = check_output(e, i) && equal;
    }
  }
  write_number("load: instructions ", load_instructions);
  write_number(", stack ", load_stack);
  write_number("\nexecute: instructions ", most_instructions);
  write_number(", stack ", most_stack);
  write_number("\nmemory: model ", firmware::kWeightBytes);
  write_number(", arena ", firmware::kTensorBytes);
  write_number(", method ", 0);
  write_number(", temp ", firmware::kScratchUsed());
  board::write("\n");
  return equal ? 0 : 1;
}
