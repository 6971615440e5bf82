// et::quantized_attention: scaled dot product attention of 8-bit integers. Where the processor multiplies four bytes at
// a time (VNNI, AMX), both products are of integers:
//
//   scores    bytes of the query times keys: exact. What a zero point of the keys adds is the same for a row, and
//             softmax does not see it. That of the query times the sum of a key's numbers is what a sum begins with.
//   weights   e^(score - maximum), rounded to 16 bits, as two bytes. What rounding leaves goes to later keys; their sum
//             is that of the rounded ones.
//   results   weights times values, exact; the zero point of the values is subtracted last.
//
// Keys and values are packed once a head, for all tasks that meet it (attention/attention.h). On other processors they
// become floats, and attention is that of floats.
#include "base/rounding.h"
#include "kernels/optimized/quantized/attention_quads.h"
#include "kernels/optimized/quantized/integer_loops.h"
#include "kernels/optimized/quantized/pointwise.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/quantized/op_attention.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::quantized {
namespace {

using attention::AttentionShape;
using kernels::quantized::Affine;
using kernels::quantized::Requantizer;

constexpr const char* kOp = "et::quantized_attention";

/// What a call has, checked.
struct Call {
  AttentionShape shape;
  const Tensor &query_tensor, &key_tensor, &value_tensor, &out;
  Affine query, key, value;
  attention::AttentionMask<float> mask;
  bool is_causal;
  double scale;
  const Requantizer& requantizer;

  bool is_signed() const { return out.scalar_type() == ScalarType::Char; }
};

/// Parts of a call's temporary memory, each in whole lines of a cache.
class Parts {
 public:
  template <typename T>
  size_t add(size_t count) {
    const size_t at = nbytes_;
    nbytes_ += round_up(count * sizeof(T), 64);
    return at;
  }
  size_t nbytes() const { return nbytes_; }

 private:
  size_t nbytes_ = 0;
};

Error attend_integers(KernelContext& context, const Call& call) {
  const AttentionShape& shape = call.shape;
  PackedHeads heads{};
  heads.keys = shape.keys, heads.depth = shape.depth, heads.value_depth = shape.value_depth;
  heads.columns = 2 * integer_lanes();
  heads.unit = 4 * unit_of_quads();
  heads.flip_signed = call.is_signed() ? 0 : 128;
  heads.query_zero_point = call.query.zero_point + (call.is_signed() ? 128 : 0);
  heads.key = static_cast<const char*>(call.key_tensor.const_data_ptr());
  heads.value = static_cast<const char*>(call.value_tensor.const_data_ptr());
  const size_t key_heads = shape.batch * shape.key_heads;
  const attention::AttentionTasks tasks(shape, context.pool(), kRowBlock);

  Parts shared, own;
  const size_t keys = shared.add<int8_t>(key_heads * heads.key_nbytes());
  const size_t values = shared.add<int8_t>(key_heads * heads.value_nbytes());
  const size_t terms = shared.add<int32_t>(key_heads * heads.padded_keys());
  const size_t rows = own.add<uint8_t>(round_up(tasks.rows, kRowBlock) * heads.padded_depth());
  const size_t weights = own.add<uint8_t>(2 * kRowBlock * attention::kKeyBlock);
  const size_t scores = own.add<float>(kRowBlock * attention::kScoreStride);
  const size_t sums = own.add<float>(tasks.rows * heads.padded_columns());
  const size_t maxima = own.add<float>(tasks.rows);
  const size_t totals = own.add<float>(tasks.rows);
  ET_TRY(void* const memory, context.allocate_temp(shared.nbytes() + tasks.groups * own.nbytes()));
  auto* const base = static_cast<char*>(memory);
  heads.packed_keys = reinterpret_cast<int8_t*>(base + keys);
  heads.packed_values = reinterpret_cast<int8_t*>(base + values);
  heads.key_terms = reinterpret_cast<int32_t*>(base + terms);

  const size_t grain = threads::grain_for(shape.keys * (shape.depth + shape.value_depth));
  threads::parallel_for(context, key_heads, grain, [&](size_t begin, size_t end) { pack_heads(heads, begin, end); });

  threads::parallel_tasks(context.pool(), tasks.groups, [&](size_t group) {
    char* const scratch = base + shared.nbytes() + group * own.nbytes();
    std::memset(scratch, 0, scores);  // tiles multiply rows that are not there
    QuantizedTask task{};
    task.keys = shape.keys;
    task.scale =
        static_cast<float>(call.scale * static_cast<double>(call.query.scale) * static_cast<double>(call.key.scale));
    task.causal = call.is_causal;
    task.heads = &heads;
    task.flip_unsigned = call.is_signed() ? 128 : 0;
    task.values = {call.value.scale, call.value.zero_point - (call.is_signed() ? 0 : 128)};
    task.requantizer = &call.requantizer;
    task.rows = reinterpret_cast<uint8_t*>(scratch + rows);
    task.weights = reinterpret_cast<uint8_t*>(scratch + weights);
    task.scores = reinterpret_cast<float*>(scratch + scores);
    task.sums = reinterpret_cast<float*>(scratch + sums);
    task.maximum = reinterpret_cast<float*>(scratch + maxima);
    task.sum = reinterpret_cast<float*>(scratch + totals);
    tasks.for_each(group, [&](size_t head, size_t first) {
      const size_t key_head = shape.key_head_of(head), row = head * shape.rows + first;
      task.first = first;
      task.count = std::min(shape.rows - first, tasks.rows);
      task.query = static_cast<const char*>(call.query_tensor.const_data_ptr()) + row * shape.depth;
      task.out = static_cast<char*>(call.out.mutable_data_ptr()) + row * shape.value_depth;
      task.packed_keys = heads.packed_keys + key_head * heads.key_nbytes();
      task.packed_values = heads.packed_values + key_head * heads.value_nbytes();
      task.key_terms = heads.key_terms + key_head * heads.padded_keys();
      task.mask = call.mask.of_row(shape, head, first);
      attend_rows(task);
      return !context.cancelled();
    });
  });
  ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", kOp);
  return Error::Ok;
}

Error attend_as_floats(KernelContext& context, const Call& call) {
  const auto count = [](const Tensor& tensor) { return static_cast<size_t>(tensor.numel()); };
  Parts parts;
  const size_t query = parts.add<float>(count(call.query_tensor)), key = parts.add<float>(count(call.key_tensor));
  const size_t value = parts.add<float>(count(call.value_tensor)), out = parts.add<float>(count(call.out));
  ET_TRY(void* const memory, context.allocate_temp(parts.nbytes()));
  auto* const base = static_cast<char*>(memory);
  const auto floats_at = [&](size_t at) { return reinterpret_cast<float*>(base + at); };
  const auto convert = [&](const Tensor& from, const Affine& bytes, float* to) {
    pointwise::PointwiseBlock block{};
    block.a = static_cast<double>(bytes.zero_point), block.b = static_cast<double>(bytes.scale);
    run_loop(context, dequantize_loop(from.scalar_type()), from, to, sizeof(float), block);
  };
  convert(call.query_tensor, call.query, floats_at(query));
  convert(call.key_tensor, call.key, floats_at(key));
  convert(call.value_tensor, call.value, floats_at(value));
  ET_RETURN_IF_ERROR(attention::attend_heads<float>(
      context, call.shape, {floats_at(query), floats_at(key), floats_at(value), floats_at(out)}, call.mask,
      call.is_causal, call.scale));
  threads::parallel_for(context, count(call.out), threads::grain_for(2), [&](size_t begin, size_t end) {
    to_bytes(floats_at(out) + begin, end - begin, 1 / call.requantizer.scale(), 0, call.requantizer,
             static_cast<char*>(call.out.mutable_data_ptr()) + begin);
  });
  return Error::Ok;
}

/// Sums of so many products of two bytes, and what they begin with, fit in 32 bits.
constexpr size_t kMostDepth = 1 << 14;

Error quantized_attention_out(KernelContext& context, const Tensor& query, double query_scale, int64_t query_zero_point,
                              const Tensor& key, double key_scale, int64_t key_zero_point, const Tensor& value,
                              double value_scale, int64_t value_zero_point, const OptionalTensor& attn_mask,
                              bool is_causal, std::optional<double> scale, bool enable_gqa, double output_scale,
                              int64_t output_zero_point, int64_t output_min, int64_t output_max, Tensor& out) {
  const ScalarType dtype = out.scalar_type();
  ET_TRY(const Affine of_query, Affine::make(kOp, "query", dtype, query_scale, query_zero_point));
  ET_TRY(const Affine of_key, Affine::make(kOp, "key", dtype, key_scale, key_zero_point));
  ET_TRY(const Affine of_value, Affine::make(kOp, "value", dtype, value_scale, value_zero_point));
  ET_TRY(const Requantizer requantizer,
         Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min, output_max}));
  ET_TRY(const AttentionShape shape, attention::shape_of(kOp, query, key, value, attn_mask, enable_gqa));
  portable::Sizes sizes(query.sizes());
  sizes[query.dim() - 1] = value.size(-1);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  ET_TRY(const attention::AttentionMask<float> mask, attention::mask_of<float>(context, attn_mask));
  const Call call{shape,
                  query,
                  key,
                  value,
                  out,
                  of_query,
                  of_key,
                  of_value,
                  mask,
                  is_causal,
                  attention::scale_of(scale, shape),
                  requantizer};
  const bool fits_integers = shape.depth <= kMostDepth && std::isfinite(of_value.scale / requantizer.scale());
  return multiplies_quads() && fits_integers ? attend_integers(context, call) : attend_as_floats(context, call);
}

/// 8-bit integers of one type.
bool fits(Arguments args) {
  using namespace ops::arguments::et_quantized_attention;
  const EValue* const tensors[] = {args[kQuery], args[kKey], args[kValue], args[kOut]};
  for (const EValue* const tensor : tensors) {
    if (tensor->to_tensor().element_size() != 1 ||
        tensor->to_tensor().scalar_type() != args[kOut]->to_tensor().scalar_type()) {
      return false;
    }
  }
  return attention::are_attention_operands({args[kQuery], args[kKey], args[kValue], args[kOut]},
                                           args[kEnableGqa]->number_as_bool()) &&
         attention::is_attention_mask(*args[kAttnMask], [](ScalarType dtype) { return is_up_to_float(dtype); }) &&
         (args[kAttnMask]->is_none() || !args[kIsCausal]->number_as_bool());
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&quantized_attention_out, &fits>("et::quantized_attention.out"),
};

}  // namespace

ET_KERNEL_TABLE(attention, kKernels)

}  // namespace et::kernels::optimized::quantized
