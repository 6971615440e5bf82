// LSTM and GRU layers of int8 against the plain kernel: bit for bit.
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

class CortexMRecurrent : public ::testing::TestWithParam<int> {};

TEST_P(CortexMRecurrent, Lstm) {
  std::mt19937 random{static_cast<uint32_t>(GetParam())};
  const auto between = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  const int64_t steps = between(1, 6), batch = between(1, 5), hidden = between(1, 40), rows = 4 * hidden;
  const bool has_first = random() % 3 == 0;
  Call call("et::quantized_lstm.out");
  call.bytes_of(ScalarType::Char, {steps, batch, rows}).number(0.04).integer(between(-128, 127));
  has_first&& random() % 2 == 0 ? call.none() : call.tensor({batch, hidden}, kRowMajor, -1.0f, 1.0f);
  call.tensor({batch, hidden}).number(0.008).integer(between(-20, 20)).integer(-128).integer(127);
  call.bytes_of(ScalarType::Char, {rows, hidden}).as_constant();
  call.constant({random() % 4 == 0 ? 1 : rows}, kRowMajor, 1e-4f, 4e-3f);
  random() % 2 == 0 ? call.bytes_of(ScalarType::Int, {rows}).as_constant() : call.none();
  has_first ? call.bytes_of(ScalarType::Char, {rows}) : call.none();
  call.number(0.05).integer(between(-20, 20)).integer(-128).integer(127);
  // The last scale is too far from the others for a sum in fixed point.
  call.number(random() % 8 == 0 ? 1e-7 : 0.06).integer(between(-20, 20)).integer(between(-128, -90)).integer(120);
  call.flag(random() % 2 == 0).out({steps, batch, hidden}).out({batch, hidden});
  call.expect_same(runtime::kPriorityOptimized);
}

TEST_P(CortexMRecurrent, Gru) {
  std::mt19937 random{static_cast<uint32_t>(GetParam())};
  const auto between = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  const int64_t steps = between(1, 6), batch = between(1, 5), hidden = between(1, 40), rows = 3 * hidden;
  Call call("et::quantized_gru.out");
  call.bytes_of(ScalarType::Char, {steps, batch, rows}).number(0.04).integer(between(-128, 127));
  call.tensor({batch, hidden}, kRowMajor, -1.0f, 1.0f);
  call.number(0.008).integer(between(-20, 20)).integer(-128).integer(between(100, 127));
  call.bytes_of(ScalarType::Char, {rows, hidden}).as_constant();
  call.constant({random() % 4 == 0 ? 1 : rows}, kRowMajor, 1e-4f, 4e-3f);
  random() % 2 == 0 ? call.bytes_of(ScalarType::Int, {rows}).as_constant() : call.none();
  switch (random() % 3) {
    case 0: call.tensor({rows}); break;
    case 1: call.tensor({batch, rows}); break;
    default: call.none();
  }
  call.number(0.05).integer(between(-20, 20)).integer(-128).integer(127);
  call.flag(random() % 2 == 0).out({steps, batch, hidden});
  call.expect_same(runtime::kPriorityOptimized);
}

INSTANTIATE_TEST_SUITE_P(Seeds, CortexMRecurrent, ::testing::Range(0, 120));

}  // namespace
}  // namespace et::kernels::testing
