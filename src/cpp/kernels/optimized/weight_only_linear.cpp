// et::weight_only_linear.out: linear layers of floats whose weight has integers of 8 or packed 4 bits with scales (and zero
// points) for rows or groups of columns.
//
// Four rows of the weight at a time become floats, a piece that fits the first cache, and all rows of the input pass over
// them: the weight is read once, as it lies in the file, and is never there as a whole in floats. With one row of input it
// is the reading that takes the time, and integers are less to read.

#include "kernels/optimized/targets.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/weight_only_linear.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/nibbles.h"
#include "kernels/optimized/fitting.h"
#include "kernels/optimized/tables.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_WEIGHT_ONLY_LINEAR_ONCE
#define ET_KERNELS_OPTIMIZED_WEIGHT_ONLY_LINEAR_ONCE
namespace et::kernels::optimized {

/// Rows of the weight that are floats at a time, and columns of them: 8 KiB.
inline constexpr size_t kOutputs = 4;
inline constexpr size_t kPiece = 512;

/// out[m, n] = x[m] · weight[n] + bias[n]
struct IntegerProduct {
  const float* x;       // [m, k]
  const void* weight;   // [n, k] of i8, or [n, ceil(k / 2)] of two columns a byte
  const void* scales;   // [n, groups] of f32 or bf16
  const int8_t* zeros;  // [n, groups], or nullptr
  const float* bias;    // [n], or nullptr
  float* out;           // [m, n]
  size_t m, n, k;
  size_t group, groups;  // columns of a group, groups of a row
  bool is_packed, has_half_scales;

  float scale(size_t i) const {
    if (!has_half_scales) {
      return static_cast<const float*>(scales)[i];
    }
    const uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(scales)[i]) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
};

}  // namespace et::kernels::optimized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {
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

/// The same for packed integers: byte j holds columns 2j (low half) and 2j + 1, each + 8.
HWY_INLINE void scale_nibbles(const uint8_t* from, size_t count, float zero, float scale, float* to) {
  const Tag d;
  const hn::Rebind<uint8_t, Tag> bytes;
  const hn::RebindToSigned<Tag> integers;
  const size_t lanes = hn::Lanes(d);
  const V z = hn::Set(d, zero + 8), s = hn::Set(d, scale);
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
    to[i] = (static_cast<float>(half) - (zero + 8)) * scale;
  }
}

/// Columns [first, first + count) of row `n` as floats; `first` begins a group or lies in the middle of a long one.
HWY_INLINE void scale_row(const IntegerProduct& p, size_t n, size_t first, size_t count, float* to) {
  for (size_t i = 0; i < count;) {
    const size_t g = (first + i) / p.group;
    const size_t run = HWY_MIN(count - i, (g + 1) * p.group - (first + i));
    const size_t place = n * p.groups + g;
    const float scale = p.scale(place);
    const float zero = p.zeros == nullptr ? 0.0f : static_cast<float>(p.zeros[place]);
    const size_t at = first + i;
    if (p.is_packed) {
      scale_nibbles(static_cast<const uint8_t*>(p.weight) + n * packed_count(p.k) + at / 2, run, zero, scale, to + i);
    } else {
      scale_bytes(static_cast<const int8_t*>(p.weight) + n * p.k + at, run, zero, scale, to + i);
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
HWY_INLINE void add_piece(const IntegerProduct& p, size_t row, size_t n, size_t outputs, size_t first, size_t count,
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
void IntegerRows(const IntegerProduct& p, size_t begin, size_t end) {
  const size_t lanes = hn::Lanes(Tag());
  HWY_ALIGN float weights[kOutputs * kPiece];
  for (size_t block = begin; block < end; ++block) {
    const size_t n = block * kOutputs;
    const size_t outputs = HWY_MIN(kOutputs, p.n - n);
    for (size_t first = 0; first < p.k; first += kPiece) {
      const size_t count = HWY_MIN(kPiece, p.k - first);
      const size_t padded = HWY_MIN((count + lanes - 1) / lanes * lanes, kPiece);
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

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(IntegerRows);

namespace {

enum { kInput, kWeight, kScales, kZeroPoints, kBias, kGroupSize, kOut };

Error prepare(runtime::PrepareContext& context, Arguments args, void** state) {
  const EValue& weight_value = *args[kWeight];
  const EValue& scales_value = *args[kScales];
  const EValue& bias = *args[kBias];
  if (!is_float(*args[kInput]) || !is_float(*args[kOut]) || !is_row_major(*args[kInput]) ||
      !is_row_major(*args[kOut]) || !context.is_constant(weight_value) || !is_row_major(weight_value) ||
      !scales_value.is_tensor() || !context.is_constant(scales_value) || !is_float_or_none(bias) ||
      !(args[kZeroPoints]->is_none() || context.is_constant(*args[kZeroPoints]))) {
    return Error::NotSupported;
  }
  const Tensor input = args[kInput]->to_tensor();
  const Tensor weight = weight_value.to_tensor();
  const Tensor scales = scales_value.to_tensor();
  const bool is_packed = weight.scalar_type() == ScalarType::Byte;
  const int64_t given = args[kGroupSize]->number_as_int();
  if (weight.dim() != 2 || weight.numel() == 0 || !(is_packed || weight.scalar_type() == ScalarType::Char) ||
      input.dim() < 1 || given < 0) {
    return Error::NotSupported;
  }
  const int64_t n = weight.size(0);
  const int64_t k = input.size(-1);
  const int64_t group = given == 0 ? k : given;
  const bool has_half_scales = scales.scalar_type() == ScalarType::BFloat16;
  if (weight.size(1) != (is_packed ? packed_count(k) : k) || k % group != 0 ||
      (is_packed && group % 2 != 0 && group != k) || !(has_half_scales || scales.scalar_type() == ScalarType::Float) ||
      !is_row_major(scales_value) ||
      (!bias.is_none() && (bias.to_tensor().dim() != 1 || bias.to_tensor().numel() != n))) {
    return Error::NotSupported;
  }
  const int64_t count = n * (k / group);
  const bool is_single = given == 0 && scales.numel() == 1;
  if (!is_single && scales.numel() != count) {
    return Error::NotSupported;
  }
  const int8_t* zeros = nullptr;
  if (!args[kZeroPoints]->is_none()) {
    const Tensor points = args[kZeroPoints]->to_tensor();
    if (points.numel() != count || points.scalar_type() != ScalarType::Char || !is_row_major(*args[kZeroPoints])) {
      return Error::NotSupported;
    }
    zeros = points.const_data_ptr<int8_t>();
  }
  const void* scale_data = scales.const_data_ptr();
  if (is_single && count > 1) {
    if (has_half_scales) {
      return Error::NotSupported;
    }
    ET_TRY(void* const repeated, context.allocate(static_cast<size_t>(count) * sizeof(float), alignof(float)));
    std::fill_n(static_cast<float*>(repeated), count, *static_cast<const float*>(scale_data));
    scale_data = repeated;
  }
  ET_TRY(void* const memory, context.allocate(sizeof(IntegerProduct), alignof(IntegerProduct)));
  auto* const made = new (memory) IntegerProduct{};
  made->weight = weight.const_data_ptr();
  made->scales = scale_data;
  made->zeros = zeros;
  made->n = static_cast<size_t>(n);
  made->k = static_cast<size_t>(k);
  made->group = static_cast<size_t>(group);
  made->groups = static_cast<size_t>(k / group);
  made->is_packed = is_packed;
  made->has_half_scales = has_half_scales;
  *state = made;
  return Error::Ok;
}

Error run(KernelContext& context, Arguments args, void* state) {
  IntegerProduct product = *static_cast<const IntegerProduct*>(state);
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[kOut]->to_tensor();
  ET_CHECK_OR_RETURN(input.size(-1) == static_cast<int64_t>(product.k), InvalidArgument,
                     "et::weight_only_linear: rows of %" PRId64 " elements meet a weight for %zu", input.size(-1),
                     product.k);
  portable::Sizes sizes(input.sizes());
  sizes[input.dim() - 1] = static_cast<int64_t>(product.n);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  product.m = static_cast<size_t>(input.numel()) / product.k;
  if (product.m == 0) {
    return Error::Ok;
  }
  product.x = input.const_data_ptr<float>();
  product.bias = args[kBias]->is_none() ? nullptr : args[kBias]->to_tensor().const_data_ptr<float>();
  product.out = out.mutable_data_ptr<float>();
  const auto rows = HWY_DYNAMIC_POINTER(IntegerRows);
  // Making floats of a number takes about as long as multiplying it twice.
  threads::parallel_for(context.pool(), (product.n + kOutputs - 1) / kOutputs,
                        threads::grain_for(product.k * (product.m + 2) * kOutputs / 4),
                        [&](size_t begin, size_t end) { rows(product, begin, end); });
  return Error::Ok;
}

constexpr Kernel kKernels[] = {
    {"et::weight_only_linear.out", "TTTttio", &run, &prepare, nullptr, runtime::kPriorityOptimized},
};

}  // namespace

Span<const Kernel> weight_only_kernels() { return kKernels; }

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
