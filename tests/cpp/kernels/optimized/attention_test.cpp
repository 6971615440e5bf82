// Attention: sizes around the tile borders, masks, causal, grouped heads.

#include "attention_masks.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

void expect_same(int64_t batch, int64_t heads, int64_t key_heads, int64_t rows, int64_t keys, int64_t depth,
                 int64_t value_depth, Mask mask, bool causal) {
  SCOPED_TRACE(::testing::Message() << rows << " x " << keys << " x " << depth << ", mask " << mask << ", causal "
                                    << causal);
  Call call("et::scaled_dot_product_attention.out");
  call.tensor({batch, heads, rows, depth})
      .tensor({batch, key_heads, keys, depth})
      .tensor({batch, key_heads, keys, value_depth});
  add_mask(call, mask, batch, heads, rows, keys);
  call.number(0.0).flag(causal).none().flag(key_heads != heads).out({batch, heads, rows, value_depth});
  call.expect_same(kPriorityOptimized, 3e-6);
}

TEST(Attention, SizesAroundTheTiles) {
  for (const int64_t rows : {1, 2, 3, 4, 5, 11, 12, 13, 31}) {
    expect_same(1, 2, 2, rows, 40, 32, 32, kNone, false);
  }
  for (const int64_t keys : {1, 7, 16, 31, 33, 255, 256, 257, 600}) {
    expect_same(1, 1, 1, 14, keys, 20, 24, kNone, false);
    expect_same(1, 1, 1, 1, keys, 20, 24, kNone, false);
  }
  for (const int64_t depth : {1, 3, 8, 31, 64, 65}) {
    expect_same(2, 1, 1, 13, 50, depth, depth, kNone, false);
    expect_same(1, 1, 1, 2, 50, depth, 7, kNone, false);
  }
}

TEST(Attention, Masks) {
  for (const Mask mask : {kNone, kFloat, kBool, kRowVector, kColumn}) {
    for (const bool causal : {false, true}) {
      if (causal && mask != kNone) {
        continue;  // an error, as in PyTorch
      }
      expect_same(2, 3, 3, 40, 40, 16, 16, mask, causal);
      expect_same(1, 2, 2, 300, 300, 16, 16, mask, causal);
      expect_same(1, 2, 2, 1, 90, 16, 16, mask, causal);
    }
  }
}

TEST(Attention, GroupedHeads) {
  expect_same(2, 8, 2, 20, 50, 16, 16, kNone, false);
  expect_same(1, 8, 1, 1, 50, 16, 16, kRowVector, false);
}

TEST(Attention, RowsThatSeeNothingAreZero) {
  Call call("et::scaled_dot_product_attention.out");
  call.tensor({1, 1, 5, 8}).tensor({1, 1, 300, 8}).tensor({1, 1, 300, 8}).tensor({5, 300});
  for (size_t j = 0; j < 300; ++j) {
    call.set(2 * 300 + j, -std::numeric_limits<float>::infinity());
    call.set(3 * 300 + j, j < 256 ? -std::numeric_limits<float>::infinity() : 0.0f);  // the first block is hidden
  }
  call.number(0.0).flag(false).number(0.3).flag(false).out({1, 1, 5, 8}).expect_same(kPriorityOptimized, 3e-6);
}

TEST(Attention, ThreeDimensions) {
  Call("et::scaled_dot_product_attention.out")
      .tensor({4, 30, 16})
      .tensor({4, 20, 16})
      .tensor({4, 20, 16})
      .none()
      .number(0.0)
      .flag(false)
      .none()
      .flag(false)
      .out({4, 30, 16})
      .expect_same(kPriorityOptimized, 3e-6);
}

}  // namespace
}  // namespace et::kernels::testing
