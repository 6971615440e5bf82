// Binary search in sorted sequences.
#include "kernels/portable/op_search.h"

#include "kernels/portable/convert.h"
#include "kernels/portable/promote.h"
#include "kernels/portable/search_plan.h"

namespace et::kernels::portable {
namespace {

// How many elements of the sorted run are < value (or <= value when `right`).
template <typename C>
int64_t position_of(const Tensor& sorted, int64_t start, const Tensor* sorter, int64_t n, C value, bool right) {
  int64_t low = 0;
  int64_t high = n;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const int64_t at = start + (sorter != nullptr ? index_at(*sorter, start + middle) : middle);
    const C x = load_one<C>(sorted.scalar_type(), sorted.const_data_ptr(), at);
    const bool before = right ? !(x > value) : !(x >= value);
    if (before) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

Error search(KernelContext& context, const char* op, const Tensor& sorted, const Tensor& values, const Tensor* sorter,
             bool out_int32, bool right, Tensor& out) {
  ET_TRY(const SearchPlan plan, plan_search(context, op, sorted, values, out_int32, out));
  const int64_t n = plan.length;
  if (sorter != nullptr) {
    ET_CHECK_OR_RETURN(equal(sorter->sizes(), sorted.sizes()), InvalidArgument,
                       "%s: sorter %s is not the sequence's shape", op, ShapeText(sorter->sizes()).text);
    for (int64_t i = 0; i < sorter->numel(); ++i) {
      const int64_t index = index_at(*sorter, i);
      ET_CHECK_OR_RETURN(index >= 0 && index < n, InvalidArgument,
                         "%s: sorter index %" PRId64 " at position %" PRId64 " is out of range", op, index, i);
    }
  }
  const ScalarType common = result_type({&sorted, &values});
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    for (int64_t i = 0; i < values.numel(); ++i) {
      const C value = load_one<C>(values.scalar_type(), values.const_data_ptr(), i);
      const int64_t start = i / plan.values * n;
      store_one<int64_t>(out.scalar_type(), position_of(sorted, start, sorter, n, value, right), out.mutable_data_ptr(),
                         i);
    }
    return Error::Ok;
  });
}

}  // namespace

Error bucketize_tensor_out(KernelContext& context, const Tensor& self, const Tensor& boundaries, bool out_int32,
                           bool right, Tensor& out) {
  ET_RETURN_IF_ERROR(check_rank("aten::bucketize", "boundaries", boundaries, 1, 1));
  return search(context, "aten::bucketize", boundaries, self, nullptr, out_int32, right, out);
}

Error searchsorted_tensor_out(KernelContext& context, const Tensor& sorted_sequence, const Tensor& self, bool out_int32,
                              bool right, std::optional<std::string_view> side, const OptionalTensor& sorter,
                              Tensor& out) {
  const bool from_right = right || (side.has_value() && *side == "right");
  return search(context, "aten::searchsorted", sorted_sequence, self, sorter.has_value() ? &*sorter : nullptr,
                out_int32, from_right, out);
}

}  // namespace et::kernels::portable
