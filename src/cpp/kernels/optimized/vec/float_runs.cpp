#include "kernels/optimized/vec/float_runs.h"

#include "kernels/optimized/vec/every_target-inl.h"

#include "kernels/optimized/vec/half-inl.h"
#include "kernels/portable/convert.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;

void HalfToFloat(const void* data, size_t n, float* out) {
  const Tag d;
  const hn::Rebind<hwy::float16_t, Tag> half;
  const size_t lanes = hn::Lanes(d);
  const auto* const from = static_cast<const hwy::float16_t*>(data);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(half_to_float(d, hn::LoadU(half, from + i)), d, out + i);
  }
  for (; i < n; ++i) {
    out[i] = static_cast<const Half*>(data)[i];
  }
}

void FloatToHalf(const float* values, size_t n, void* data) {
  const Tag d;
  const hn::Rebind<hwy::float16_t, Tag> half;
  const size_t lanes = hn::Lanes(d);
  auto* const to = static_cast<hwy::float16_t*>(data);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(float_to_half(d, hn::LoadU(d, values + i)), half, to + i);
  }
  for (; i < n; ++i) {
    static_cast<Half*>(data)[i] = Half(values[i]);
  }
}

// Shifts and additions of integers, which the compiler makes vectors of here, and not below.
void BFloat16ToFloat(const void* data, size_t n, float* out) {
  const auto* const from = static_cast<const BFloat16*>(data);
  for (size_t i = 0; i < n; ++i) {
    out[i] = from[i];
  }
}

void FloatToBFloat16(const float* values, size_t n, void* data) {
  const Tag d;
  const hn::RebindToUnsigned<Tag> du;
  const hn::Rebind<uint16_t, Tag> half;
  const size_t lanes = hn::Lanes(d);
  auto* const to = static_cast<BFloat16*>(data);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, values + i);
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu))));
    const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40u));
    const auto chosen = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
    hn::StoreU(hn::TruncateTo(half, chosen), half, reinterpret_cast<uint16_t*>(to + i));
  }
  for (; i < n; ++i) {
    to[i] = BFloat16(values[i]);
  }
}

}  // namespace et::kernels::optimized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(HalfToFloat);
HWY_EXPORT(FloatToHalf);
HWY_EXPORT(BFloat16ToFloat);
HWY_EXPORT(FloatToBFloat16);

void floats_from(ScalarType dtype, const void* data, int64_t stride, size_t n, float* out) {
  if (stride == 1 && dtype == ScalarType::Half) {
    HWY_DYNAMIC_DISPATCH(HalfToFloat)(data, n, out);
  } else if (stride == 1 && dtype == ScalarType::BFloat16) {
    HWY_DYNAMIC_DISPATCH(BFloat16ToFloat)(data, n, out);
  } else {
    portable::load(dtype, data, stride, static_cast<int64_t>(n), out);
  }
}

void floats_to(ScalarType dtype, const float* values, size_t n, void* out) {
  if (dtype == ScalarType::Half) {
    HWY_DYNAMIC_DISPATCH(FloatToHalf)(values, n, out);
  } else if (dtype == ScalarType::BFloat16) {
    HWY_DYNAMIC_DISPATCH(FloatToBFloat16)(values, n, out);
  } else {
    portable::store(dtype, values, static_cast<int64_t>(n), out, 1);
  }
}

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
