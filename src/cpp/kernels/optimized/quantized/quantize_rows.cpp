#include "kernels/optimized/quantized/quantize_rows.h"

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>

#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_QUANTIZED_QUANTIZE_ROWS_ONCE
#define ET_KERNELS_OPTIMIZED_QUANTIZED_QUANTIZE_ROWS_ONCE
namespace et::kernels::optimized::quantized {

/// How the numbers of a row become integers.
struct RowRule {
  bool per_token;
  double scale;
  float inverse;
  int32_t zero_point, least, most, moved;  ///< moved: what integers are less by as bytes
};

}  // namespace et::kernels::optimized::quantized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using IntegerTag = hn::RebindToSigned<Tag>;

/// Zero, and all numbers. A sum with NaN is NaN, and one without is none, unless the range is infinite.
void FindRange(const float* values, size_t n, NumberRange* range) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  constexpr size_t kParts = 4;  // so that none waits for the one before
  hn::Vec<Tag> low[kParts], high[kParts], sum[kParts];
#pragma GCC unroll 4
  for (size_t part = 0; part < kParts; ++part) {
    low[part] = high[part] = sum[part] = hn::Zero(d);
  }
  const auto take = [&](size_t part, auto x) HWY_ATTR {
    low[part] = hn::Min(x, low[part]), high[part] = hn::Max(x, high[part]);
    sum[part] = hn::Add(sum[part], x);
  };
  size_t i = 0;
  for (; i + kParts * lanes <= n; i += kParts * lanes) {
#pragma GCC unroll 4
    for (size_t part = 0; part < kParts; ++part) {
      take(part, hn::LoadU(d, values + i + part * lanes));
    }
  }
  for (; i < n; i += lanes) {
    take(0, hn::LoadN(d, values + i, HWY_MIN(lanes, n - i)));
  }
  *range = {};
#pragma GCC unroll 4
  for (size_t part = 0; part < kParts; ++part) {
    range->add({hn::ReduceMin(d, low[part]), hn::ReduceMax(d, high[part]), !hn::AllFalse(d, hn::IsNaN(sum[part]))});
  }
}

/// The nearest integers, the even one of two. What is rounded is at most 256 or so, since the scale comes of the range.
HWY_INLINE hn::Vec<IntegerTag> to_integers(const RowRule& rule, hn::Vec<Tag> x) {
  const Tag d;
  const IntegerTag di;
  if (!rule.per_token) {
    return hn::Add(hn::NearestInt(hn::Mul(x, hn::Set(d, rule.inverse))), hn::Set(di, rule.zero_point));
  }
  const hn::Repartition<double, Tag> dd;  // eager has tokens in double, and the zero point before rounding
  const hn::Rebind<int32_t, decltype(dd)> dh;
  const auto inverse = hn::Set(dd, 1.0 / rule.scale), zero = hn::Set(dd, static_cast<double>(rule.zero_point));
  const auto half = [&](auto values)
                        HWY_ATTR { return hn::DemoteTo(dh, hn::Round(hn::Add(hn::Mul(values, inverse), zero))); };
  return hn::Combine(di, half(hn::PromoteUpperTo(dd, x)), half(hn::PromoteLowerTo(dd, x)));
}

/// Gives back the sum of the integers less the zero point.
int32_t QuantizeRow(const RowRule& rule, const float* values, size_t n, int8_t* to) {
  const Tag d;
  const IntegerTag di;
  const hn::Rebind<int8_t, Tag> db;
  const size_t lanes = hn::Lanes(d);
  const auto least = hn::Set(di, rule.least), most = hn::Set(di, rule.most), moved = hn::Set(di, rule.moved);
  auto sum = hn::Zero(di);
  const auto bytes = [&](auto x) HWY_ATTR {
    const auto integers = hn::Min(hn::Max(to_integers(rule, x), least), most);
    sum = hn::Add(sum, integers);
    return hn::DemoteTo(db, hn::Sub(integers, moved));
  };
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(bytes(hn::LoadU(d, values + i)), db, to + i);
  }
  size_t taken = i;
  if (i < n) {
    hn::StoreN(bytes(hn::LoadN(d, values + i, n - i)), db, to + i, n - i);
    taken += lanes;  // behind the last number are zeros, which are the zero point
  }
  return hn::ReduceSum(di, sum) - static_cast<int32_t>(taken) * rule.zero_point;
}

/// Of a tensor's numbers. Bytes have the range's least integer at their end, where saturation holds them.
void QuantizeAlike(const RowRule& rule, const float* values, size_t n, int8_t* to) {
  const Tag d;
  const IntegerTag di;
  const hn::Repartition<int16_t, Tag> dw;
  const hn::Repartition<int8_t, Tag> db;
  const size_t lanes = hn::Lanes(d), bytes = hn::Lanes(db);
  const auto inverse = hn::Set(d, rule.inverse);
  const auto shift = hn::Set(di, rule.zero_point - rule.moved);
  const auto most = hn::Set(db, static_cast<int8_t>(rule.most - rule.moved));
  const auto integers = [&](const float* x)
                            HWY_ATTR { return hn::Add(hn::NearestInt(hn::Mul(hn::LoadU(d, x), inverse)), shift); };
  const auto put = [&](const float* x, int8_t* at) HWY_ATTR {
    const auto low = hn::OrderedDemote2To(dw, integers(x), integers(x + lanes));
    const auto high = hn::OrderedDemote2To(dw, integers(x + 2 * lanes), integers(x + 3 * lanes));
    hn::StoreU(hn::Min(hn::OrderedDemote2To(db, low, high), most), db, at);
  };
  if (n < bytes) {
    QuantizeRow(rule, values, n, to);
    return;
  }
  for (size_t i = 0; i < n; i += bytes) {
    i = HWY_MIN(i, n - bytes);  // the last vector overlaps the one before
    put(values + i, to + i);
  }
}

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::quantized {

HWY_EXPORT(FindRange);
HWY_EXPORT(QuantizeAlike);
HWY_EXPORT(QuantizeRow);

Error QuantizedRows::allocate(KernelContext& context) {
  ET_TRY(void* const bytes, context.allocate_temp(rows * groups * padded));
  ET_TRY(void* const numbers, context.allocate_temp(rows * (groups + 2) * sizeof(int32_t)));
  integers = static_cast<int8_t*>(bytes);
  sums = static_cast<int32_t*>(numbers);
  zeros = sums + rows * groups;
  scales = reinterpret_cast<float*>(zeros + rows);
  return Error::Ok;
}

Result<NumberRange> range_of(KernelContext& context, const float* x, size_t n) {
  const size_t chunks = threads::chunks_for(context.pool(), n, threads::kGrainElements);
  ET_TRY(void* const memory, context.allocate_temp(chunks * sizeof(NumberRange), alignof(NumberRange)));
  auto* const ranges = static_cast<NumberRange*>(memory);
  threads::parallel_chunks(context.pool(), n, chunks, [&](size_t chunk, size_t begin, size_t end) {
    HWY_DYNAMIC_DISPATCH(FindRange)(x + begin, end - begin, &ranges[chunk]);
  });
  NumberRange whole;
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    whole.add(ranges[chunk]);
  }
  return whole;
}

Error quantize_rows(KernelContext& context, const char* op, const RunTimeQuantization& choice, const float* x,
                    const QuantizedRows& to) {
  const size_t columns = to.groups * to.group, grain = threads::grain_for(columns);
  ET_TRY(void* const memory, context.allocate_temp(to.rows * sizeof(NumberRange), alignof(NumberRange)));
  auto* const ranges = static_cast<NumberRange*>(memory);
  threads::parallel_for(context, to.rows, grain, [&](size_t begin, size_t end) {
    for (size_t m = begin; m < end; ++m) {
      HWY_DYNAMIC_DISPATCH(FindRange)(x + m * columns, columns, &ranges[m]);
    }
  });
  ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", op);
  NumberRange whole;
  for (size_t m = 0; m < to.rows; ++m) {
    whole.add(ranges[m]);
  }
  ET_CHECK_OR_RETURN(whole.is_finite(), InvalidArgument, "%s: the input is not finite, so it has no integers", op);
  const auto least = static_cast<int32_t>(choice.quant_min), most = static_cast<int32_t>(choice.quant_max);
  threads::parallel_for(context, to.rows, grain, [&](size_t begin, size_t end) {
    for (size_t m = begin; m < end; ++m) {
      const RowParameters chosen = choice.of(choice.per_token ? ranges[m] : whole);
      const RowRule rule{choice.per_token, chosen.scale, chosen.inverse, chosen.zero_point, least, most, least + 128};
      to.zeros[m] = chosen.zero_point - rule.moved;
      to.scales[m] = static_cast<float>(chosen.scale);
      for (size_t g = 0; g < to.groups; ++g) {
        int8_t* const bytes = to.integers + (m * to.groups + g) * to.padded;
        const float* const values = x + m * columns + g * to.group;
        if (to.sums == nullptr && !choice.per_token) {
          HWY_DYNAMIC_DISPATCH(QuantizeAlike)(rule, values, to.group, bytes);
        } else {
          const int32_t sum = HWY_DYNAMIC_DISPATCH(QuantizeRow)(rule, values, to.group, bytes);
          if (to.sums != nullptr) {
            to.sums[m * to.groups + g] = sum;
          }
        }
        std::fill(bytes + to.group, bytes + to.padded, int8_t{0});
      }
    }
  });
  return Error::Ok;
}

}  // namespace et::kernels::optimized::quantized
#endif  // HWY_ONCE
