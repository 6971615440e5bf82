// et::weight_only_linear: one row of input and several, on every instruction set, against the plain kernel.

#include "instruction_sets.h"
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

struct Weights {
  int64_t rows, columns, group;  // 0: one scale a row
  bool is_packed;
};

void expect_same(const Weights& w, int64_t inputs, bool has_zeros) {
  SCOPED_TRACE(::testing::Message() << inputs << " rows of " << w.columns << " to " << w.rows << ", groups of "
                                    << w.group << (w.is_packed ? ", 4 bits" : ", 8 bits"));
  const int64_t bytes = w.is_packed ? (w.columns + 1) / 2 : w.columns;
  const int64_t scales = w.rows * (w.group == 0 ? 1 : w.columns / w.group);
  Call call("et::weight_only_linear.out");
  call.tensor({inputs, w.columns}).bytes_of(w.is_packed ? ScalarType::Byte : ScalarType::Char, {w.rows, bytes});
  call.as_constant().constant({scales}, kRowMajor, 0.001f, 0.01f);
  has_zeros ? call.bytes_of(ScalarType::Char, {scales}).as_constant() : call.none();
  call.constant({w.rows}).integer(w.group).out({inputs, w.rows});
  call.expect_same(runtime::kPriorityOptimized, 1e-5);
}

TEST(WeightOnly, EveryInstructionSet) {
  for_each_instruction_set([&] {
    for (const bool is_packed : {false, true}) {
      for (const Weights& w :
           {Weights{1, 32, 0, is_packed}, Weights{7, 33, 0, is_packed}, Weights{6, 300, 0, is_packed},
            Weights{5, 96, 32, is_packed}, Weights{9, 4160, 32, is_packed}, Weights{4, 64, 8, is_packed},
            Weights{3, 30, 6, is_packed}}) {
        for (const bool has_zeros : {false, true}) {
          expect_same(w, 1, has_zeros);
          expect_same(w, 3, has_zeros);
        }
      }
    }
  });
}

}  // namespace
}  // namespace et::kernels::testing
