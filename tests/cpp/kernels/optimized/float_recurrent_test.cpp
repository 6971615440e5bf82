// Layers that quantize their state at run time, or multiply it as it is, against the plain kernels: every instruction
// set. Equality with the steps one by one is tested in Python (tests/ops/test_quantized_recurrent.py).

#define ET_TARGETS_WITH_BYTE_PRODUCTS
#include "instruction_sets.h"
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

struct Layer {
  int64_t gates, batch, hidden;
  int64_t group = 0;
  bool packed = false;
  bool first = false;
};

/// One step: a state that differs in its last bit may become another integer in the next one.
void expect_same(const Layer& layer, bool is_dynamic) {
  SCOPED_TRACE(::testing::Message() << (is_dynamic ? "dynamic, " : "weight only, ") << layer.gates << " gates, "
                                    << layer.batch << " x " << layer.hidden << ", groups of " << layer.group
                                    << ", packed " << layer.packed << ", first " << layer.first);
  const bool is_lstm = layer.gates == 4;
  const int64_t rows = layer.gates * layer.hidden;
  const int64_t scales = rows * (layer.group == 0 ? 1 : layer.hidden / layer.group);
  const char* const names[2][2] = {{"et::weight_only_gru.out", "et::weight_only_lstm.out"},
                                   {"et::dynamic_gru.out", "et::dynamic_lstm.out"}};
  Call call(names[is_dynamic ? 1 : 0][is_lstm ? 1 : 0]);
  call.tensor({1, layer.batch, rows}).tensor({layer.batch, layer.hidden}, kRowMajor, -1.0f, 1.0f);
  if (is_lstm) {
    call.tensor({layer.batch, layer.hidden});
  }
  layer.packed ? call.bytes_of(ScalarType::Byte, {rows, (layer.hidden + 1) / 2})
               : call.bytes_of(ScalarType::Char, {rows, layer.hidden});
  call.as_constant().constant({scales}, kRowMajor, 1e-4f, 4e-3f);
  if (!is_dynamic) {
    call.none();
  }
  call.constant({rows}).integer(layer.group);
  if (is_dynamic) {
    call.flag(layer.batch % 2 == 0).flag(false).integer(-128).integer(127).number(1e-6);
  }
  layer.first ? call.tensor({rows}) : call.none();
  call.flag(false).out({1, layer.batch, layer.hidden});
  if (is_lstm) {
    call.out({layer.batch, layer.hidden});
  }
  call.expect_same(runtime::kPriorityOptimized, 4e-6);
}

TEST(FloatRecurrent, EveryInstructionSet) {
  for_each_instruction_set([&] {
    for (const bool is_dynamic : {false, true}) {
      for (const int64_t gates : {3, 4}) {
        for (const int64_t hidden : {1, 7, 16, 33, 70}) {
          expect_same({gates, 1, hidden}, is_dynamic);
          expect_same({gates, 5, hidden, 0, true}, is_dynamic);
        }
        expect_same({gates, 1, 64, 32, true}, is_dynamic);
        expect_same({gates, 2, 48, 16}, is_dynamic);
        expect_same({gates, 3, 19, 0, false, true}, is_dynamic);
      }
    }
  });
}

}  // namespace
}  // namespace et::kernels::testing
