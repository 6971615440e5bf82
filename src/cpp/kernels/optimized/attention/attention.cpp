// et::scaled_dot_product_attention: softmax(query · keyᵀ · scale + mask) · value in one pass, without the matrix of
// scores.
//
// Work is cut into tasks of one head and some query rows. A task walks over blocks of kKeyBlock keys and transposes
// each block's keys once. Then, for a few query rows at a time, it computes scores in registers and turns them into
// weights with a running maximum and sum. It adds the weighted values to the output. Earlier output is rescaled when
// the maximum grows. Scores and sums are float for floats of up to 32 bits, double for double.
// Source: Milakov and Gimelshein 2018 (online softmax); Dao et al. 2022 (FlashAttention), the forward pass.

#include "kernels/optimized/vec/every_target-inl.h"

#include <cmath>

#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/float_tensors.h"
#include "kernels/optimized/vec/softmax-inl.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/transpose4-inl.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_ATTENTION_ONCE
#define ET_KERNELS_OPTIMIZED_ATTENTION_ONCE
namespace et::kernels::optimized::attention {

/// Keys that are treated together: their scores for a few rows stay in the first cache.
inline constexpr size_t kKeyBlock = 256;
/// Widest strip of keys or value columns: two of the longest vectors. Scratch is padded to it.
inline constexpr size_t kMaxStrip = 32;

/// One head's rows [0, rows) of the query (the first one is row `first_row` of the head).
template <typename T>
struct AttentionTask {
  const T* query;                 // [rows, depth]
  const T* key;                   // [keys, depth]
  const T* value;                 // [keys, value_depth]
  T* out;                         // [rows, value_depth]
  const T* mask_f;                // added to scores; nullptr = none
  const uint8_t* mask_b;          // where 0, no weight; nullptr = none
  int64_t mask_row, mask_column;  // strides of the mask, in elements
  size_t rows, keys, depth, value_depth, first_row;
  T scale;
  bool causal;  // row i sees keys 0 … i
  T* packed;    // [kKeyBlock + kMaxStrip, depth] scratch: keys of a block, transposed in strips
  T* scores;    // [16, kKeyBlock + kMaxStrip] scratch
  T* maximum;   // [rows] scratch
  T* sum;       // [rows] scratch
};

}  // namespace et::kernels::optimized::attention
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::attention::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;

// Accumulators of a tile of kRows x 2 vectors, with the operands, fill the registers: 32 of 64 bytes or 16 of 32 bytes.
constexpr size_t kRows = hn::MaxLanes(Tag<float>()) >= 16 ? 12 : 6;
constexpr size_t kScoreStride = kKeyBlock + kMaxStrip;

/// Transposes `count` keys into strips: packed[strip][e][key in strip], keys beyond `count` being 0.
template <class T>
void pack_keys(const T* key, size_t count, size_t depth, T* packed) {
  const size_t strip = 2 * hn::Lanes(Tag<T>());
  for (size_t first = 0; first < count; first += strip, packed += strip * depth) {
    const size_t n = HWY_MIN(strip, count - first);
    const T* const from = key + first * depth;
    constexpr bool kByFours = sizeof(T) == 4;
    const size_t n4 = kByFours ? n / 4 * 4 : 0;
    const size_t e4 = kByFours ? depth / 4 * 4 : 0;
    for (size_t j = 0; j < n4; j += 4) {
      for (size_t e = 0; e < e4; e += 4) {
        transpose4(reinterpret_cast<const char*>(from + j * depth + e), reinterpret_cast<char*>(packed + e * strip + j),
                   static_cast<int64_t>(depth * sizeof(T)), static_cast<int64_t>(strip * sizeof(T)));
      }
    }
    for (size_t e = 0; e < depth; ++e) {
      for (size_t j = e < e4 ? n4 : 0; j < strip; ++j) {
        packed[e * strip + j] = j < n ? from[j * depth + e] : T(0);
      }
    }
  }
}

/// scores[r][j] = query[r] · key[j] for kR rows and all strips of a packed block.
template <size_t kR, class T>
HWY_INLINE void score_rows(const T* query, size_t depth, const T* packed, size_t count, T* scores) {
  const Tag<T> d;
  using V = Vec<T>;
  const size_t lanes = hn::Lanes(d);
  for (size_t first = 0; first < count; first += 2 * lanes, packed += 2 * lanes * depth) {
    V left[kR], right[kR];
#pragma GCC unroll 16
    for (size_t r = 0; r < kR; ++r) {
      left[r] = hn::Zero(d);
      right[r] = hn::Zero(d);
    }
    for (size_t e = 0; e < depth; ++e) {
      const V k0 = hn::LoadU(d, packed + e * 2 * lanes);
      const V k1 = hn::LoadU(d, packed + e * 2 * lanes + lanes);
#pragma GCC unroll 16
      for (size_t r = 0; r < kR; ++r) {
        const V q = hn::Set(d, query[r * depth + e]);
        left[r] = hn::MulAdd(q, k0, left[r]);
        right[r] = hn::MulAdd(q, k1, right[r]);
      }
    }
#pragma GCC unroll 16
    for (size_t r = 0; r < kR; ++r) {
      hn::StoreU(left[r], d, scores + r * kScoreStride + first);
      hn::StoreU(right[r], d, scores + r * kScoreStride + first + lanes);
    }
  }
}

/// out[r] = out[r] * factor[r] + sum over j of weights[r][j] value[j], for kR rows. kWhole: two whole vectors of
/// columns.
template <size_t kR, bool kWhole, class T>
HWY_INLINE void add_strip(const T* weights, const T* value, size_t count, size_t value_depth, const T* factor, T* out,
                          size_t columns) {
  const Tag<T> d;
  using V = Vec<T>;
  const size_t lanes = hn::Lanes(d);
  const size_t columns0 = HWY_MIN(lanes, columns);
  const size_t columns1 = columns - columns0;
  const auto load0 = [&](const T* p) HWY_ATTR { return kWhole ? hn::LoadU(d, p) : hn::LoadN(d, p, columns0); };
  const auto load1 = [&](const T* p) HWY_ATTR {
    return kWhole ? hn::LoadU(d, p + lanes) : columns1 > 0 ? hn::LoadN(d, p + lanes, columns1) : hn::Zero(d);
  };
  V left[kR], right[kR];
#pragma GCC unroll 16
  for (size_t r = 0; r < kR; ++r) {
    const V f = hn::Set(d, factor[r]);
    left[r] = hn::Mul(load0(out + r * value_depth), f);
    right[r] = hn::Mul(load1(out + r * value_depth), f);
  }
  for (size_t j = 0; j < count; ++j) {
    const V v0 = load0(value + j * value_depth);
    const V v1 = load1(value + j * value_depth);
#pragma GCC unroll 16
    for (size_t r = 0; r < kR; ++r) {
      const V w = hn::Set(d, weights[r * kScoreStride + j]);
      left[r] = hn::MulAdd(w, v0, left[r]);
      right[r] = hn::MulAdd(w, v1, right[r]);
    }
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kR; ++r) {
    T* const to = out + r * value_depth;
    if (kWhole) {
      hn::StoreU(left[r], d, to);
      hn::StoreU(right[r], d, to + lanes);
    } else {
      hn::StoreN(left[r], d, to, columns0);
      if (columns1 > 0) {
        hn::StoreN(right[r], d, to + lanes, columns1);
      }
    }
  }
}

template <size_t kR, class T>
HWY_INLINE void add_values(const T* weights, const T* value, size_t count, size_t value_depth, const T* factor,
                           T* out) {
  const size_t strip = 2 * hn::Lanes(Tag<T>());
  size_t c = 0;
  for (; c + strip <= value_depth; c += strip) {
    add_strip<kR, true>(weights, value + c, count, value_depth, factor, out + c, strip);
  }
  if (c < value_depth) {
    add_strip<kR, false>(weights, value + c, count, value_depth, factor, out + c, value_depth - c);
  }
}

/// Which bytes are not 0, for the lanes of d.
template <class D, class Whole>
HWY_INLINE hn::Mask<D> are_not_zero(D d, Whole whole, const uint8_t* p, size_t left) {
  const hn::RebindToUnsigned<D> wide;
  const hn::Rebind<uint32_t, D> words;
  const auto v = hn::PromoteTo(words, load(hn::Rebind<uint8_t, D>(), whole, p, left));
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return hn::RebindMask(d, hn::Ne(hn::PromoteTo(wide, v), hn::Zero(wide)));
  } else {
    return hn::RebindMask(d, hn::Ne(v, hn::Zero(wide)));
  }
}

/// Scales and masks one row of scores, and turns it into weights e^(score - maximum). Returns the factor by which
/// earlier output and sum of the row shrink.
template <class T>
HWY_INLINE T weigh_row(const AttentionTask<T>& task, T* scores, size_t row, size_t first_key, size_t count) {
  const Tag<T> d;
  using V = Vec<T>;
  constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();
  const size_t visible =
      !task.causal ? count
                   : HWY_MIN(count, task.first_row + row + 1 > first_key ? task.first_row + row + 1 - first_key : 0);
  const V scale = hn::Set(d, task.scale);
  const int64_t mask_at =
      static_cast<int64_t>(row) * task.mask_row + static_cast<int64_t>(first_key) * task.mask_column;
  if (task.mask_f != nullptr) {
    const T* const mask = task.mask_f + mask_at;
    const V one = hn::Set(d, task.mask_column == 0 ? *mask : T(0));  // one number for the row
    over_vectors<T>(visible, [&](auto whole, size_t j, size_t left) HWY_ATTR {
      const V added = task.mask_column == 0 ? one : load(d, whole, mask + j, left);
      store(d, whole, hn::MulAdd(load(d, whole, scores + j, left), scale, added), scores + j, left);
    });
  } else {
    const uint8_t* const mask = task.mask_b == nullptr ? nullptr : task.mask_b + mask_at;
    const bool is_seen = mask == nullptr || task.mask_column != 0 || *mask != 0;  // one for the row
    over_vectors<T>(visible, [&](auto whole, size_t j, size_t left) HWY_ATTR {
      V s = hn::Mul(load(d, whole, scores + j, left), scale);
      if (mask != nullptr && task.mask_column != 0) {
        s = hn::IfThenElse(are_not_zero(d, whole, mask + j, left), s, hn::Set(d, kMinusInfinity));
      }
      store(d, whole, is_seen ? s : hn::Set(d, kMinusInfinity), scores + j, left);
    });
  }
  for (size_t j = visible; j < count; ++j) {
    scores[j] = kMinusInfinity;
  }
  const T before = task.maximum[row];
  const T block = largest_number(scores, count);
  const T maximum = block > before ? block : before;
  const T subtracted = maximum == kMinusInfinity ? T(0) : maximum;  // a row that sees nothing yet
  const T sum = sum_of_powers<true>(scores, scores, count, subtracted);
  const T factor = before == kMinusInfinity ? T(0) : std::exp(before - subtracted);
  task.maximum[row] = maximum;
  task.sum[row] = task.sum[row] * factor + sum;
  return factor;
}

/// kR rows from `row` on against one block of keys.
template <size_t kR, class T>
void rows_against_block(const AttentionTask<T>& task, size_t row, size_t first_key, size_t count) {
  score_rows<kR>(task.query + row * task.depth, task.depth, task.packed, count, task.scores);
  T factor[kR];
  for (size_t r = 0; r < kR; ++r) {
    factor[r] = weigh_row(task, task.scores + r * kScoreStride, row + r, first_key, count);
  }
  add_values<kR>(task.scores, task.value + first_key * task.value_depth, count, task.value_depth, factor,
                 task.out + row * task.value_depth);
}

/// One row, as in the decoding of one token: each key is read once, so nothing is transposed.
template <class T>
void one_row_against_block(const AttentionTask<T>& task, size_t row, size_t first_key, size_t count) {
  const Tag<T> d;
  const T* const query = task.query + row * task.depth;
  for (size_t j = 0; j < count; ++j) {
    const T* const key = task.key + (first_key + j) * task.depth;
    Vec<T> sum = hn::Zero(d);
    over_vectors<T>(task.depth, [&](auto whole, size_t e, size_t left) HWY_ATTR {
      sum = hn::MulAdd(load(d, whole, query + e, left), load(d, whole, key + e, left), sum);
    });
    task.scores[j] = hn::ReduceSum(d, sum);
  }
  const T factor = weigh_row(task, task.scores, row, first_key, count);
  add_values<1>(task.scores, task.value + first_key * task.value_depth, count, task.value_depth, &factor,
                task.out + row * task.value_depth);
}

template <class T>
void Attend(const AttentionTask<T>& task) {
  const Tag<T> d;
  for (size_t r = 0; r < task.rows; ++r) {
    task.maximum[r] = -std::numeric_limits<T>::infinity();
    task.sum[r] = T(0);
  }
  for (size_t i = 0; i < task.rows * task.value_depth; ++i) {
    task.out[i] = T(0);
  }
  // A causal task sees no key beyond its last row.
  const size_t keys = task.causal ? HWY_MIN(task.keys, task.first_row + task.rows) : task.keys;
  const bool few = task.rows < 4;
  for (size_t first = 0; first < keys; first += kKeyBlock) {
    const size_t count = HWY_MIN(kKeyBlock, keys - first);
    if (few) {
      for (size_t r = 0; r < task.rows; ++r) {
        one_row_against_block(task, r, first, count);
      }
      continue;
    }
    pack_keys(task.key + first * task.depth, count, task.depth, task.packed);
    size_t r = 0;
    for (; r + kRows <= task.rows; r += kRows) {
      rows_against_block<kRows>(task, r, first, count);
    }
    for (; r + 4 <= task.rows; r += 4) {
      rows_against_block<4>(task, r, first, count);
    }
    for (; r < task.rows; ++r) {
      rows_against_block<1>(task, r, first, count);
    }
  }
  for (size_t r = 0; r < task.rows; ++r) {
    // A row that may look at nothing gives 0, as eager PyTorch does.
    const Vec<T> scale = hn::Set(d, task.sum[r] == T(0) ? T(0) : T(1) / task.sum[r]);
    T* const out = task.out + r * task.value_depth;
    over_vectors<T>(task.value_depth, [&](auto whole, size_t c, size_t left) HWY_ATTR {
      store(d, whole, hn::Mul(load(d, whole, out + c, left), scale), out + c, left);
    });
  }
}

}  // namespace et::kernels::optimized::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::attention {

namespace {

using portable::Sizes;

/// Sizes of one call. Tensors are [batch, heads, rows, depth]; missing leading dimensions count as 1.
struct AttentionShape {
  size_t batch, heads, key_heads, rows, keys, depth, value_depth;
};

/// Size of dimension `from_end` counted from the last (0), 1 when the rank is lower.
int64_t size_from_end(const Tensor& tensor, int64_t from_end) {
  return from_end < tensor.dim() ? tensor.size(tensor.dim() - 1 - from_end) : 1;
}
int64_t stride_from_end(const Tensor& tensor, int64_t from_end) {
  return from_end < tensor.dim() && size_from_end(tensor, from_end) != 1 ? tensor.stride(tensor.dim() - 1 - from_end)
                                                                         : 0;
}

Error check_shapes(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                   bool enable_gqa, AttentionShape* shape) {
  const auto at = [](const Tensor& t, int64_t i) { return static_cast<size_t>(size_from_end(t, i)); };
  *shape = {at(query, 3), at(query, 2), at(key, 2), at(query, 1), at(key, 1), at(query, 0), at(value, 0)};
  const bool heads_fit =
      shape->key_heads == shape->heads || (enable_gqa && shape->key_heads > 0 && shape->heads % shape->key_heads == 0);
  ET_CHECK_OR_RETURN(at(key, 0) == shape->depth && at(value, 1) == shape->keys && at(value, 2) == shape->key_heads &&
                         heads_fit && at(key, 3) == shape->batch && at(value, 3) == shape->batch,
                     InvalidArgument, "scaled_dot_product_attention: query %s, key %s and value %s do not fit together",
                     ShapeText(query.sizes()).text, ShapeText(key.sizes()).text, ShapeText(value.sizes()).text);
  if (mask) {
    const size_t want[4] = {shape->keys, shape->rows, shape->heads, shape->batch};
    bool fits = mask->dim() <= 4;
    for (int64_t i = 0; fits && i < 4; ++i) {
      fits = at(*mask, i) == want[i] || at(*mask, i) == 1;
    }
    ET_CHECK_OR_RETURN(
        fits, InvalidArgument,
        "scaled_dot_product_attention: attn_mask %s does not broadcast to %zu x %zu scores for each head",
        ShapeText(mask->sizes()).text, shape->rows, shape->keys);
  }
  return Error::Ok;
}

/// Heads of the shape that is given, one after the other.
template <typename T>
Error attend_heads(KernelContext& context, const AttentionShape& shape, const Tensor& query, const Tensor& key,
                   const Tensor& value, const OptionalTensor& attn_mask, bool is_causal, std::optional<double> scale,
                   const Tensor& out) {
  HWY_EXPORT_T(OfTask, Attend<T>);
  // Tasks: heads, cut into runs of rows where there are too few heads for the threads.
  const size_t threads = context.pool() == nullptr ? 1 : context.pool()->num_threads();
  const size_t heads = shape.batch * shape.heads;
  size_t cuts = threads == 1 || heads >= 2 * threads ? 1 : (2 * threads + heads - 1) / heads;
  size_t rows_per_task = (shape.rows + cuts - 1) / cuts;
  constexpr size_t kRowStep = 12;
  constexpr size_t kMaxRows = 192;
  rows_per_task = (rows_per_task + kRowStep - 1) / kRowStep * kRowStep;
  rows_per_task = rows_per_task > kMaxRows ? kMaxRows : rows_per_task;
  rows_per_task = rows_per_task > shape.rows ? shape.rows : rows_per_task;
  cuts = (shape.rows + rows_per_task - 1) / rows_per_task;
  const size_t tasks = heads * cuts;

  // Scratch for each group of tasks; a group runs on one thread. A single group when the work is small.
  const double work = static_cast<double>(out.numel()) * static_cast<double>(shape.keys);
  const size_t groups = threads == 1 || work < 65536.0 ? 1 : tasks < 4 * threads ? tasks : 4 * threads;
  const size_t packed = (kKeyBlock + kMaxStrip) * shape.depth;
  const size_t scores = 16 * (kKeyBlock + kMaxStrip);
  const size_t per_group = (packed + scores + 2 * rows_per_task + 15) / 16 * 16;
  ET_TRY(void* const memory, context.allocate_temp(groups * per_group * sizeof(T)));
  auto* const scratch = static_cast<T*>(memory);

  AttentionTask<T> common{};
  common.keys = shape.keys;
  common.depth = shape.depth;
  common.value_depth = shape.value_depth;
  common.scale = static_cast<T>(scale ? *scale : 1.0 / std::sqrt(static_cast<double>(shape.depth)));
  common.causal = is_causal;
  int64_t mask_head = 0;
  int64_t mask_batch = 0;
  if (attn_mask) {
    common.mask_column = stride_from_end(*attn_mask, 0);
    common.mask_row = stride_from_end(*attn_mask, 1);
    mask_head = stride_from_end(*attn_mask, 2);
    mask_batch = stride_from_end(*attn_mask, 3);
  }
  ET_TRY(const T* const queries, numbers_of<T>(context, query));
  ET_TRY(const T* const all_keys, numbers_of<T>(context, key));
  ET_TRY(const T* const values, numbers_of<T>(context, value));
  ET_TRY(T* const results, numbers_for<T>(context, out));
  const bool has_numbers = attn_mask && attn_mask->scalar_type() != ScalarType::Bool;
  const T* added = nullptr;
  if (has_numbers) {
    ET_TRY(added, numbers_of<T>(context, *attn_mask));
  }
  const auto attend = HWY_DYNAMIC_POINTER_T(OfTask);
  threads::parallel_tasks(context.pool(), groups, [&](size_t group) {
    for (size_t index = group * tasks / groups; index < (group + 1) * tasks / groups && !context.cancelled(); ++index) {
      const size_t head = index / cuts;
      const size_t batch = head / shape.heads;
      const size_t key_head = batch * shape.key_heads + head % shape.heads / (shape.heads / shape.key_heads);
      AttentionTask<T> task = common;
      task.first_row = index % cuts * rows_per_task;
      task.rows = shape.rows - task.first_row < rows_per_task ? shape.rows - task.first_row : rows_per_task;
      task.query = queries + (head * shape.rows + task.first_row) * shape.depth;
      task.key = all_keys + key_head * shape.keys * shape.depth;
      task.value = values + key_head * shape.keys * shape.value_depth;
      task.out = results + (head * shape.rows + task.first_row) * shape.value_depth;
      if (attn_mask) {
        const int64_t at = static_cast<int64_t>(batch) * mask_batch +
                           static_cast<int64_t>(head % shape.heads) * mask_head +
                           static_cast<int64_t>(task.first_row) * common.mask_row;
        if (has_numbers) {
          task.mask_f = added + at;
        } else {
          task.mask_b = static_cast<const uint8_t*>(attn_mask->const_data_ptr()) + at;
        }
      }
      task.packed = scratch + group * per_group;
      task.scores = task.packed + packed;
      task.maximum = task.scores + scores;
      task.sum = task.maximum + rows_per_task;
      attend(task);
    }
  });
  ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "scaled_dot_product_attention: cancelled");
  write_numbers(context, out, results);
  return Error::Ok;
}

Error scaled_dot_product_attention_out(KernelContext& context, const Tensor& query, const Tensor& key,
                                       const Tensor& value, const OptionalTensor& attn_mask, double, bool is_causal,
                                       std::optional<double> scale, bool enable_gqa, Tensor& out) {
  AttentionShape shape;
  ET_RETURN_IF_ERROR(check_shapes(query, key, value, attn_mask, enable_gqa, &shape));
  Sizes sizes(query.sizes());
  sizes[query.dim() - 1] = value.size(-1);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const auto run = out.scalar_type() == ScalarType::Double ? &attend_heads<double> : &attend_heads<float>;
  return run(context, shape, query, key, value, attn_mask, is_causal, scale, out);
}

/// (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, out): floats of up to 32 bits or doubles,
/// row-major, at most four dimensions.
bool fits_attention(Arguments args) {
  const bool in_double = args[8]->to_tensor().scalar_type() == ScalarType::Double;
  const auto is_taken = [&](const EValue& value) {
    return in_double ? value.to_tensor().scalar_type() == ScalarType::Double : is_up_to_float(value);
  };
  for (const size_t i : {0, 1, 2, 8}) {
    if (!is_taken(*args[i]) || !is_row_major(*args[i]) || args[i]->to_tensor().dim() < 2 ||
        args[i]->to_tensor().dim() > 4 || args[i]->to_tensor().dim() != args[0]->to_tensor().dim()) {
      return false;
    }
  }
  const EValue& mask = *args[3];
  const bool mask_fits =
      mask.is_none() || (is_row_major(mask) && (is_taken(mask) || mask.to_tensor().scalar_type() == ScalarType::Bool));
  // A mask and is_causal together are an error, which the portable kernel words.
  return mask_fits && (mask.is_none() || !args[5]->number_as_bool()) && args[4]->number_as_double() == 0.0;
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&scaled_dot_product_attention_out, &fits_attention>("et::scaled_dot_product_attention.out"),
};

}  // namespace

ET_KERNEL_TABLE(attention, kKernels)

}  // namespace et::kernels::optimized::attention
#endif  // HWY_ONCE
