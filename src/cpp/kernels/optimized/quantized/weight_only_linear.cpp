// et::weight_only_linear.out: linear layers of floats whose weight has integers of 8 or packed 4 bits with scales (and
// zero points) for rows or groups of columns.
//
// Four rows of the weight at a time become floats, a piece that fits the first cache, and all rows of the input pass
// over them. The weight is read once, as it lies in the file, and is never there as a whole in floats.
//
// One row of input multiplies the integers themselves, less their zero point, and each group's scale its sum.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/rounding.h"
#include "kernels/optimized/quantized/integer_weight.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/quantized/op_weight_only.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_WEIGHT_ONLY_LINEAR_ONCE
#define ET_KERNELS_OPTIMIZED_WEIGHT_ONLY_LINEAR_ONCE
namespace et::kernels::optimized::quantized {

/// Rows of the weight that are floats at a time, and columns of them: 8 KiB.
inline constexpr size_t kOutputs = 4;
inline constexpr size_t kPiece = 512;

/// out[m, n] = x[m] · weight[n] + bias[n]; scales are never one for all.
struct WeightOnlyProduct : IntegerWeight {
  const int8_t* zeros;  // [n, groups], or nullptr

  // Of a call.
  const float* x;     // [m, k]
  const float* bias;  // [n], or nullptr
  float* out;         // [m, n]
  size_t m;
  float* split;  // [k], filled up to whole steps: memory for SplitRow where that is how the row is taken, else nullptr

  /// As the integers are stored.
  float zero(size_t i) const {
    return (zeros == nullptr ? 0.0f : static_cast<float>(zeros[i])) + (is_packed ? 8.0f : 0.0f);
  }
};

}  // namespace et::kernels::optimized::quantized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using V = hn::Vec<Tag>;

/// Rows of the input that pass at a time: their sums, with the operands, fill the registers.
constexpr size_t kInputs = hn::MaxLanes(Tag()) >= 16 ? 6 : 2;

/// (value - zero) * scale for `count` integers of one group.
HWY_INLINE void scale_bytes(const int8_t* from, size_t count, float zero, float scale, float* to) {
  const Tag d;
  const hn::Rebind<int8_t, Tag> bytes;
  const hn::RebindToSigned<Tag> integers;
  const size_t lanes = hn::Lanes(d);
  const V z = hn::Set(d, zero), s = hn::Set(d, scale);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V value = hn::ConvertTo(d, hn::PromoteTo(integers, hn::LoadU(bytes, from + i)));
    hn::StoreU(hn::Mul(hn::Sub(value, z), s), d, to + i);
  }
  for (; i < count; ++i) {
    to[i] = (static_cast<float>(from[i]) - zero) * scale;
  }
}

/// The same for packed integers: byte j holds columns 2j (low half) and 2j + 1, each + 8, as `zero` is.
HWY_INLINE void scale_nibbles(const uint8_t* from, size_t count, float zero, float scale, float* to) {
  const Tag d;
  const hn::Rebind<uint8_t, Tag> bytes;
  const hn::RebindToSigned<Tag> integers;
  const size_t lanes = hn::Lanes(d);
  const V z = hn::Set(d, zero), s = hn::Set(d, scale);
  const auto low = hn::Set(integers, 15);
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto pair = hn::PromoteTo(integers, hn::LoadU(bytes, from + i / 2));
    const V even = hn::ConvertTo(d, hn::And(pair, low));
    const V odd = hn::ConvertTo(d, hn::ShiftRight<4>(pair));
    hn::StoreInterleaved2(hn::Mul(hn::Sub(even, z), s), hn::Mul(hn::Sub(odd, z), s), d, to + i);
  }
  for (; i < count; ++i) {
    const unsigned half = i % 2 == 0 ? from[i / 2] & 15u : from[i / 2] >> 4;
    to[i] = (static_cast<float>(half) - zero) * scale;
  }
}

/// Columns [first, first + count) of row `n` as floats; `first` begins a group or lies in the middle of a long one.
HWY_INLINE void scale_row(const WeightOnlyProduct& p, size_t n, size_t first, size_t count, float* to) {
  for (size_t i = 0; i < count;) {
    const size_t g = (first + i) / p.group;
    const size_t run = HWY_MIN(count - i, (g + 1) * p.group - (first + i));
    const size_t place = n * p.groups + g;
    const float scale = p.scale(place);
    const float zero = p.zero(place);
    const size_t at = first + i;
    if (p.is_packed) {
      scale_nibbles(static_cast<const uint8_t*>(p.integers) + n * packed_count(p.k) + at / 2, run, zero, scale, to + i);
    } else {
      scale_bytes(static_cast<const int8_t*>(p.integers) + n * p.k + at, run, zero, scale, to + i);
    }
    i += run;
  }
}

/// sums[r, o] = x[r] · weights[o] over `count` columns.
template <size_t kRows>
HWY_INLINE void multiply_piece(const float* x, size_t stride, const float* weights, size_t count, float* sums) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  V total[kRows * kOutputs];
#pragma GCC unroll 32
  for (size_t i = 0; i < kRows * kOutputs; ++i) {
    total[i] = hn::Zero(d);
  }
  for (size_t i = 0; i < count; i += lanes) {
    V w[kOutputs];
#pragma GCC unroll 4
    for (size_t o = 0; o < kOutputs; ++o) {
      w[o] = hn::LoadU(d, weights + o * kPiece + i);  // zeros behind the last column
    }
    const size_t left = count - i;
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      const float* const from = x + r * stride + i;
      const V value = left >= lanes ? hn::LoadU(d, from) : hn::LoadN(d, from, left);
#pragma GCC unroll 4
      for (size_t o = 0; o < kOutputs; ++o) {
        total[r * kOutputs + o] = hn::MulAdd(value, w[o], total[r * kOutputs + o]);
      }
    }
  }
#pragma GCC unroll 32
  for (size_t i = 0; i < kRows * kOutputs; ++i) {
    sums[i] = hn::ReduceSum(d, total[i]);
  }
}

template <size_t kRows>
HWY_INLINE void add_piece(const WeightOnlyProduct& p, size_t row, size_t n, size_t outputs, size_t first, size_t count,
                          const float* weights) {
  float sums[kRows * kOutputs];
  multiply_piece<kRows>(p.x + row * p.k + first, p.k, weights, count, sums);
  for (size_t r = 0; r < kRows; ++r) {
    float* const to = p.out + (row + r) * p.n + n;
    for (size_t o = 0; o < outputs; ++o) {
      const float before = first > 0 ? to[o] : p.bias != nullptr ? p.bias[n + o] : 0.0f;
      to[o] = before + sums[r * kOutputs + o];
    }
  }
}

/// Outputs of blocks [begin, end) of kOutputs rows of the weight.
void IntegerRows(const WeightOnlyProduct& p, size_t begin, size_t end) {
  const size_t lanes = hn::Lanes(Tag());
  HWY_ALIGN float weights[kOutputs * kPiece];
  for (size_t block = begin; block < end; ++block) {
    const size_t n = block * kOutputs;
    const size_t outputs = HWY_MIN(kOutputs, p.n - n);
    for (size_t first = 0; first < p.k; first += kPiece) {
      const size_t count = HWY_MIN(kPiece, p.k - first);
      const size_t padded = HWY_MIN(round_up(count, lanes), kPiece);
      for (size_t o = 0; o < kOutputs; ++o) {
        float* const to = weights + o * kPiece;
        size_t filled = 0;
        if (o < outputs) {
          scale_row(p, n + o, first, count, to);
          filled = count;
        }
        for (; filled < padded; ++filled) {
          to[filled] = 0.0f;
        }
      }
      size_t row = 0;
      for (; row + kInputs <= p.m; row += kInputs) {
        add_piece<kInputs>(p, row, n, outputs, first, count, weights);
      }
      for (; row < p.m; ++row) {
        add_piece<1>(p, row, n, outputs, first, count, weights);
      }
    }
  }
}

// --------------------------------------------------------------------------------------------------------- one row of
// input

/// Columns that a step of the loops below takes; groups are made of whole steps, or are the row.
size_t RowStep(bool is_packed) { return hn::Lanes(Tag()) * (is_packed ? 2 : 1); }

/// The input in the order in which nibbles come apart: of each step first the even columns, then the odd ones; zeros
/// behind.
void SplitRow(const float* x, size_t count, float* to) {
  const size_t step = RowStep(true);
  for (size_t i = 0; i < round_up(count, step); ++i) {
    to[i / step * step + i % 2 * (step / 2) + i % step / 2] = i < count ? x[i] : 0.0f;
  }
}

/// Integers of 8 bits; a step is a vector of them.
struct Bytes {
  static size_t step() { return hn::Lanes(Tag()); }
  static HWY_INLINE const int8_t* row(const WeightOnlyProduct& p, size_t n) {
    return static_cast<const int8_t*>(p.integers) + n * p.k;
  }
  static HWY_INLINE size_t place(size_t column) { return column; }
  static HWY_INLINE V zero(float value) { return hn::Set(Tag(), value); }
  /// sum + x · (weight - zero) of a step, of which `left` columns are there.
  static HWY_INLINE V add(V sum, const float* x, const int8_t* weight, size_t left, V zero) {
    const Tag d;
    const hn::Rebind<int8_t, Tag> bytes;
    const hn::RebindToSigned<Tag> integers;
    const bool is_whole = left >= hn::Lanes(d);
    const auto narrow = is_whole ? hn::LoadU(bytes, weight) : hn::LoadN(bytes, weight, left);
    const V value = is_whole ? hn::LoadU(d, x) : hn::LoadN(d, x, left);
    return hn::MulAdd(value, hn::Sub(hn::ConvertTo(d, hn::PromoteTo(integers, narrow)), zero), sum);
  }
};

/// Integers of 4 bits, two a byte; a step is two vectors of them. `x` comes from SplitRow.
struct Nibbles {
  static size_t step() { return 2 * hn::Lanes(Tag()); }
  static HWY_INLINE const uint8_t* row(const WeightOnlyProduct& p, size_t n) {
    return static_cast<const uint8_t*>(p.integers) + n * packed_count(p.k);
  }
  static HWY_INLINE size_t place(size_t column) { return column / 2; }
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  /// All 16 integers less the zero point: a look-up makes a float of each.
  static HWY_INLINE V zero(float value) { return hn::Sub(hn::Iota(Tag(), 0), hn::Set(Tag(), value)); }
  template <class Half>
  static HWY_INLINE V number(Half half, V zero) {
    return hn::TableLookupLanes(zero, hn::IndicesFromVec(Tag(), half));
  }
#else
  static HWY_INLINE V zero(float value) { return hn::Set(Tag(), value); }
  template <class Half>
  static HWY_INLINE V number(Half half, V zero) {
    return hn::Sub(hn::ConvertTo(Tag(), half), zero);
  }
#endif
  static HWY_INLINE V add(V sum, const float* x, const uint8_t* weight, size_t left, V zero) {
    const Tag d;
    const hn::Rebind<uint8_t, Tag> bytes;
    const hn::RebindToSigned<Tag> integers;
    const size_t lanes = hn::Lanes(d);
    const auto pair = hn::PromoteTo(
        integers, left >= 2 * lanes ? hn::LoadU(bytes, weight) : hn::LoadN(bytes, weight, packed_count(left)));
    const V even = number(hn::And(pair, hn::Set(integers, 15)), zero);
    const V odd = number(hn::ShiftRight<4>(pair), zero);
    return hn::MulAdd(hn::LoadU(d, x + lanes), odd, hn::MulAdd(hn::LoadU(d, x), even, sum));
  }
};

/// Groups whose scales and zero points are floats at a time.
constexpr size_t kGroups = 64;

/// Scales and zero points of groups [first, first + count) of row `n`, as floats.
HWY_INLINE void read_groups(const WeightOnlyProduct& p, size_t n, size_t first, size_t count, float* scales,
                            float* zeros) {
  const Tag d;
  const hn::RebindToSigned<Tag> integers;
  const hn::Rebind<int8_t, Tag> bytes;
  const hn::Rebind<uint16_t, Tag> halves;
  const size_t lanes = hn::Lanes(d);
  const size_t at = n * p.groups + first;
  const V offset = hn::Set(d, p.is_packed ? 8.0f : 0.0f);
  for (size_t i = 0; i < count; i += lanes) {
    const size_t left = HWY_MIN(lanes, count - i);
    if (p.has_half_scales) {
      const auto bits = hn::PromoteTo(hn::RebindToUnsigned<Tag>(),
                                      hn::LoadN(halves, static_cast<const uint16_t*>(p.scales) + at + i, left));
      hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(bits)), d, scales + i);
    } else {
      hn::StoreU(hn::LoadN(d, static_cast<const float*>(p.scales) + at + i, left), d, scales + i);
    }
    const V zero = p.zeros == nullptr
                       ? hn::Zero(d)
                       : hn::ConvertTo(d, hn::PromoteTo(integers, hn::LoadN(bytes, p.zeros + at + i, left)));
    hn::StoreU(hn::Add(zero, offset), d, zeros + i);
  }
}

template <typename Integers>
HWY_INLINE void multiply_row(const WeightOnlyProduct& p, size_t begin, size_t end) {
  const Tag d;
  const size_t step = Integers::step();
  HWY_ALIGN float scales[kOutputs * kGroups];
  HWY_ALIGN float zeros[kOutputs * kGroups];
  for (size_t block = begin; block < end; ++block) {
    const size_t n = block * kOutputs;
    const size_t outputs = HWY_MIN(kOutputs, p.n - n);
    decltype(Integers::row(p, n)) rows[kOutputs];
    V total[kOutputs];
    size_t places[kOutputs];
    for (size_t o = 0; o < kOutputs; ++o) {
      places[o] = HWY_MIN(o, outputs - 1);  // of too few the last one again
      rows[o] = Integers::row(p, n + places[o]);
      total[o] = hn::Zero(d);
    }
    for (size_t first = 0; first < p.groups; first += kGroups) {
      const size_t groups = HWY_MIN(kGroups, p.groups - first);
      const size_t stride = HWY_MIN(kGroups, p.groups);
      if (groups == p.groups) {  // those of the rows follow each other
        read_groups(p, n, 0, outputs * groups, scales, zeros);
      }
      for (size_t o = 0; o < outputs && groups < p.groups; ++o) {
        read_groups(p, n + o, first, groups, scales + o * stride, zeros + o * stride);
      }
      for (size_t g = 0; g < groups; ++g) {
        V part[kOutputs], zero[kOutputs];
#pragma GCC unroll 4
        for (size_t o = 0; o < kOutputs; ++o) {
          part[o] = hn::Zero(d);
          zero[o] = Integers::zero(zeros[places[o] * stride + g]);
        }
        const size_t last = (first + g + 1) * p.group;
        for (size_t i = last - p.group; i < last; i += step) {
#pragma GCC unroll 4
          for (size_t o = 0; o < kOutputs; ++o) {
            part[o] = Integers::add(part[o], p.x + i, rows[o] + Integers::place(i), last - i, zero[o]);
          }
        }
#pragma GCC unroll 4
        for (size_t o = 0; o < kOutputs; ++o) {
          total[o] = hn::MulAdd(part[o], hn::Set(d, scales[places[o] * stride + g]), total[o]);
        }
      }
    }
    for (size_t o = 0; o < outputs; ++o) {
      p.out[n + o] = hn::ReduceSum(d, total[o]) + (p.bias != nullptr ? p.bias[n + o] : 0.0f);
    }
  }
}

/// As IntegerRows, for one row of input whose groups are made of whole steps; that of packed weights comes from
/// SplitRow.
void IntegerRow(const WeightOnlyProduct& p, size_t begin, size_t end) {
  p.is_packed ? multiply_row<Nibbles>(p, begin, end) : multiply_row<Bytes>(p, begin, end);
}

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::quantized {

HWY_EXPORT(IntegerRow);
HWY_EXPORT(IntegerRows);
HWY_EXPORT(RowStep);
HWY_EXPORT(SplitRow);

namespace {

enum { kInput, kWeight, kScales, kZeroPoints, kBias, kGroupSize, kOut };

Error prepare(runtime::PrepareContext& context, Arguments args, void** state) {
  if (!(args[kZeroPoints]->is_none() || context.is_constant(*args[kZeroPoints]))) {
    return Error::NotSupported;
  }
  ET_TRY(IntegerWeight weight,
         read_integer_weight(context, {args[kInput], args[kWeight], args[kScales], args[kBias], args[kOut]},
                             args[kGroupSize]->number_as_int()));
  if (weight.is_packed && weight.group % 2 != 0 && weight.group != weight.k) {
    return Error::NotSupported;
  }
  const size_t count = weight.n * weight.groups;
  const int8_t* zeros = nullptr;
  if (!args[kZeroPoints]->is_none()) {
    const Tensor points = args[kZeroPoints]->to_tensor();
    if (points.numel() != static_cast<int64_t>(count) || points.scalar_type() != ScalarType::Char ||
        !is_row_major(*args[kZeroPoints])) {
      return Error::NotSupported;
    }
    zeros = points.const_data_ptr<int8_t>();
  }
  if (weight.has_one_scale && count > 1) {
    if (weight.has_half_scales) {
      return Error::NotSupported;
    }
    ET_TRY(void* const repeated, context.allocate(count * sizeof(float), alignof(float)));
    std::fill_n(static_cast<float*>(repeated), count, weight.scale(0));
    weight.scales = repeated;
  }
  weight.has_one_scale = false;
  ET_TRY(void* const memory, context.allocate(sizeof(WeightOnlyProduct), alignof(WeightOnlyProduct)));
  auto* const made = new (memory) WeightOnlyProduct{};
  static_cast<IntegerWeight&>(*made) = weight;
  made->zeros = zeros;
  *state = made;
  return Error::Ok;
}

/// One row whose groups are made of whole steps.
bool is_one_row(const WeightOnlyProduct& p) {
  return p.m == 1 && (p.groups == 1 || p.group % HWY_DYNAMIC_DISPATCH(RowStep)(p.is_packed) == 0);
}

Result<void*> start(KernelContext& context, const char* op, Arguments args, const void* state, ProductSize size) {
  WeightOnlyProduct product = *static_cast<const WeightOnlyProduct*>(state);
  const EValue& bias = *args[kBias];
  ET_RETURN_IF_ERROR(check_product(op, product, size, bias));
  product.m = size.rows;
  product.bias = bias.is_none() ? nullptr : bias.to_tensor().const_data_ptr<float>();
  if (is_one_row(product) && product.is_packed) {
    const size_t step = HWY_DYNAMIC_DISPATCH(RowStep)(true);
    ET_TRY(void* const split, context.allocate_temp((product.k / step + 1) * step * sizeof(float)));
    product.split = static_cast<float*>(split);
  }
  ET_TRY(void* const memory, context.allocate_temp(sizeof(WeightOnlyProduct), alignof(WeightOnlyProduct)));
  return new (memory) WeightOnlyProduct(product);
}

Error multiply(KernelContext& context, void* started, const float* x, float* out) {
  auto& product = *static_cast<WeightOnlyProduct*>(started);
  product.x = x;
  product.out = out;
  if (product.split != nullptr) {
    HWY_DYNAMIC_DISPATCH(SplitRow)(x, product.k, product.split);
    product.x = product.split;
  }
  const auto rows = is_one_row(product) ? HWY_DYNAMIC_POINTER(IntegerRow) : HWY_DYNAMIC_POINTER(IntegerRows);
  // Making floats of a number takes about as long as multiplying it twice.
  threads::parallel_for(context, divide_up(product.n, kOutputs),
                        threads::grain_for(product.k * (product.m + 2) * kOutputs / 4),
                        [&](size_t begin, size_t end) { rows(product, begin, end); });
  return Error::Ok;
}

Error run(KernelContext& context, Arguments args, void* state) {
  return run_product(context, "et::weight_only_linear", kWeightOnlyProduct, args,
                     *static_cast<const WeightOnlyProduct*>(state), state);
}

constexpr Kernel kKernels[] = {
    make_stateful_kernel<&prepare, &run>(signature::weight_only_linear_out),
};

}  // namespace

const FloatProduct kWeightOnlyProduct = {kOut + 1, &prepare, &start, &multiply};

ET_KERNEL_TABLE(weight_only_linear, kKernels)

}  // namespace et::kernels::optimized::quantized
#endif  // HWY_ONCE
