// et::quantized_layer_norm in vectors: the plain kernel's integers for every length, type and range of a row.

#include "instruction_sets.h"
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

struct Norm {
  ScalarType dtype;
  int64_t rows, length;
  bool has_parameters;
  double in_scale = 0.05, out_scale = 0.03;
  int64_t spread = 127;  // of a row's integers around 0
  float largest = 2.0f;  // parameter

  void expect_same() const {
    const bool is_signed = dtype == ScalarType::Char;
    Call call("et::quantized_layer_norm.out");
    call.bytes_of(dtype, {rows, length}).change_bytes([this](int byte) { return byte * spread / 127; });
    call.number(in_scale).integer(is_signed ? -7 : 120).list({length});
    for (int i = 0; i < 2; ++i) {
      has_parameters ? call.constant({length}, kRowMajor, -largest, largest) : call.none();
    }
    call.number(1e-5).number(out_scale).integer(is_signed ? 9 : 130).integer(is_signed ? -128 : 3);
    call.integer(is_signed ? 100 : 255).out({rows, length}, kRowMajor, dtype).expect_same(kPriorityOptimized);
  }
};

TEST(IntegerNorm, RowsOfEveryLengthAreThoseOfThePlainKernel) {
  for_each_instruction_set([] {
    for (const ScalarType dtype : {ScalarType::Char, ScalarType::Byte}) {
      for (const int64_t length : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 768, 2047, 2048, 2049, 5000}) {
        for (const bool has_parameters : {false, true}) {
          SCOPED_TRACE(length);
          Norm{dtype, 5, length, has_parameters}.expect_same();
        }
      }
    }
  });
}

TEST(IntegerNorm, NarrowRowsAndFarParameters) {
  for_each_instruction_set([] {
    for (const int64_t spread : {0, 1, 2, 9}) {
      for (const double scale : {1e-6, 0.001, 0.05, 4.0}) {
        for (const float largest : {1e-6f, 1.0f, 300.0f, 1e9f}) {  // with the last, sums need more than 32 bits
          SCOPED_TRACE(spread);
          Norm{ScalarType::Char, 3, 77, true, scale, 0.03, spread, largest}.expect_same();
          Norm{ScalarType::Byte, 3, 64, true, 0.05, scale, spread, largest}.expect_same();
        }
      }
    }
  });
}

TEST(IntegerNorm, ManyRowsOnThreads) { Norm{ScalarType::Char, 300, 96, true}.expect_same(); }

}  // namespace
}  // namespace et::kernels::testing
