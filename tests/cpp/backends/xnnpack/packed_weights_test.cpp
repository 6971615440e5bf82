// Packed weights are found again under everything that decides how they are packed, number by number.
#include <gtest/gtest.h>

#include "backends/xnnpack/kernels/library.h"
#include "runtime/host/heap_shared_cache.h"

namespace et::backends::xnnpack {
namespace {

constexpr float kWeight[4] = {};
constexpr size_t kNotFound = SIZE_MAX;

size_t look_up(const PackedWeightsScope& scope) {
  const xnn_weights_cache_look_up_key key{0, kWeight, nullptr};
  return scope.cache()->look_up(scope.cache()->context, &key);
}

void insert(const PackedWeightsScope& scope) {
  const xnn_weights_cache_look_up_key key{0, kWeight, nullptr};
  void* const packed = scope.cache()->reserve_space(scope.cache()->context, 64);
  EXPECT_EQ(scope.cache()->look_up_or_insert(scope.cache()->context, &key, packed, 64),
            reinterpret_cast<size_t>(packed));
}

bool identify(const void* form, const void* /*weight*/, const void* /*bias*/, WeightForm* out) {
  *out = *static_cast<const WeightForm*>(form);
  return true;
}
void on_packed(const void* /*form*/, const void* /*weight*/) {}

TEST(PackedWeights, OfAGraphAreNamedByEachNumberOfTheirForm) {
  runtime::HeapSharedCache shared;
  const WeightForm form = {PackedWeightsScope::kGraph, 2, 2};
  insert(PackedWeightsScope(&shared, &identify, &on_packed, &form));
  EXPECT_NE(look_up(PackedWeightsScope(&shared, &identify, &on_packed, &form)), kNotFound);
  for (size_t i = 0; i < form.size(); ++i) {
    WeightForm other = form;
    other[i] ^= uint64_t{1} << (i * 2);
    EXPECT_EQ(look_up(PackedWeightsScope(&shared, &identify, &on_packed, &other)), kNotFound) << "number " << i;
  }
}

TEST(PackedWeights, OfAKernelAreNamedByKindSizesAndFactors) {
  runtime::HeapSharedCache shared;
  insert(PackedWeightsScope(&shared, kWeight, {1, 4}, nullptr, 1, {7, 8}));
  EXPECT_NE(look_up(PackedWeightsScope(&shared, kWeight, {1, 4}, nullptr, 1, {7, 8})), kNotFound);
  EXPECT_EQ(look_up(PackedWeightsScope(&shared, kWeight, {4, 1}, nullptr, 1, {7, 8})), kNotFound);
  EXPECT_EQ(look_up(PackedWeightsScope(&shared, kWeight, {1, 4}, nullptr, 2, {7, 8})), kNotFound);
  EXPECT_EQ(look_up(PackedWeightsScope(&shared, kWeight, {1, 4}, nullptr, 1, {8, 7})), kNotFound);
  EXPECT_EQ(look_up(PackedWeightsScope(&shared, kWeight, {1, 4}, kWeight, 1, {7, 8})), kNotFound);
  EXPECT_EQ(look_up(PackedWeightsScope(&shared, kWeight + 1, {1, 4}, nullptr, 1, {7, 8})), kNotFound);
}

}  // namespace
}  // namespace et::backends::xnnpack
