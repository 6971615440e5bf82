#include "kernels/optimized/matmul/gemm_pairs.h"

#define ET_TARGETS_WITH_BFLOAT16
#include "kernels/optimized/vec/every_target-inl.h"

#include "kernels/optimized/matmul/gemm_block-inl.h"
#include "kernels/optimized/vec/transpose4-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::matmul::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

#if HWY_NATIVE_DOT_BF16
namespace hn = hwy::HWY_NAMESPACE;

/// Two steps of the depth at a time, which lie side by side.
struct Pairs {
  using D = hn::ScalableTag<float>;
  using DH = hn::Repartition<hwy::bfloat16_t, D>;
  static constexpr size_t kSteps = 2;
  static HWY_INLINE hn::Vec<DH> load(const BFloat16* right) {
    return hn::LoadU(DH(), reinterpret_cast<const hwy::bfloat16_t*>(right));
  }
  static HWY_INLINE hn::Vec<DH> broadcast(const BFloat16* left) {
    uint32_t pair;
    hwy::CopyBytes<sizeof(pair)>(left, &pair);
    return hn::BitCast(DH(), hn::Set(hn::RebindToUnsigned<D>(), pair));
  }
  static HWY_INLINE hn::Vec<D> mul_add(hn::Vec<DH> a, hn::Vec<DH> b, hn::Vec<D> sum) {
    hn::Vec<D> other = hn::Zero(D());  // the native instruction has one sum
    return hn::ReorderWidenMulAccumulate(D(), a, b, sum, other);
  }
};

void MultiplyPairsBlock(const GemmBlock<float, BFloat16>& block) { multiply_block<Pairs>(block); }
MultiplyPairs PairsFunction() { return &MultiplyPairsBlock; }
#else
MultiplyPairs PairsFunction() { return nullptr; }
#endif

}  // namespace et::kernels::optimized::matmul::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::matmul {

HWY_EXPORT(PairsFunction);

void pack_pair(const BFloat16* first, const BFloat16* second, size_t n, BFloat16* pairs) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::FixedTag<uint16_t, 8> d;
  const auto load = [&](const BFloat16* from) { return hn::LoadU(d, reinterpret_cast<const uint16_t*>(from)); };
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const auto a = load(first + i), b = load(second + i);
    hn::StoreU(hn::InterleaveLower(d, a, b), d, reinterpret_cast<uint16_t*>(pairs + 2 * i));
    hn::StoreU(hn::InterleaveUpper(d, a, b), d, reinterpret_cast<uint16_t*>(pairs + 2 * i + 8));
  }
  for (; i < n; ++i) {
    pairs[2 * i] = first[i];
    pairs[2 * i + 1] = second[i];
  }
}

void transpose_pairs(const BFloat16* in, size_t rows, size_t columns, BFloat16* out) {
  constexpr size_t kPair = 2 * sizeof(BFloat16);
  for (size_t i = 0; i < rows; i += 4) {
    for (size_t j = 0; j < columns; j += 4) {
      HWY_NAMESPACE::transpose4(reinterpret_cast<const char*>(in + 2 * (i * columns + j)),
                                reinterpret_cast<char*>(out + 2 * (j * rows + i)),
                                static_cast<int64_t>(columns * kPair), static_cast<int64_t>(rows * kPair));
    }
  }
}

MultiplyPairs pairs_function() { return HWY_DYNAMIC_DISPATCH(PairsFunction)(); }

}  // namespace et::kernels::optimized::matmul
#endif  // HWY_ONCE
