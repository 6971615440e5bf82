// Distinct elements of a tensor seen as one row, and distinct slices along a dimension: sorted (_unique2, unique_dim)
// or of runs (unique_consecutive).
#include "kernels/portable/op_unique.h"

#include <cstring>

#include "kernels/portable/convert.h"
#include "kernels/portable/shape.h"
#include "kernels/portable/sort_items.h"

namespace et::kernels::portable {
namespace {

Error check_outputs(const char* op, const Tensor& self, const Tensor& values, const Tensor& inverse,
                    const Tensor& counts) {
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out0", values, self));
  for (const Tensor* tensor : {&inverse, &counts}) {
    ET_CHECK_OR_RETURN(tensor->scalar_type() == ScalarType::Long, InvalidType,
                       "%s: an index output is %s, must be torch.int64", op, to_string(tensor->scalar_type()));
  }
  return check_row_major(op, {&self});
}

// Every NaN is distinct, as in ATen.
Error unique(KernelContext& context, const char* op, const Tensor& self, bool sorted, bool return_inverse,
             bool return_counts, Tensor& values, Tensor& inverse, Tensor& counts) {
  ET_RETURN_IF_ERROR(check_outputs(op, self, values, inverse, counts));
  const int64_t n = self.numel();
  const ScalarType dtype = self.scalar_type();
  return dispatch_compute(dtype, [&](auto zero) {
    using C = decltype(zero);
    const auto nbytes = static_cast<size_t>(n) * sizeof(Item<C>);
    ET_TRY(void* memory, context.allocate_temp(nbytes));
    ET_TRY(void* scratch, context.allocate_temp(nbytes));
    auto* items = static_cast<Item<C>*>(memory);
    for (int64_t i = 0; i < n; ++i) {
      items[i] = {load_one<C>(dtype, self.const_data_ptr(), i), i};
    }
    ET_CHECK_OR_RETURN(!sorted || sort_items(context, items, static_cast<Item<C>*>(scratch), n), Cancelled,
                       "%s: cancelled", op);
    int64_t groups = 0;
    for (int64_t i = 0; i < n; ++i) {
      groups += i == 0 || items[i].value != items[i - 1].value ? 1 : 0;
    }
    ET_RETURN_IF_ERROR(resize_tensor(context, values, {groups}));
    if (return_inverse) {
      ET_RETURN_IF_ERROR(resize_tensor(context, inverse, self.sizes()));
      ET_RETURN_IF_ERROR(check_row_major(op, {&inverse}));
    } else {
      ET_RETURN_IF_ERROR(resize_tensor(context, inverse, {0}));
    }
    ET_RETURN_IF_ERROR(resize_tensor(context, counts, {return_counts ? groups : 0}));
    int64_t group = -1;
    for (int64_t i = 0; i < n; ++i) {
      if (i == 0 || items[i].value != items[i - 1].value) {
        store_one(dtype, items[i].value, values.mutable_data_ptr(), ++group);
        if (return_counts) {
          static_cast<int64_t*>(counts.mutable_data_ptr())[group] = 0;
        }
      }
      if (return_counts) {
        static_cast<int64_t*>(counts.mutable_data_ptr())[group] += 1;
      }
      if (return_inverse) {
        static_cast<int64_t*>(inverse.mutable_data_ptr())[items[i].index] = group;
      }
    }
    return Error::Ok;
  });
}

// Distinct slices along `dim`, in the order of their elements or as runs. A slice with NaN is distinct from all, as in
// ATen. The inverse and the counts are always there, also as in ATen.
Error unique_slices(KernelContext& context, const char* op, const Tensor& self, int64_t dim, bool sorted,
                    Tensor& values, Tensor& inverse, Tensor& counts) {
  ET_RETURN_IF_ERROR(check_outputs(op, self, values, inverse, counts));
  ET_RETURN_IF_ERROR(check_rank(op, "self", self, 1, kMaxRank));
  ET_RETURN_IF_ERROR(normalize_dim(op, dim, self.dim(), &dim));
  const int64_t n = self.size(dim);
  const int64_t outer = product(self.sizes(), 0, static_cast<size_t>(dim));
  const int64_t inner = product(self.sizes(), static_cast<size_t>(dim) + 1, static_cast<size_t>(self.dim()));
  const int64_t length = outer * inner;
  ET_CHECK_OR_RETURN(length > 0 || n == 0, InvalidArgument, "%s: the slices of %s along dim %" PRId64 " are empty", op,
                     ShapeText(self.sizes()).text, dim);
  const ScalarType dtype = self.scalar_type();
  const auto size = static_cast<int64_t>(self.element_size());
  const auto* const data = static_cast<const char*>(self.const_data_ptr());
  return dispatch_compute(dtype, [&](auto zero) {
    using C = decltype(zero);
    ET_TRY(void* elements_memory, context.allocate_temp(static_cast<size_t>(n * length) * sizeof(C)));
    ET_TRY(void* order_memory, context.allocate_temp(static_cast<size_t>(n) * sizeof(int64_t)));
    ET_TRY(void* scratch, context.allocate_temp(static_cast<size_t>(n) * sizeof(int64_t)));
    C* const elements = static_cast<C*>(elements_memory);  // [n, outer, inner]
    auto* const order = static_cast<int64_t*>(order_memory);
    for (int64_t i = 0; i < n; ++i) {
      order[i] = i;
      for (int64_t o = 0; o < outer; ++o) {
        load(dtype, data + (o * n + i) * inner * size, 1, inner, elements + i * length + o * inner);
      }
    }
    // The first element that differs; `length` when none does.
    const auto difference = [&](int64_t a, int64_t b, const auto& differ) {
      int64_t k = 0;
      while (k < length && !differ(elements[a * length + k], elements[b * length + k])) {
        ++k;
      }
      return k;
    };
    const auto before = [&](int64_t a, int64_t b) {
      const int64_t k = difference(a, b, [](C x, C y) { return x < y || y < x; });
      return k < length && elements[a * length + k] < elements[b * length + k];
    };
    ET_CHECK_OR_RETURN(!sorted || merge_sort(context, order, static_cast<int64_t*>(scratch), n, before), Cancelled,
                       "%s: cancelled", op);
    const auto begins = [&](int64_t i) {
      return i == 0 || difference(order[i], order[i - 1], [](C x, C y) { return x != y; }) < length;
    };
    int64_t groups = 0;
    for (int64_t i = 0; i < n; ++i) {
      groups += begins(i) ? 1 : 0;
    }
    Sizes sizes(self.sizes());
    sizes[dim] = groups;
    ET_RETURN_IF_ERROR(resize_tensor(context, values, sizes));
    ET_RETURN_IF_ERROR(resize_tensor(context, inverse, {n}));
    ET_RETURN_IF_ERROR(resize_tensor(context, counts, {groups}));
    ET_RETURN_IF_ERROR(check_row_major(op, {&values}));
    auto* const to = static_cast<char*>(values.mutable_data_ptr());
    auto* const places = static_cast<int64_t*>(inverse.mutable_data_ptr());
    auto* const numbers = static_cast<int64_t*>(counts.mutable_data_ptr());
    int64_t group = -1;
    for (int64_t i = 0; i < n; ++i) {
      if (begins(i)) {
        numbers[++group] = 0;
        for (int64_t o = 0; o < outer; ++o) {
          std::memcpy(to + (o * groups + group) * inner * size, data + (o * n + order[i]) * inner * size,
                      static_cast<size_t>(inner * size));
        }
      }
      numbers[group] += 1;
      places[order[i]] = group;
    }
    return Error::Ok;
  });
}

}  // namespace

Error unique2_out(KernelContext& context, const Tensor& self, bool, bool return_inverse, bool return_counts,
                  Tensor& out0, Tensor& out1, Tensor& out2) {
  return unique(context, "aten::_unique2", self, true, return_inverse, return_counts, out0, out1, out2);
}

Error unique_consecutive_out(KernelContext& context, const Tensor& self, bool return_inverse, bool return_counts,
                             std::optional<int64_t> dim, Tensor& out0, Tensor& out1, Tensor& out2) {
  constexpr const char* kOp = "aten::unique_consecutive";
  if (dim.has_value()) {
    return unique_slices(context, kOp, self, *dim, false, out0, out1, out2);
  }
  return unique(context, kOp, self, false, return_inverse, return_counts, out0, out1, out2);
}

Error unique_dim_out(KernelContext& context, const Tensor& self, int64_t dim, bool, bool, bool, Tensor& out0,
                     Tensor& out1, Tensor& out2) {
  return unique_slices(context, "aten::unique_dim", self, dim, true, out0, out1, out2);
}

}  // namespace et::kernels::portable
