// One case: example inputs, and what the host computed from them. Integers must be equal, floats close.
#include <cstring>

#include "board/board.h"
#include "cases.h"
#include "model.h"
#include "report.h"

namespace firmware {

using namespace et;           // NOLINT(google-build-using-namespace): a program, not a header
using namespace et::runtime;  // NOLINT(google-build-using-namespace)

namespace {

/// True when these floats are as close as another library's exp() and order of sums leave them.
bool is_close(const Tensor& tensor, const uint8_t* wanted) {
  const auto* const values = static_cast<const float*>(tensor.const_data_ptr());
  for (int64_t e = 0; e < tensor.numel(); ++e) {
    float other;
    memcpy(&other, wanted + static_cast<size_t>(e) * sizeof(float), sizeof(float));
    const float difference = values[e] < other ? other - values[e] : values[e] - other;
    if (!(difference <= 1e-5f + 1e-4f * (other < 0 ? -other : other))) {
      return false;
    }
  }
  return true;
}

/// True when output `i` is what the host computed: the same bytes, or floats that are close.
bool is_as_on_host(const Method& method, size_t i) {
  const Tensor tensor = method.get_output(i).to_tensor();
  const Bytes& wanted = kOutputs[i];
#ifdef FIRMWARE_WRITES_OUTPUTS
  board::write_bytes(0, i, static_cast<const uint8_t*>(tensor.const_data_ptr()), tensor.nbytes());
#endif
  write_number("output ", i);
  const bool is_whole = tensor.nbytes() == wanted.size;
  if (is_whole && memcmp(tensor.const_data_ptr(), wanted.data, wanted.size) == 0) {
    board::write(": as on the host\n");
    return true;
  }
  const bool close =
      kHasFloats && is_whole && tensor.scalar_type() == ScalarType::Float && is_close(tensor, wanted.data);
  board::write(close ? ": close to the host's\n" : ": differs from the host's\n");
  return close;
}

}  // namespace

Result<Span<const uint8_t>> program_bytes() { return Span<const uint8_t>(kModel, kModelBytes); }

size_t num_cases() { return 1; }

Error set_inputs(Method& method, size_t) {
  for (size_t i = 0; i < method.num_inputs(); ++i) {
    ET_RETURN_IF_ERROR(set_input(method, i, kInputs[i].data, kInputs[i].size));
  }
  return Error::Ok;
}

bool check_outputs(const Method& method, size_t) {
  bool equal = true;
  for (size_t i = 0; i < kNumOutputs; ++i) {
    equal = is_as_on_host(method, i) && equal;
  }
  return equal;
}

}  // namespace firmware
