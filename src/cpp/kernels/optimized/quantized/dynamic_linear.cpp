// et::dynamic_linear.out: linear layers of floats that become 8-bit integers at the call, row by row. They meet a
// constant weight of 8-bit or packed 4-bit integers with a scale for each row or group of columns.
//
// The weight is packed at load, so that a vector holds a lane for each of so many outputs: four columns of each, or
// eight of 4 bits. One instruction then multiplies four columns of all these outputs by those of a row of the input,
// and no sum runs across lanes.
//
// Bytes are multiplied as the instructions have it, unsigned by signed: w + o (o = 8 or 128) by q + s. There q is the
// input's integer and s moves its range into 8 bits. With z the zero point, moved too, the sum of a group is
//
//     Σ w (q - z) = Σ (w + o) q - z Σ (w + o) - o Σ (q - z),
//
// of which the last two are ready before the loop. All of it wraps in 32 bits, so the result is the plain kernel's,
// which adds the groups in the same order.

#define ET_TARGETS_WITH_BYTE_PRODUCTS
#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

#include "base/rounding.h"
#include "kernels/optimized/quantized/integer_product.h"
#include "kernels/optimized/quantized/integer_weight.h"
#include "kernels/optimized/quantized/quad_sums-inl.h"
#include "kernels/optimized/quantized/quantize_rows.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/quantized/op_weight_only.h"
#include "runtime/host/kernel_costs.h"
#include "runtime/host/packed_memory.h"
#include "runtime/shared_cache.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_DYNAMIC_LINEAR_ONCE
#define ET_KERNELS_OPTIMIZED_DYNAMIC_LINEAR_ONCE
namespace et::kernels::optimized::quantized {

/// The weight, and how it is packed.
struct DynamicWeight : IntegerWeight {
  /// Columns of a group with zeros behind, which whole steps take.
  size_t padded_group() const {
    const size_t step = is_packed ? 8 : 4;
    return round_up(group, step);
  }
  /// What integers are less than as they are packed.
  int32_t offset() const { return is_packed ? 8 : 128; }
  /// Bytes of a packed group of `lanes` outputs: f32 scales [lanes], i32 sums of its integers [lanes], the integers.
  size_t group_bytes(size_t lanes) const {
    return lanes * (sizeof(float) + sizeof(int32_t) + padded_group() / (is_packed ? 2 : 1));
  }
};

/// out[m, n] = (Σ_g float(sum of group g) · scale[n, g]) · input_scales[m] + bias[n]
struct DynamicProduct {
  DynamicWeight weight;
  const unsigned char* packed;  // [outputs in blocks of lanes][groups] of group_bytes(); nullptr: see `integers`
  IntegerProduct integers;

  // Of a call.
  const char* op;
  RunTimeQuantization choice;
  QuantizedRows x;
  const float* bias;  // [n], or nullptr
  float* out;         // [m, n]
};

}  // namespace et::kernels::optimized::quantized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using IntegerTag = hn::RebindToSigned<Tag>;
using ByteTag = hn::Repartition<uint8_t, Tag>;

/// Rows of the input and vectors of outputs whose sums stand in registers at a time. The instruction leaves more of
/// them than what Highway makes of several.
template <class Weights>
constexpr size_t kRows = hn::MaxLanes(Tag()) >= 16 || Weights::kHasAvxVnni ? 4 : 2;
constexpr size_t kBlocks = 2;
/// Vectors of outputs of a single row: enough that no sum waits for the one before.
constexpr size_t kRowBlocks = 4;

/// One instruction multiplies four bytes and adds them. Processors without it, and those with tiles, have other loops
/// (integer_product.h).
bool MultipliesBytes() { return !HWY_ARCH_X86 || HWY_TARGET <= HWY_AVX3_DL; }

size_t DynamicLanes() { return hn::Lanes(Tag()); }

/// Weights of four columns, or of eight, low halves first, and how they are multiplied (quad_sums-inl.h).
template <bool kIsPacked, bool kAvxVnni>
struct Columns {
  static constexpr bool kPacked = kIsPacked, kHasAvxVnni = kAvxVnni;
  static constexpr size_t kCount = 4;
  hn::Vec<ByteTag> first;
  HWY_INLINE void load(const unsigned char* from) { first = hn::LoadU(ByteTag(), from); }
};
template <bool kAvxVnni>
struct Columns<true, kAvxVnni> {
  static constexpr bool kPacked = true, kHasAvxVnni = kAvxVnni;
  static constexpr size_t kCount = 8;
  hn::Vec<ByteTag> first, second;
  HWY_INLINE void load(const unsigned char* from) {
    const auto pair = hn::LoadU(ByteTag(), from);
    first = hn::And(pair, hn::Set(ByteTag(), 15));
    second = hn::ShiftRight<4>(pair);
  }
};

/// Four integers of a row for every lane.
HWY_INLINE hn::Vec<hn::Repartition<int8_t, Tag>> four(const int8_t* from) {
  int32_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return hn::BitCast(hn::Repartition<int8_t, Tag>(), hn::Set(IntegerTag(), bits));
}

/// Rows [row, row + kRowCount) of the input by blocks [block, block + kBlockCount) of outputs.
template <class Weights, size_t kRowCount, size_t kBlockCount>
HWY_INLINE void multiply_tile(const DynamicProduct& p, size_t row, size_t block) {
  constexpr bool kPacked = Weights::kPacked;
  const Tag d;
  const IntegerTag di;
  const size_t lanes = hn::Lanes(d);
  const DynamicWeight& w = p.weight;
  const size_t columns = w.padded_group();
  const size_t group_bytes = w.group_bytes(lanes);
  const unsigned char* from = p.packed + block * w.groups * group_bytes;
  const size_t block_bytes = w.groups * group_bytes;
  hn::Vec<Tag> total[kRowCount * kBlockCount];
#pragma GCC unroll 8
  for (size_t i = 0; i < kRowCount * kBlockCount; ++i) {
    total[i] = hn::Zero(d);
  }
  for (size_t g = 0; g < w.groups; ++g, from += group_bytes) {
    hn::Vec<IntegerTag> sum[kRowCount * kBlockCount];
#pragma GCC unroll 4
    for (size_t r = 0; r < kRowCount; ++r) {
      const auto share = hn::Mul(hn::Set(di, p.x.sums[(row + r) * w.groups + g]), hn::Set(di, w.offset()));
      const auto zero = hn::Set(di, p.x.zeros[row + r]);
#pragma GCC unroll 4
      for (size_t b = 0; b < kBlockCount; ++b) {
        const auto* const sums = reinterpret_cast<const int32_t*>(from + b * block_bytes) + lanes;
        sum[r * kBlockCount + b] = hn::Neg(hn::Add(share, hn::Mul(zero, hn::LoadU(di, sums))));
      }
    }
    const int8_t* const x = p.x.integers + (row * w.groups + g) * columns;
    for (size_t i = 0; i < columns; i += Weights::kCount) {
      Weights weights[kBlockCount];
#pragma GCC unroll 4
      for (size_t b = 0; b < kBlockCount; ++b) {
        weights[b].load(from + b * block_bytes + lanes * (8 + (kPacked ? i / 2 : i)));
      }
#pragma GCC unroll 4
      for (size_t r = 0; r < kRowCount; ++r) {
        const int8_t* const at = x + r * w.groups * columns + i;
        const auto first = four(at);
#pragma GCC unroll 4
        for (size_t b = 0; b < kBlockCount; ++b) {
          auto& s = sum[r * kBlockCount + b];
          s = add_quads<Weights::kHasAvxVnni>(s, weights[b].first, first);
        }
        if constexpr (kPacked) {
          const auto second = four(at + 4);
#pragma GCC unroll 4
          for (size_t b = 0; b < kBlockCount; ++b) {
            auto& s = sum[r * kBlockCount + b];
            s = add_quads<Weights::kHasAvxVnni>(s, weights[b].second, second);
          }
        }
      }
    }
#pragma GCC unroll 4
    for (size_t b = 0; b < kBlockCount; ++b) {
      const auto scale = hn::LoadU(d, reinterpret_cast<const float*>(from + b * block_bytes));
#pragma GCC unroll 4
      for (size_t r = 0; r < kRowCount; ++r) {
        auto& t = total[r * kBlockCount + b];
        t = hn::Add(t, hn::Mul(hn::ConvertTo(d, sum[r * kBlockCount + b]), scale));
      }
    }
  }
  for (size_t b = 0; b < kBlockCount; ++b) {
    const size_t n = (block + b) * lanes;
    const size_t left = HWY_MIN(lanes, w.n - n);
    const auto bias = p.bias == nullptr ? hn::Zero(d) : hn::LoadN(d, p.bias + n, left);
    for (size_t r = 0; r < kRowCount; ++r) {
      const auto scaled = hn::Mul(total[r * kBlockCount + b], hn::Set(d, p.x.scales[row + r]));
      hn::StoreN(hn::Add(scaled, bias), d, p.out + (row + r) * w.n + n, left);
    }
  }
}

template <class Weights, size_t kBlockCount>
HWY_INLINE void multiply_rows(const DynamicProduct& p, size_t block) {
  size_t row = 0;
  for (; row + kRows<Weights> <= p.x.rows; row += kRows<Weights>) {
    multiply_tile<Weights, kRows<Weights>, kBlockCount>(p, row, block);
  }
  for (; row < p.x.rows; ++row) {
    multiply_tile<Weights, 1, kBlockCount>(p, row, block);
  }
}

template <class Weights>
HWY_INLINE void multiply_blocks(const DynamicProduct& p, size_t begin, size_t end) {
  size_t block = begin;
  for (; p.x.rows < kRows<Weights> && block + kRowBlocks <= end; block += kRowBlocks) {
    for (size_t row = 0; row < p.x.rows; ++row) {
      multiply_tile<Weights, 1, kRowBlocks>(p, row, block);
    }
  }
  for (; block + kBlocks <= end; block += kBlocks) {
    multiply_rows<Weights, kBlocks>(p, block);
  }
  for (; block < end; ++block) {
    multiply_rows<Weights, 1>(p, block);
  }
}

/// Outputs of blocks [begin, end) of DynamicLanes().
void DynamicBlocks(const DynamicProduct& p, size_t begin, size_t end) {
  const auto multiply = [&](auto has_avx_vnni) HWY_ATTR {
    constexpr bool kHas = decltype(has_avx_vnni)::value;
    p.weight.is_packed ? multiply_blocks<Columns<true, kHas>>(p, begin, end)
                       : multiply_blocks<Columns<false, kHas>>(p, begin, end);
  };
  if constexpr (kMayHaveAvxVnni) {
    if (runtime::has_avx_vnni()) {
      return multiply(std::true_type());
    }
  }
  multiply(std::false_type());
}

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::quantized {

HWY_EXPORT(DynamicBlocks);
HWY_EXPORT(DynamicLanes);
HWY_EXPORT(MultipliesBytes);

namespace {

using runtime::PrepareContext;

constexpr const char* kOp = "et::dynamic_linear";
constexpr char kMaker = 0;  // its address names our entries in the shared cache

enum { kInput, kWeight, kScales, kBias, kGroupSize, kPerToken, kSymmetric, kQuantMin, kQuantMax, kEps, kOut };

/// One output's group into its lane.
void pack_group(const DynamicWeight& w, const int8_t* integers, float scale, size_t lanes, size_t lane,
                unsigned char* to) {
  uint32_t sum = 0;
  const size_t group = w.group;
  for (size_t i = 0; i < group; ++i) {
    sum += static_cast<uint32_t>(integers[i] + w.offset());
  }
  std::memcpy(to + lane * sizeof(float), &scale, sizeof(scale));
  std::memcpy(to + (lanes + lane) * sizeof(float), &sum, sizeof(sum));
  unsigned char* const bytes = to + lanes * 8 + lane * 4;
  for (size_t i = 0; i < group; ++i) {
    const auto value = static_cast<unsigned>(integers[i] + w.offset());
    if (w.is_packed) {
      bytes[i / 8 * lanes * 4 + i % 4] |= static_cast<unsigned char>(value << i % 8 / 4 * 4);
    } else {
      bytes[i / 4 * lanes * 4 + i % 4] = static_cast<unsigned char>(value);
    }
  }
}

struct Packing {
  const DynamicWeight* weight;
  const PrepareContext* context;
};

Result<void*> pack(void* argument) {
  const auto& packing = *static_cast<const Packing*>(argument);
  const DynamicWeight& w = *packing.weight;
  const size_t lanes = HWY_DYNAMIC_DISPATCH(DynamicLanes)();
  const size_t group_bytes = w.group_bytes(lanes);
  const size_t nbytes = divide_up(w.n, lanes) * w.groups * group_bytes;
  threads::ThreadPool* const pool = packing.context->pool();
  const size_t chunks = threads::chunks_for(pool, w.n, threads::grain_for(w.k));
  const std::unique_ptr<int8_t[]> unpacked(new (std::nothrow) int8_t[w.is_packed ? chunks * w.k : 1]);
  ET_CHECK_OR_RETURN(unpacked != nullptr, MemoryAllocationFailed, "%s: no memory for %zu bytes of a weight's rows", kOp,
                     chunks * w.k);
  ET_TRY(void* const memory, packing.context->shared()->memory().allocate(nbytes));
  auto* const packed = static_cast<unsigned char*>(memory);
  std::memset(packed, 0, nbytes);
  threads::parallel_chunks(pool, w.n, chunks, [&](size_t chunk, size_t begin, size_t end) {
    for (size_t n = begin; n < end; ++n) {
      const int8_t* row = static_cast<const int8_t*>(w.integers) + n * w.k;
      if (w.is_packed) {
        int8_t* const to = unpacked.get() + chunk * w.k;
        unpack_nibbles(static_cast<const uint8_t*>(w.integers) + n * packed_count(w.k), w.k, to);
        row = to;
      }
      for (size_t g = 0; g < w.groups; ++g) {
        pack_group(w, row + g * w.group, w.scale(n * w.groups + g), lanes, n % lanes,
                   packed + (n / lanes * w.groups + g) * group_bytes);
      }
    }
  });
  return memory;
}

/// The weight for the loops of integer_product.h.
Error pack_integers(PrepareContext& context, const DynamicWeight& w, IntegerProduct* product) {
  *product = product_of_rows(w.k, w.n);
  const size_t count = w.has_one_scale ? 1 : w.n;
  ET_TRY(void* const memory, context.allocate(count * sizeof(float), alignof(float)));
  auto* const scales = static_cast<float*>(memory);
  for (size_t n = 0; n < count; ++n) {
    scales[n] = w.scale(n);
  }
  product->weight_scales = scales;
  product->has_one_scale = w.has_one_scale;
  product->input_scale = product->output_scale = 1;
  product->gives_floats = true;
  return pack_integer_product(context, {w.integers, false, false}, product);
}

Error prepare(PrepareContext& context, Arguments args, void** state) {
  if (context.shared() == nullptr) {
    return Error::NotSupported;
  }
  ET_TRY(const IntegerWeight read,
         read_integer_weight(context, {args[kInput], args[kWeight], args[kScales], args[kBias], args[kOut]},
                             args[kGroupSize]->number_as_int()));
  constexpr size_t kMost = size_t{1} << 31;
  if (read.n >= kMost || read.k >= kMost) {
    return Error::NotSupported;
  }
  DynamicWeight w{read};
  const uint64_t kind = (w.is_packed ? 1 : 0) | (w.has_half_scales ? 2 : 0) | (w.has_one_scale ? 4 : 0);
  const runtime::SharedCache::Key key{&kMaker, w.integers, w.scales, uint64_t{w.groups} * 8 + kind,
                                      uint64_t{w.n} << 32 | w.k};
  const auto columns = static_cast<double>(w.n), depth = static_cast<double>(w.k);
  ops::Work work = ops::work_of_product(static_cast<double>(args[kInput]->to_tensor().numel()) / depth, columns, depth);
  work.numbers = ops::WorkNumbers::dynamic;
  ET_RETURN_IF_ERROR(runtime::offer_work(state, work, ops::kKernelCosts));
  ET_TRY(void* const memory, context.allocate(sizeof(DynamicProduct), alignof(DynamicProduct)));
  auto* const made = new (memory) DynamicProduct{};
  made->weight = w;
  *state = made;
  if (w.groups == 1 && !w.is_packed && (unit_of_quads() > 1 || !HWY_DYNAMIC_DISPATCH(MultipliesBytes)())) {
    return pack_integers(context, w, &made->integers);
  }
  Packing packing{&w, &context};
  ET_TRY(void* const packed, context.shared()->get_or_create(key, &pack, &packing, nullptr));
  made->packed = static_cast<const unsigned char*>(packed);
  context.shared()->release(w.integers);
  return Error::Ok;
}

Result<void*> start(KernelContext& context, const char* op, Arguments args, const void* state, ProductSize size) {
  DynamicProduct product = *static_cast<const DynamicProduct*>(state);
  const DynamicWeight& w = product.weight;
  const EValue& bias = *args[kBias];
  ET_RETURN_IF_ERROR(check_product(op, w, size, bias));
  product.op = op;
  product.choice = {args[kPerToken]->number_as_bool(), args[kSymmetric]->number_as_bool(),
                    args[kQuantMin]->number_as_int(), args[kQuantMax]->number_as_int(),
                    static_cast<float>(args[kEps]->number_as_double())};
  ET_CHECK_OR_RETURN(product.choice.is_valid(), InvalidArgument, "%s: eps %g or the range of integers is none", op,
                     static_cast<double>(product.choice.eps));
  product.bias = bias.is_none() ? nullptr : bias.to_tensor().const_data_ptr<float>();
  product.x = {size.rows, w.groups, w.group, product.packed == nullptr ? w.group : w.padded_group()};
  ET_RETURN_IF_ERROR(product.x.allocate(context));
  ET_TRY(void* const memory, context.allocate_temp(sizeof(DynamicProduct), alignof(DynamicProduct)));
  return new (memory) DynamicProduct(product);
}

Error multiply(KernelContext& context, void* started, const float* x, float* out) {
  auto& product = *static_cast<DynamicProduct*>(started);
  const DynamicWeight& w = product.weight;
  product.out = out;
  ET_RETURN_IF_ERROR(quantize_rows(context, product.op, product.choice, x, product.x));
  if (product.packed == nullptr) {
    IntegerProduct& p = product.integers;
    p.floats = {out, product.x.zeros, product.x.scales, product.bias};
    p.in = product.x.integers;
    p.in_w = p.out_w = static_cast<int64_t>(product.x.rows);
    return multiply_windows(context, p, product.x.rows);
  }
  const size_t lanes = HWY_DYNAMIC_DISPATCH(DynamicLanes)();
  const size_t tile = 4;  // blocks, so that no thread is left with one
  const size_t blocks = divide_up(w.n, lanes);
  const auto blocks_of = HWY_DYNAMIC_POINTER(DynamicBlocks);
  constexpr size_t kProducts = 16;  // in the time of one of floats
  threads::parallel_for(
      context, divide_up(blocks, tile), threads::grain_for(w.k * product.x.rows * tile * lanes / kProducts),
      [&](size_t begin, size_t end) { blocks_of(product, begin * tile, std::min(end * tile, blocks)); });
  return Error::Ok;
}

Error run(KernelContext& context, Arguments args, void* state) {
  return run_product(context, kOp, kDynamicProduct, args, static_cast<const DynamicProduct*>(state)->weight, state);
}

constexpr Kernel kKernels[] = {
    make_stateful_kernel<&prepare, &run>(signature::dynamic_linear_out, kPriorityOffering),
};

}  // namespace

const FloatProduct kDynamicProduct = {kOut + 1, &prepare, &start, &multiply};

ET_KERNEL_TABLE(dynamic_linear, kKernels)

}  // namespace et::kernels::optimized::quantized
#endif  // HWY_ONCE
