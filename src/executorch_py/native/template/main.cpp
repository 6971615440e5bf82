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

bool check_output(size_t e, size_t i) {
  const Example& example = firmware::kExamples[e];
  const Bytes& wanted = example.outputs[i];
  if (wanted.data == nullptr) {
    return true;  // None
  }
  const auto* const found = static_cast<const uint8_t*>(example.output(static_cast<int>(i)));
#ifdef FIRMWARE_WRITES_OUTPUTS
  board::write_bytes(e, i, found, wanted.size);
#endif
  const bool equal = memcmp(found, wanted.data, wanted.size) == 0;
  const bool close = equal || (example.is_float[i] && is_close(found, wanted));
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
    for (size_t i = 0; i < example.num_inputs; ++i) {
      void* const place = example.input(static_cast<int>(i));
      if (place != nullptr && example.inputs[i].size != 0) {  // else it was fixed at export
        memcpy(place, example.inputs[i].data, example.inputs[i].size);
      }
    }
    const uint64_t before = board::instructions();
    const int error = example.run();
    if (error != 0) {
      write_number("error ", static_cast<uint64_t>(error));
      board::write(" in ");
      board::write(firmware::kFailed());
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
