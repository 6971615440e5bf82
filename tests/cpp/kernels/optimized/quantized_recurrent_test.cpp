// Steps of quantized recurrent layers against the plain kernel: sizes around strips and tiles, every instruction set.
// Equality with the steps one by one is tested in Python (tests/ops/test_quantized_recurrent.py).

#include "instruction_sets.h"
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

struct Layer {
  int64_t gates, batch, hidden;
  bool bias = false;
  bool first = false;
  bool packed = false;  // weights of 4 bits
  bool is_unsigned = false;
};

/// One step: a state that differs in its last bit may become another integer in the next one.
Call& describe(Call& call, const Layer& layer) {
  const bool is_lstm = layer.gates == 4;
  const int64_t rows = layer.gates * layer.hidden;
  const int64_t low = layer.is_unsigned ? 0 : -128;
  const ScalarType dtype = layer.is_unsigned ? ScalarType::Byte : ScalarType::Char;
  const auto range = [&] { call.integer(low).integer(low + 255); };
  call.bytes_of(dtype, {1, layer.batch, rows}).number(0.04).integer(low + 130);
  call.tensor({layer.batch, layer.hidden}, kRowMajor, -1.0f, 1.0f);
  if (is_lstm) {
    call.tensor({layer.batch, layer.hidden});
  }
  call.number(0.008).integer(low + 125);
  range();
  layer.packed ? call.bytes_of(ScalarType::Byte, {rows, (layer.hidden + 1) / 2})
               : call.bytes_of(ScalarType::Char, {rows, layer.hidden});
  call.as_constant().constant({rows}, kRowMajor, 1e-4f, 4e-3f);
  layer.bias ? call.bytes_of(ScalarType::Int, {rows}).as_constant() : call.none();
  if (!layer.first) {
    call.none();
  } else if (is_lstm) {
    call.bytes_of(dtype, {rows});
  } else {
    call.tensor({layer.batch, rows});
  }
  call.number(0.05).integer(low + 131);
  range();
  if (is_lstm) {
    call.number(0.06).integer(low + 124).integer(low + 8).integer(low + 248);
  }
  call.flag(false).out({1, layer.batch, layer.hidden});
  return is_lstm ? call.out({layer.batch, layer.hidden}) : call;
}

void expect_same(const Layer& layer) {
  SCOPED_TRACE(::testing::Message() << layer.gates << " gates, " << layer.batch << " x " << layer.hidden << ", bias "
                                    << layer.bias << ", first " << layer.first << ", packed " << layer.packed
                                    << ", unsigned " << layer.is_unsigned);
  Call call(layer.gates == 4 ? "et::quantized_lstm.out" : "et::quantized_gru.out");
  describe(call, layer).expect_same(runtime::kPriorityOptimized, 2e-6);
}

TEST(QuantizedRecurrent, SizesAroundStripsAndTiles) {
  for (const int64_t gates : {3, 4}) {
    for (const int64_t hidden : {1, 3, 4, 8, 15, 16, 17, 31, 33, 70}) {
      for (const int64_t batch : {1, 2, 4, 7}) {
        expect_same({gates, batch, hidden});
      }
    }
  }
}

TEST(QuantizedRecurrent, BiasesFirstProductsAndPackedWeights) {
  for (const int64_t gates : {3, 4}) {
    for (const bool packed : {false, true}) {
      expect_same({gates, 3, 21, true, false, packed});
      expect_same({gates, 3, 21, true, true, packed});
      expect_same({gates, 3, 21, false, true, packed});
    }
  }
}

TEST(QuantizedRecurrent, EveryInstructionSet) {
  for_each_instruction_set([&] {
    for (const int64_t gates : {3, 4}) {
      expect_same({gates, 5, 37});
      expect_same({gates, 1, 64, true});
      expect_same({gates, 2, 19, false, true});
      expect_same({gates, 3, 37, true, false, false, true});
      expect_same({gates, 1, 20, false, true, false, true});
    }
  });
}

}  // namespace
}  // namespace et::kernels::testing
