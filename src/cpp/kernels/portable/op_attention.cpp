// softmax(query · keyᵀ · scale + mask) · value, one row of scores at a time.
#include "kernels/portable/op_attention.h"

#include <cmath>
#include <limits>

#include "kernels/portable/convert.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::portable {
namespace {

constexpr const char* kOp = "aten::scaled_dot_product_attention";

// A tensor as [batch, heads, rows, columns]; leading dimensions it does not have count as 1. Batches of any rank are
// one number, split along the tensor's own dimensions.
class Heads {
 public:
  explicit Heads(const Tensor& tensor) : window_(window_of(tensor)), rank_(tensor.dim()) {}

  int64_t size(int64_t from_end) const { return from_end < rank_ ? window_.sizes[rank_ - 1 - from_end] : 1; }
  /// Product of the dimensions in front of the last three.
  int64_t batches() const {
    int64_t count = 1;
    for (int64_t d = 0; d + 3 < rank_; ++d) {
      count *= window_.sizes[d];
    }
    return count;
  }
  /// Address of an element, broadcasting dimensions of size 1. `sizes`: the batch dimensions that `batch` counts through.
  const char* at(int64_t batch, const Heads& like, int64_t head, int64_t row, int64_t column) const {
    int64_t offset = step(2, head) + step(1, row) + step(0, column);
    for (int64_t i = 3; i < like.rank_; ++i) {
      offset += step(i, batch % like.size(i));
      batch /= like.size(i);
    }
    return window_.data + offset * static_cast<int64_t>(window_.element_size());
  }
  char* at(int64_t batch, int64_t head, int64_t row, int64_t column) const {
    return const_cast<char*>(at(batch, *this, head, row, column));
  }
  ScalarType dtype() const { return window_.dtype; }
  int64_t rank() const { return rank_; }

 private:
  int64_t step(int64_t from_end, int64_t index) const {
    return from_end < rank_ && size(from_end) != 1 ? index * window_.strides[rank_ - 1 - from_end] : 0;
  }

  Window window_;
  int64_t rank_;
};

bool broadcasts_to(const Heads& mask, const Heads& query, int64_t keys) {
  if (mask.rank() > (query.rank() < 2 ? 2 : query.rank())) {
    return false;
  }
  for (int64_t i = 0; i < mask.rank(); ++i) {
    const int64_t want = i == 0 ? keys : query.size(i);
    if (mask.size(i) != 1 && mask.size(i) != want) {
      return false;
    }
  }
  return true;
}

struct Attention {
  Heads query, key, value, out;
  std::optional<Heads> mask;
  bool causal;
  double scale;
};

// One row of the output. scores: [keys] scratch.
template <typename C>
void attend_row(const Attention& a, int64_t batch, int64_t head, int64_t row, C* scores) {
  const int64_t keys = a.key.size(1);
  const int64_t depth = a.query.size(0);
  const int64_t key_head = a.key.size(2) == 0 ? 0 : head / (a.query.size(2) / a.key.size(2));
  const C lowest = -std::numeric_limits<C>::infinity();
  C largest = lowest;
  for (int64_t j = 0; j < keys; ++j) {
    C sum = 0;
    for (int64_t e = 0; e < depth; ++e) {
      sum += load_one<C>(a.query.dtype(), a.query.at(batch, a.query, head, row, e)) *
             load_one<C>(a.key.dtype(), a.key.at(batch, a.query, key_head, j, e));
    }
    sum *= static_cast<C>(a.scale);
    if (a.mask.has_value()) {
      const char* const address = a.mask->at(batch, a.query, head, row, j);
      if (a.mask->dtype() == ScalarType::Bool) {
        sum = *reinterpret_cast<const bool*>(address) ? sum : lowest;
      } else {
        sum += load_one<C>(a.mask->dtype(), address);
      }
    }
    scores[j] = a.causal && j > row ? lowest : sum;
    largest = scores[j] > largest || scores[j] != scores[j] ? scores[j] : largest;
  }
  C total = 0;
  for (int64_t j = 0; j < keys; ++j) {
    scores[j] = largest == lowest ? C(0) : std::exp(scores[j] - largest);
    total += scores[j];
  }
  for (int64_t c = 0; c < a.value.size(0); ++c) {
    C sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      sum += scores[j] * load_one<C>(a.value.dtype(), a.value.at(batch, a.query, key_head, j, c));
    }
    store_one(a.out.dtype(), total == 0 ? C(0) : sum / total, a.out.at(batch, head, row, c));
  }
}

}  // namespace

Error scaled_dot_product_attention_out(KernelContext& context, const Tensor& query, const Tensor& key, const Tensor& value,
                                       const OptionalTensor& attn_mask, double dropout_p, bool is_causal,
                                       std::optional<double> scale, bool enable_gqa, Tensor& out) {
  ET_CHECK_OR_RETURN(dropout_p == 0.0, NotSupported, "%s: dropout is for training; export the model in eval mode", kOp);
  ET_RETURN_IF_ERROR(check_rank(kOp, "query", query, 2, kMaxRank));
  ET_RETURN_IF_ERROR(check_rank(kOp, "key", key, query.dim(), query.dim()));
  ET_RETURN_IF_ERROR(check_rank(kOp, "value", value, query.dim(), query.dim()));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "key", key, query));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "value", value, query));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, query));
  Sizes sizes(query.sizes());
  sizes[query.dim() - 1] = value.size(-1);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  Attention a{Heads(query), Heads(key), Heads(value), Heads(out), std::nullopt, is_causal, 0};
  bool fits = a.key.size(0) == a.query.size(0) && a.value.size(1) == a.key.size(1) && a.value.size(2) == a.key.size(2) &&
              (a.key.size(2) == a.query.size(2) || (enable_gqa && a.key.size(2) > 0 && a.query.size(2) % a.key.size(2) == 0));
  for (int64_t i = 3; i < query.dim(); ++i) {
    fits = fits && a.key.size(i) == a.query.size(i) && a.value.size(i) == a.query.size(i);
  }
  ET_CHECK_OR_RETURN(fits, InvalidArgument, "%s: query %s, key %s and value %s do not fit together", kOp,
                     ShapeText(query.sizes()).text, ShapeText(key.sizes()).text, ShapeText(value.sizes()).text);
  if (attn_mask.has_value()) {
    a.mask.emplace(*attn_mask);
    ET_CHECK_OR_RETURN(broadcasts_to(*a.mask, a.query, a.key.size(1)), InvalidArgument,
                       "%s: attn_mask %s does not broadcast to the scores of query %s and key %s", kOp,
                       ShapeText(attn_mask->sizes()).text, ShapeText(query.sizes()).text, ShapeText(key.sizes()).text);
  }
  a.scale = scale.has_value() ? *scale : 1.0 / std::sqrt(static_cast<double>(a.query.size(0)));
  return dispatch<FloatTypes>(query.scalar_type(), kOp, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
    auto scratch = context.allocate_temp(static_cast<size_t>(a.key.size(1)) * sizeof(C));
    if (!scratch.ok()) {
      return scratch.error();
    }
    for (int64_t batch = 0; batch < a.query.batches(); ++batch) {
      for (int64_t head = 0; head < a.query.size(2); ++head) {
        for (int64_t row = 0; row < a.query.size(1); ++row) {
          attend_row(a, batch, head, row, static_cast<C*>(scratch.get()));
        }
      }
    }
    return Error::Ok;
  });
}

}  // namespace et::kernels::portable
