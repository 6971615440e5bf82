// Distinct elements of a tensor seen as one row: sorted (_unique2) or of runs (unique_consecutive without dim).
#include "kernels/portable/op_unique.h"

#include "kernels/portable/convert.h"
#include "kernels/portable/shape.h"
#include "kernels/portable/sort_items.h"

namespace et::kernels::portable {
namespace {

// Every NaN is distinct, as in ATen.
Error unique(KernelContext& context, const char* op, const Tensor& self, bool sorted, bool return_inverse,
             bool return_counts, Tensor& values, Tensor& inverse, Tensor& counts) {
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out0", values, self));
  for (const Tensor* tensor : {&inverse, &counts}) {
    ET_CHECK_OR_RETURN(tensor->scalar_type() == ScalarType::Long, InvalidType, "%s: an index output is %s, must be i64",
                       op, to_string(tensor->scalar_type()));
  }
  ET_RETURN_IF_ERROR(check_row_major(op, {&self}));
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
    if (sorted) {
      sort_items(items, static_cast<Item<C>*>(scratch), n);
    }
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

}  // namespace

Error unique2_out(KernelContext& context, const Tensor& self, bool, bool return_inverse, bool return_counts,
                  Tensor& out0, Tensor& out1, Tensor& out2) {
  return unique(context, "aten::_unique2", self, true, return_inverse, return_counts, out0, out1, out2);
}

Error unique_consecutive_out(KernelContext& context, const Tensor& self, bool return_inverse, bool return_counts,
                             std::optional<int64_t> dim, Tensor& out0, Tensor& out1, Tensor& out2) {
  constexpr const char* kOp = "aten::unique_consecutive";
  ET_CHECK_OR_RETURN(!dim.has_value() || self.dim() == 1, NotSupported,
                     "%s: dim is supported for one-dimensional tensors only, self has shape %s", kOp,
                     ShapeText(self.sizes()).text);
  return unique(context, kOp, self, false, return_inverse, return_counts, out0, out1, out2);
}

}  // namespace et::kernels::portable
