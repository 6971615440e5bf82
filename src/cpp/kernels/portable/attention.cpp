#include "kernels/portable/attention.h"

#include <cmath>

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/shape.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::portable {
namespace {

// A [batch…, heads…, rows, columns] operand whose leading dimensions broadcast to those of the output.
struct Operand {
  const char* data;
  ScalarType dtype;
  float scale, zero_point;
  Sizes lead;  // strides of the leading dimensions of the output, 0 where this operand broadcasts
  int64_t row_stride;
  int64_t column_stride;

  const char* at(int64_t offset) const { return data + offset * static_cast<int64_t>(element_size(dtype)); }

  /// n numbers of the row that begins at element `offset`.
  template <typename C>
  void read(int64_t offset, int64_t n, C* row) const {
    load(dtype, at(offset), column_stride, n, row);
    if (!is_floating(dtype)) {
      for (int64_t i = 0; i < n; ++i) {
        row[i] = (row[i] - static_cast<C>(zero_point)) * static_cast<C>(scale);
      }
    }
  }
};

// `group`: how many heads of the output share one of this operand (grouped queries); applies to the last leading dim.
Error operand_of(const char* op, const AttentionOperand& from, IntArrayRef lead_sizes, int64_t group, Operand* out) {
  const Tensor& tensor = from.tensor;
  const int64_t lead = tensor.dim() - 2;
  const int64_t rank = static_cast<int64_t>(lead_sizes.size());
  ET_CHECK_OR_RETURN(lead >= 0 && lead <= rank, InvalidArgument, "%s: an operand has shape %s", op,
                     ShapeText(tensor.sizes()).text);
  out->data = static_cast<const char*>(tensor.const_data_ptr());
  out->dtype = tensor.scalar_type();
  out->scale = from.scale;
  out->zero_point = from.zero_point;
  out->lead.resize(lead_sizes.size(), 0);
  for (int64_t d = 0; d < lead; ++d) {
    const int64_t target = rank - lead + d;
    const int64_t size = tensor.size(d);
    const int64_t wanted = lead_sizes[static_cast<size_t>(target)] / (target == rank - 1 ? group : 1);
    ET_CHECK_OR_RETURN(size == wanted || size == 1, InvalidArgument, "%s: shape %s does not go with the batch %s", op,
                       ShapeText(tensor.sizes()).text, ShapeText(lead_sizes).text);
    out->lead[target] = size == 1 ? 0 : tensor.stride(d);
  }
  const bool row_broadcasts = tensor.size(-2) == 1;
  out->row_stride = row_broadcasts ? 0 : tensor.stride(-2);
  out->column_stride = tensor.size(-1) == 1 ? 0 : tensor.stride(-1);
  return Error::Ok;
}

struct Shape {
  int64_t queries;
  int64_t keys;
  int64_t width;
  int64_t value_width;
  double scale;
  bool is_causal;
};

template <typename C>
void attend_row(const Shape& s, const C* query, const Operand& key, int64_t key_offset, const Operand& value,
                int64_t value_offset, C* scores, C* row, C* out) {
  C largest = -INFINITY;
  for (int64_t k = 0; k < s.keys; ++k) {
    if (scores[k] == -INFINITY) {  // masked
      continue;
    }
    key.read(key_offset + k * key.row_stride, s.width, row);
    C sum = 0;
    for (int64_t i = 0; i < s.width; ++i) {
      sum += query[i] * row[i];
    }
    scores[k] += sum * static_cast<C>(s.scale);
    largest = maximum(largest, scores[k]);
  }
  C total = 0;
  for (int64_t i = 0; i < s.value_width; ++i) {
    out[i] = 0;
  }
  if (largest == -INFINITY) {  // nothing to attend to: zeros, as in torch
    return;
  }
  for (int64_t k = 0; k < s.keys; ++k) {
    const C weight = std::exp(scores[k] - largest);
    total += weight;
    if (weight == C(0)) {
      continue;
    }
    value.read(value_offset + k * value.row_stride, s.value_width, row);
    for (int64_t i = 0; i < s.value_width; ++i) {
      out[i] += weight * row[i];
    }
  }
  for (int64_t i = 0; i < s.value_width; ++i) {
    out[i] /= total;
  }
}

}  // namespace

template <typename C>
Error attend(KernelContext& context, const Attention& call, const void* how, PutRow<C> put, const Tensor& out) {
  const char* const op = call.op;
  const Tensor &query = call.query.tensor, &key = call.key.tensor, &value = call.value.tensor;
  for (const Tensor* tensor : {&query, &key, &value}) {
    ET_RETURN_IF_ERROR(check_rank(op, "an operand", *tensor, 2, kMaxRank));
    ET_RETURN_IF_ERROR(check_same_dtype(op, "an operand", *tensor, query));
  }
  ET_CHECK_OR_RETURN(!call.is_causal || !call.mask.has_value(), InvalidArgument,
                     "%s: both is_causal and attn_mask are given", op);
  const Shape s{query.size(-2),
                key.size(-2),
                query.size(-1),
                value.size(-1),
                call.scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1)))),
                call.is_causal};
  ET_CHECK_OR_RETURN(key.size(-1) == s.width && value.size(-2) == s.keys, InvalidArgument,
                     "%s: shapes %s, %s and %s do not go together", op, ShapeText(query.sizes()).text,
                     ShapeText(key.sizes()).text, ShapeText(value.sizes()).text);
  int64_t group = 1;
  if (call.enable_gqa && query.dim() >= 3 && key.dim() >= 3) {
    ET_CHECK_OR_RETURN(key.size(-3) > 0 && query.size(-3) % key.size(-3) == 0 && value.size(-3) == key.size(-3),
                       InvalidArgument, "%s: %" PRId64 " query heads, %" PRId64 " key heads", op, query.size(-3),
                       key.size(-3));
    group = query.size(-3) / key.size(-3);
  }
  Sizes lead(query.sizes());
  lead.resize(lead.size() - 2);
  if (group == 1) {
    Sizes other(key.sizes());
    other.resize(other.size() - 2);
    ET_RETURN_IF_ERROR(broadcast_sizes(op, lead, other, &lead));
  }
  Operand q;
  Operand k;
  Operand v;
  Operand m{};
  ET_RETURN_IF_ERROR(operand_of(op, call.query, lead, 1, &q));
  ET_RETURN_IF_ERROR(operand_of(op, call.key, lead, group, &k));
  ET_RETURN_IF_ERROR(operand_of(op, call.value, lead, group, &v));
  if (call.mask.has_value()) {
    ET_RETURN_IF_ERROR(check_rank(op, "attn_mask", *call.mask, 2, kMaxRank));
    ET_CHECK_OR_RETURN((call.mask->size(-1) == s.keys || call.mask->size(-1) == 1) &&
                           (call.mask->size(-2) == s.queries || call.mask->size(-2) == 1),
                       InvalidArgument, "%s: mask %s for %" PRId64 " queries and %" PRId64 " keys", op,
                       ShapeText(call.mask->sizes()).text, s.queries, s.keys);
    ET_RETURN_IF_ERROR(operand_of(op, {*call.mask}, lead, 1, &m));
  }
  Sizes sizes = lead;
  sizes.push_back(s.queries);
  sizes.push_back(s.value_width);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  const int64_t batches = out.numel() == 0 ? 0 : lead.numel();  // rows of nothing may be many
  const int64_t rank = static_cast<int64_t>(lead.size());
  const int64_t widest = s.width > s.value_width ? s.width : s.value_width;
  ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(s.keys + 2 * widest + s.value_width) * sizeof(C)));
  C* scores = static_cast<C*>(memory);
  C* query_row = scores + s.keys;
  C* row = query_row + widest;
  C* out_row = row + widest;
  for (int64_t b = 0; b < batches; ++b) {
    ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", op);
    int64_t q_offset = 0;
    int64_t k_offset = 0;
    int64_t v_offset = 0;
    int64_t m_offset = 0;
    int64_t out_offset = 0;
    int64_t rest = b;
    for (int64_t d = rank - 1; d >= 0; --d) {
      const int64_t at = rest % lead[d];
      const int64_t shared = d == rank - 1 ? at / group : at;
      rest /= lead[d];
      q_offset += at * q.lead[d];
      k_offset += shared * k.lead[d];
      v_offset += shared * v.lead[d];
      m_offset += call.mask.has_value() ? at * m.lead[d] : 0;
      out_offset += at * out.stride(d);
    }
    for (int64_t i = 0; i < s.queries; ++i) {
      for (int64_t j = 0; j < s.keys; ++j) {
        scores[j] = s.is_causal && j > i ? -INFINITY : C(0);
        if (!call.mask.has_value()) {
          continue;
        }
        const char* mask = m.at(m_offset + i * m.row_stride + j * m.column_stride);
        scores[j] = m.dtype == ScalarType::Bool ? (*mask != 0 ? C(0) : -INFINITY) : load_one<C>(m.dtype, mask);
      }
      q.read(q_offset + i * q.row_stride, s.width, query_row);
      attend_row(s, query_row, k, k_offset, v, v_offset, scores, row, out_row);
      char* target = static_cast<char*>(out.mutable_data_ptr()) +
                     (out_offset + i * out.stride(-2)) * static_cast<int64_t>(out.element_size());
      put(how, out_row, s.value_width, target, out.stride(-1));
    }
  }
  return Error::Ok;
}

template Error attend<float>(KernelContext&, const Attention&, const void*, PutRow<float>, const Tensor&);
template Error attend<double>(KernelContext&, const Attention&, const void*, PutRow<double>, const Tensor&);

}  // namespace et::kernels::portable
