// Attention of integers: the plain kernel's, or one step beside them, for sizes around the panels, masks, heads that
// share keys, both types and every instruction set.

#include "attention_masks.h"
#include "instruction_sets.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

struct Attention {
  int64_t batch, heads, key_heads, rows, keys, depth, value_depth;
  Mask mask = kNone;
  bool causal = false;
  ScalarType dtype = ScalarType::Char;
  double scale = 0.002;  // of query and key each, times the root of the depth
  bool extremes = false;

  void expect_same() const {
    SCOPED_TRACE(::testing::Message() << rows << " x " << keys << " x " << depth << " x " << value_depth << ", mask "
                                      << mask << ", causal " << causal << ", scale " << scale);
    const int64_t zero = dtype == ScalarType::Char ? 0 : 128;
    Call call("et::quantized_attention.out");
    const auto operand = [&](int64_t of_heads, int64_t length, int64_t width, double of_operand, int64_t zero_point) {
      call.bytes_of(dtype, {batch, of_heads, length, width});
      if (extremes) {
        call.ends();
      }
      call.number(of_operand).integer(zero_point);
    };
    operand(heads, rows, depth, scale, zero + 90);
    operand(key_heads, keys, depth, 4 * scale, zero - 77);
    operand(key_heads, keys, value_depth, 0.02, zero - 30);
    add_mask(call, mask, batch, heads, rows, keys);
    call.flag(causal).none().flag(key_heads != heads);
    // Outputs are means of values: a scale that spreads them over many steps, and makes no halves of equal weights.
    call.number(0.00397).integer(zero + 5).integer(zero - 100).integer(zero + 127);
    call.out({batch, heads, rows, value_depth}, kRowMajor, dtype).expect_same(kPriorityOptimized, 1);
  }
};

TEST(QuantizedAttention, SizesAroundThePanels) {
  for_each_instruction_set([] {
    for (const int64_t rows : {1, 2, 5, 7, 8, 9, 16, 31, 32, 33, 70}) {
      Attention{1, 2, 2, rows, 40, 32, 32}.expect_same();
    }
    for (const int64_t keys : {1, 3, 4, 5, 15, 16, 17, 31, 33, 63, 65, 255, 256, 257, 600}) {
      Attention{1, 1, 1, 14, keys, 20, 24}.expect_same();
      Attention{1, 1, 1, 1, keys, 20, 24}.expect_same();
    }
    for (const int64_t depth : {1, 3, 4, 8, 15, 16, 31, 64, 65, 130}) {
      Attention{2, 1, 1, 13, 50, depth, depth}.expect_same();
      Attention{1, 1, 1, 40, 50, depth, 7}.expect_same();
    }
  });
}

TEST(QuantizedAttention, Masks) {
  for_each_instruction_set([] {
    for (const Mask mask : {kNone, kFloat, kBool, kRowVector, kColumn, kAllHidden}) {
      for (const bool causal : {false, true}) {
        if (causal && mask != kNone) {
          continue;  // an error, as in PyTorch
        }
        Attention{2, 3, 3, 40, 40, 16, 16, mask, causal}.expect_same();
        Attention{1, 2, 2, 300, 300, 16, 16, mask, causal}.expect_same();
        Attention{1, 2, 2, 1, 90, 16, 16, mask, causal}.expect_same();
      }
    }
  });
}

TEST(QuantizedAttention, SoftAndSharpWeights) {
  for_each_instruction_set([] {
    for (const ScalarType dtype : {ScalarType::Char, ScalarType::Byte}) {
      for (const double scale : {1e-6, 0.0005, 0.004, 0.02, 0.5}) {
        Attention{1, 2, 2, 33, 700, 64, 64, kNone, false, dtype, scale}.expect_same();
        Attention{1, 1, 1, 33, 300, 64, 64, kNone, false, dtype, scale, true}.expect_same();
      }
    }
  });
}

TEST(QuantizedAttention, GroupedHeads) {
  for_each_instruction_set([] {
    Attention{2, 8, 2, 20, 50, 16, 16}.expect_same();
    Attention{1, 8, 1, 1, 50, 16, 16, kRowVector}.expect_same();
  });
}

TEST(QuantizedAttention, ManyFarKeysKeepTheirWeight) {
  // One key 11.9 above all others: each of their weights is less than half of the smallest that 16 bits have.
  for_each_instruction_set([] {
    for (const int64_t keys : {256, 1024, 4096}) {
      Call call("et::quantized_attention.out");
      const auto operand = [&](int64_t length, int first, int others) {
        call.bytes_of(ScalarType::Char, {1, 1, length, 16});
        size_t i = 0;
        call.change_bytes([&](int) { return i++ < 16 ? first : others; });
        call.number(1.0).integer(0);
      };
      operand(1, 1, 1);
      operand(keys, 119, 0);
      operand(keys, -128, 100);
      call.none().flag(false).number(0.1 / 16).flag(false).number(1.0).integer(0).integer(-128).integer(127);
      call.out({1, 1, 1, 16}, kRowMajor, ScalarType::Char).expect_same(kPriorityOptimized, 1);
    }
  });
}

TEST(QuantizedAttention, LargeDepthsStayExact) {
  Attention{1, 1, 1, 3, 9, 16384, 8, kNone, false, ScalarType::Char, 1e-5, true}.expect_same();
  Attention{1, 1, 1, 3, 9, 16385, 8, kNone, false, ScalarType::Char, 1e-5, true}.expect_same();
}

TEST(QuantizedAttention, NotANumberIsTheLeastResult) {
  for_each_instruction_set([] {
    Call call("et::quantized_attention.out");
    for (int i = 0; i < 3; ++i) {
      call.bytes_of(ScalarType::Char, {1, 1, 20, 16}).number(0.02).integer(3);
    }
    call.tensor({20, 20}).set(25, std::numeric_limits<float>::quiet_NaN());
    call.flag(false).none().flag(false).number(0.01).integer(5).integer(-90).integer(127);
    call.out({1, 1, 20, 16}, kRowMajor, ScalarType::Char).expect_same(kPriorityOptimized, 1);
  });
}

}  // namespace
}  // namespace et::kernels::testing
