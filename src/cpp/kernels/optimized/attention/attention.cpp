// et::scaled_dot_product_attention: softmax(query · keyᵀ · scale + mask) · value in one pass, without the matrix of
// scores.
//
// Work is cut into tasks of one head and some query rows. A task walks over blocks of kKeyBlock keys and transposes
// each block's keys once. Then, for a few query rows at a time, it computes scores in registers and turns them into
// weights with a running maximum and sum. It adds the weighted values to the output. Earlier output is rescaled when
// the maximum grows. Scores and sums are float for floats of up to 32 bits, double for double.
// Source: Milakov and Gimelshein 2018 (online softmax); Dao et al. 2022 (FlashAttention), the forward pass.

#include "kernels/optimized/vec/every_target-inl.h"

#include "base/rounding.h"
#include "kernels/optimized/attention/online_softmax-inl.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/transpose4-inl.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_ATTENTION_ONCE
#define ET_KERNELS_OPTIMIZED_ATTENTION_ONCE
namespace et::kernels::optimized::attention {

/// One head's rows of the query.
template <typename T>
struct AttentionTask : AttentionRows<T> {
  const T* query;  // [count, depth]
  const T* key;    // [keys, depth]
  const T* value;  // [keys, value_depth]
  T* out;          // [count, value_depth]
  size_t depth, value_depth;
  T* packed;  // [kScoreStride, depth] scratch: keys of a block, transposed in strips
};

}  // namespace et::kernels::optimized::attention
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::attention::HWY_NAMESPACE {

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;

// Accumulators of a tile of kRows x 2 vectors, with the operands, fill the registers: 32 of 64 bytes or 16 of 32 bytes.
constexpr size_t kRows = hn::MaxLanes(Tag<float>()) >= 16 ? 12 : 6;

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

template <class T>
HWY_INLINE T weigh_floats(const AttentionTask<T>& task, T* scores, size_t row, size_t first_key, size_t count) {
  const auto powers = [](T* x, size_t n, T maximum, T scale) HWY_ATTR {
    const Vec<T> less = hn::Set(Tag<T>(), maximum), times = hn::Set(Tag<T>(), scale);
    return sum_of_powers_of<true>(x, x, n, [&](Vec<T> v) HWY_ATTR { return hn::Mul(hn::Sub(v, less), times); });
  };
  return weigh_row(task, scores, row, first_key, count, powers);
}

/// kR rows from `row` on against one block of keys.
template <size_t kR, class T>
void rows_against_block(const AttentionTask<T>& task, size_t row, size_t first_key, size_t count) {
  score_rows<kR>(task.query + row * task.depth, task.depth, task.packed, count, task.scores);
  T factor[kR];
  for (size_t r = 0; r < kR; ++r) {
    factor[r] = weigh_floats(task, task.scores + r * kScoreStride, row + r, first_key, count);
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
  const T factor = weigh_floats(task, task.scores, row, first_key, count);
  add_values<1>(task.scores, task.value + first_key * task.value_depth, count, task.value_depth, &factor,
                task.out + row * task.value_depth);
}

template <class T>
void Attend(const AttentionTask<T>& task) {
  const Tag<T> d;
  start_rows(task);
  for (size_t i = 0; i < task.count * task.value_depth; ++i) {
    task.out[i] = T(0);
  }
  const size_t keys = task.visible_keys();
  const bool few = task.count < 4;
  for (size_t first = 0; first < keys; first += kKeyBlock) {
    const size_t count = HWY_MIN(kKeyBlock, keys - first);
    if (few) {
      for (size_t r = 0; r < task.count; ++r) {
        one_row_against_block(task, r, first, count);
      }
      continue;
    }
    pack_keys(task.key + first * task.depth, count, task.depth, task.packed);
    size_t r = 0;
    for (; r + kRows <= task.count; r += kRows) {
      rows_against_block<kRows>(task, r, first, count);
    }
    for (; r + 4 <= task.count; r += 4) {
      rows_against_block<4>(task, r, first, count);
    }
    for (; r < task.count; ++r) {
      rows_against_block<1>(task, r, first, count);
    }
  }
  for (size_t r = 0; r < task.count; ++r) {
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

/// Size of dimension `from_end` counted from the last (0), 1 when the rank is lower.
int64_t size_from_end(const Tensor& tensor, int64_t from_end) {
  return from_end < tensor.dim() ? tensor.size(tensor.dim() - 1 - from_end) : 1;
}
int64_t stride_from_end(const Tensor& tensor, int64_t from_end) {
  return from_end < tensor.dim() && size_from_end(tensor, from_end) != 1 ? tensor.stride(tensor.dim() - 1 - from_end)
                                                                         : 0;
}

AttentionShape sizes_of(const Tensor& query, const Tensor& key, const Tensor& value) {
  const auto at = [](const Tensor& t, int64_t i) { return static_cast<size_t>(size_from_end(t, i)); };
  return {at(query, 3), at(query, 2), at(key, 2), at(query, 1), at(key, 1), at(query, 0), at(value, 0)};
}

/// Whether batches and heads are those of `shape`.
bool have_same_heads(const AttentionShape& shape, const Tensor& key, const Tensor& value, bool enable_gqa) {
  const auto has = [](const Tensor& t, int64_t i, size_t size) {
    return size_from_end(t, i) == static_cast<int64_t>(size);
  };
  const bool heads_fit =
      shape.key_heads == shape.heads || (enable_gqa && shape.key_heads > 0 && shape.heads % shape.key_heads == 0);
  return heads_fit && has(value, 2, shape.key_heads) && has(key, 3, shape.batch) && has(value, 3, shape.batch);
}

}  // namespace

Result<AttentionShape> shape_of(const char* op, const Tensor& query, const Tensor& key, const Tensor& value,
                                const OptionalTensor& mask, bool enable_gqa) {
  const auto at = [](const Tensor& t, int64_t i) { return static_cast<size_t>(size_from_end(t, i)); };
  const AttentionShape shape = sizes_of(query, key, value);
  ET_CHECK_OR_RETURN(
      at(key, 0) == shape.depth && at(value, 1) == shape.keys && have_same_heads(shape, key, value, enable_gqa),
      InvalidArgument, "%s: query %s, key %s and value %s do not fit together", op, ShapeText(query.sizes()).text,
      ShapeText(key.sizes()).text, ShapeText(value.sizes()).text);
  if (mask) {
    const size_t want[4] = {shape.keys, shape.rows, shape.heads, shape.batch};
    bool fits = mask->dim() <= 4;
    for (int64_t i = 0; fits && i < 4; ++i) {
      fits = at(*mask, i) == want[i] || at(*mask, i) == 1;
    }
    ET_CHECK_OR_RETURN(fits, InvalidArgument, "%s: attn_mask %s does not broadcast to %zu x %zu scores for each head",
                       op, ShapeText(mask->sizes()).text, shape.rows, shape.keys);
  }
  return shape;
}

template <typename T>
Result<AttentionMask<T>> mask_of(KernelContext& context, const OptionalTensor& mask) {
  AttentionMask<T> found{};
  if (!mask) {
    return found;
  }
  found.column = stride_from_end(*mask, 0);
  found.row = stride_from_end(*mask, 1);
  found.head = stride_from_end(*mask, 2);
  found.batch = stride_from_end(*mask, 3);
  if (mask->scalar_type() == ScalarType::Bool) {
    found.shown = static_cast<const uint8_t*>(mask->const_data_ptr());
  } else {
    ET_TRY(found.added, numbers_of<T>(context, *mask));
  }
  return found;
}
template Result<AttentionMask<float>> mask_of<float>(KernelContext&, const OptionalTensor&);

AttentionTasks::AttentionTasks(const AttentionShape& shape, const threads::ThreadPool* pool, size_t row_step) {
  const size_t threads = pool == nullptr ? 1 : pool->num_threads(), heads = shape.all_heads();
  cuts = threads == 1 || heads >= 2 * threads ? 1 : divide_up(2 * threads, heads);
  rows = divide_up(shape.rows, cuts);
  constexpr size_t kMaxRows = 192;
  rows = round_up(rows, row_step);
  rows = std::min({rows, kMaxRows, shape.rows});
  cuts = divide_up(shape.rows, rows);
  count = heads * cuts;
  const double work = static_cast<double>(heads * shape.rows * shape.value_depth) * static_cast<double>(shape.keys);
  groups = threads == 1 || work < 65536.0 ? 1 : std::min(count, 4 * threads);
}

template <typename T>
Error attend_heads(KernelContext& context, const AttentionShape& shape, const AttentionOperands<T>& operands,
                   const AttentionMask<T>& mask, bool is_causal, double scale) {
  HWY_EXPORT_T(OfTask, Attend<T>);
  constexpr size_t kRowStep = 12;  // the most rows that are treated together
  const AttentionTasks tasks(shape, context.pool(), kRowStep);
  const size_t packed = kScoreStride * shape.depth, scores = kRowStep * kScoreStride;
  const size_t per_group = (packed + scores + 2 * tasks.rows + 15) / 16 * 16;
  ET_TRY(void* const memory, context.allocate_temp(tasks.groups * per_group * sizeof(T)));
  auto* const scratch = static_cast<T*>(memory);
  const auto attend = HWY_DYNAMIC_POINTER_T(OfTask);
  threads::parallel_tasks(context.pool(), tasks.groups, [&](size_t group) {
    AttentionTask<T> task{};
    task.keys = shape.keys;
    task.depth = shape.depth;
    task.value_depth = shape.value_depth;
    task.scale = static_cast<T>(scale);
    task.causal = is_causal;
    task.packed = scratch + group * per_group;
    task.scores = task.packed + packed;
    task.maximum = task.scores + scores;
    task.sum = task.maximum + tasks.rows;
    tasks.for_each(group, [&](size_t head, size_t first) {
      const size_t key_head = shape.key_head_of(head);
      task.first = first;
      task.count = std::min(shape.rows - first, tasks.rows);
      task.query = operands.query + (head * shape.rows + first) * shape.depth;
      task.key = operands.key + key_head * shape.keys * shape.depth;
      task.value = operands.value + key_head * shape.keys * shape.value_depth;
      task.out = operands.out + (head * shape.rows + first) * shape.value_depth;
      task.mask = mask.of_row(shape, head, first);
      attend(task);
      return !context.cancelled();
    });
  });
  ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "scaled_dot_product_attention: cancelled");
  return Error::Ok;
}
template Error attend_heads<float>(KernelContext&, const AttentionShape&, const AttentionOperands<float>&,
                                   const AttentionMask<float>&, bool, double);

bool are_attention_operands(std::initializer_list<const EValue*> operands, bool enable_gqa) {
  const EValue* const* const all = operands.begin();
  const int64_t rank = all[0]->to_tensor().dim();
  return rank >= 2 && rank <= 4 &&
         std::all_of(
             operands.begin(), operands.end(),
             [rank](const EValue* operand) { return is_row_major(*operand) && operand->to_tensor().dim() == rank; }) &&
         have_same_heads(sizes_of(all[0]->to_tensor(), all[1]->to_tensor(), all[2]->to_tensor()), all[1]->to_tensor(),
                         all[2]->to_tensor(), enable_gqa);
}

bool is_attention_mask(const EValue& mask, bool (*is_taken)(ScalarType)) {
  return mask.is_none() || (is_row_major(mask) && (mask.to_tensor().scalar_type() == ScalarType::Bool ||
                                                   is_taken(mask.to_tensor().scalar_type())));
}

namespace {

template <typename T>
Error attend(KernelContext& context, const AttentionShape& shape, const Tensor& query, const Tensor& key,
             const Tensor& value, const OptionalTensor& attn_mask, bool is_causal, double scale, const Tensor& out) {
  AttentionOperands<T> operands{};
  ET_TRY(operands.query, numbers_of<T>(context, query));
  ET_TRY(operands.key, numbers_of<T>(context, key));
  ET_TRY(operands.value, numbers_of<T>(context, value));
  ET_TRY(operands.out, numbers_for<T>(context, out));
  ET_TRY(const AttentionMask<T> mask, mask_of<T>(context, attn_mask));
  ET_RETURN_IF_ERROR(attend_heads(context, shape, operands, mask, is_causal, scale));
  write_numbers(context, out, operands.out);
  return Error::Ok;
}

Error scaled_dot_product_attention_out(KernelContext& context, const Tensor& query, const Tensor& key,
                                       const Tensor& value, const OptionalTensor& attn_mask, double, bool is_causal,
                                       std::optional<double> scale, bool enable_gqa, Tensor& out) {
  ET_TRY(const AttentionShape shape,
         shape_of("scaled_dot_product_attention", query, key, value, attn_mask, enable_gqa));
  Sizes sizes(query.sizes());
  sizes[query.dim() - 1] = value.size(-1);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const auto run = out.scalar_type() == ScalarType::Double ? &attend<double> : &attend<float>;
  return run(context, shape, query, key, value, attn_mask, is_causal, scale_of(scale, shape), out);
}

/// (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, out): floats of up to 32 bits or doubles.
bool fits_attention(Arguments args) {
  const bool in_double = args[8]->to_tensor().scalar_type() == ScalarType::Double;
  const auto is_taken = in_double ? +[](ScalarType dtype) { return dtype == ScalarType::Double; }
                                  : +[](ScalarType dtype) { return is_up_to_float(dtype); };
  for (const size_t i : {0, 1, 2, 8}) {
    if (!is_taken(args[i]->to_tensor().scalar_type())) {
      return false;
    }
  }
  // A mask and is_causal together are an error, which the portable kernel words.
  return are_attention_operands({args[0], args[1], args[2], args[8]}, args[7]->number_as_bool()) &&
         is_attention_mask(*args[3], is_taken) && (args[3]->is_none() || !args[5]->number_as_bool()) &&
         args[4]->number_as_double() == 0.0;
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&scaled_dot_product_attention_out, &fits_attention>("et::scaled_dot_product_attention.out"),
};

}  // namespace

ET_KERNEL_TABLE(attention, kKernels)

}  // namespace et::kernels::optimized::attention
#endif  // HWY_ONCE
