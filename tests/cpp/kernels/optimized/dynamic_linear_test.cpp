// et::dynamic_linear: rows that fill tiles and such that do not, on every instruction set, against the plain kernel.

#define ET_TARGETS_WITH_BYTE_PRODUCTS
#include "instruction_sets.h"
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

struct Weights {
  int64_t rows, columns, group;  // 0: one scale a row
};

struct Range {
  bool per_token, is_symmetric;
  int64_t low, high;
};

/// Weights divided by `size` are small enough for chains (quantized/quad_chains.h), on processors that have those.
void expect_same(const Weights& w, bool is_packed, int64_t inputs, const Range& range, int size = 1) {
  SCOPED_TRACE(::testing::Message() << inputs << " rows of " << w.columns << " to " << w.rows << ", groups of "
                                    << w.group << (is_packed ? ", 4 bits" : ", 8 bits") << ", from " << range.low
                                    << (range.per_token ? " by token" : ""));
  const int64_t bytes = is_packed ? (w.columns + 1) / 2 : w.columns;
  const int64_t scales = w.rows * (w.group == 0 ? 1 : w.columns / w.group);
  Call call("et::dynamic_linear.out");
  call.tensor({inputs, w.columns}).bytes_of(is_packed ? ScalarType::Byte : ScalarType::Char, {w.rows, bytes});
  call.change_bytes([size](int byte) { return byte / size; });
  call.as_constant().constant({scales}, kRowMajor, 0.001f, 0.01f).constant({w.rows}).integer(w.group);
  call.flag(range.per_token).flag(range.is_symmetric).integer(range.low).integer(range.high).number(1e-6);
  call.out({inputs, w.rows});
  call.expect_same(runtime::kPriorityOptimized, 1e-6);
}

TEST(DynamicLinear, EveryInstructionSet) {
  constexpr Range kRanges[] = {
      {true, false, -128, 127}, {true, true, -127, 127}, {false, false, 0, 255}, {false, true, -10, 200}};
  for_each_instruction_set([&] {
    for (const bool is_packed : {false, true}) {
      for (const Weights& w : {Weights{1, 32, 0}, Weights{7, 33, 0}, Weights{130, 96, 32}, Weights{37, 4160, 32},
                               Weights{64, 64, 8}, Weights{19, 30, 6}, Weights{3, 7, 1}, Weights{33, 256, 128}}) {
        for (const int64_t inputs : {1, 2, 4, 11}) {
          expect_same(w, is_packed, inputs, kRanges[(inputs + w.rows) % 4]);
          expect_same(w, is_packed, inputs, kRanges[(inputs + w.rows + 1) % 4]);
          if (!is_packed) {
            expect_same(w, is_packed, inputs, kRanges[inputs % 4], 8);
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace et::kernels::testing
