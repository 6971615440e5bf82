// Sorting along one dimension: sort, topk, kthvalue, median, mode. NaN counts as the largest value.
#include "kernels/portable/op_sort.h"

#include <limits>

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/loop_nest.h"
#include "kernels/portable/sort_items.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::portable {
namespace {

// Sorts each lane along `dim` and calls f(sorted items, lane number) to write what is wanted; lanes come in row-major
// order of the other dimensions.
template <typename F>
Error for_each_sorted(KernelContext& context, const Tensor& self, int64_t dim, bool descending, F&& f) {
  const bool scalar = self.dim() == 0;
  const Window from = scalar ? window_of(self) : select_of(self, dim, 0);
  const int64_t length = scalar ? 1 : self.size(dim);
  const int64_t stride = scalar ? 1 : self.stride(dim);
  LoopNest lanes(from.sizes);
  lanes.add(from.data, from.strides, self.element_size());
  lanes.merge();
  const ScalarType dtype = self.scalar_type();
  return dispatch_compute(dtype, [&](auto zero) {
    using C = decltype(zero);
    const auto nbytes = static_cast<size_t>(length) * sizeof(Item<C>);
    ET_TRY(void* memory, context.allocate_temp(nbytes));
    ET_TRY(void* scratch, context.allocate_temp(nbytes));
    auto* items = static_cast<Item<C>*>(memory);
    int64_t lane = 0;
    lanes.for_each_run([&](char* const* pointers, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t k = 0; k < length; ++k) {
          items[k] = {load_one<C>(dtype, pointers[0] + i * lanes.run_stride(0), k * stride), k};
        }
        if (sort_items(context, items, static_cast<Item<C>*>(scratch), length, descending)) {
          f(static_cast<const Item<C>*>(items), lane);
        }
        ++lane;
      }
    });
    return Error::Ok;
  });
}

// The address of the first element of lane number `lane` of `tensor` along `dim`.
char* lane_address(const Tensor& tensor, int64_t dim, int64_t lane) {
  int64_t offset = 0;
  for (int64_t d = tensor.dim() - 1; d >= 0; --d) {
    if (d != dim) {
      offset += lane % tensor.size(d) * tensor.stride(d);
      lane /= tensor.size(d);
    }
  }
  return static_cast<char*>(tensor.mutable_data_ptr()) + offset * static_cast<int64_t>(tensor.element_size());
}

// Writes the first `count` sorted elements of each lane.
Error write_sorted(KernelContext& context, const char* op, const Tensor& self, int64_t dim, int64_t count,
                   bool descending, Tensor& values, Tensor& indices) {
  Sizes sizes(self.sizes());
  if (self.dim() > 0) {
    sizes[dim] = count;
  }
  ET_RETURN_IF_ERROR(resize_selection(context, op, self, sizes, values, indices));
  if (sizes.numel() == 0) {
    return Error::Ok;
  }
  const int64_t value_stride = self.dim() == 0 ? 1 : values.stride(dim);
  const int64_t index_stride = self.dim() == 0 ? 1 : indices.stride(dim);
  return for_each_sorted(context, self, dim, descending, [&](const auto* items, int64_t lane) {
    char* value = lane_address(values, dim, lane);
    auto* index = reinterpret_cast<int64_t*>(lane_address(indices, dim, lane));
    for (int64_t i = 0; i < count; ++i) {
      store_one(values.scalar_type(), items[i].value, value, i * value_stride);
      index[i * index_stride] = items[i].index;
    }
  });
}

// Writes sorted element number `rank_of(items)` of each lane.
template <typename RankOf>
Error write_one(KernelContext& context, const char* op, const Tensor& self, int64_t dim, bool keepdim,
                const RankOf& rank_of, Tensor& values, Tensor& indices) {
  Sizes sizes(self.sizes());
  if (self.dim() > 0) {
    if (keepdim) {
      sizes[dim] = 1;
    } else {
      sizes.erase(static_cast<size_t>(dim));
    }
  }
  ET_CHECK_OR_RETURN(self.numel() > 0 || sizes.numel() == 0, InvalidArgument, "%s: dim %" PRId64 " is empty", op, dim);
  ET_RETURN_IF_ERROR(resize_selection(context, op, self, sizes, values, indices));
  if (sizes.numel() == 0) {
    return Error::Ok;
  }
  const int64_t skip = keepdim ? dim : -1;
  return for_each_sorted(context, self, dim, false, [&](const auto* items, int64_t lane) {
    const auto& item = items[rank_of(items)];
    store_one(values.scalar_type(), item.value, lane_address(values, skip, lane));
    *reinterpret_cast<int64_t*>(lane_address(indices, skip, lane)) = item.index;
  });
}

// The lower median; the first NaN when there is one (NaN sorts last, stably), unless NaN is passed over.
template <typename C>
int64_t median_rank(const Item<C>* items, int64_t n, bool ignores_nan) {
  int64_t numbers = n;
  while (numbers > 0 && is_nan(items[numbers - 1].value)) {
    --numbers;
  }
  if (numbers < n && !ignores_nan) {
    return numbers;
  }
  return numbers == 0 ? 0 : (numbers - 1) / 2;
}

// The last of the most frequent elements, of several such the smallest.
template <typename C>
int64_t mode_rank(const Item<C>* items, int64_t n) {
  int64_t best = 0;
  int64_t most = 0;
  for (int64_t start = 0, end = 0; start < n; start = end) {
    for (end = start + 1; end < n && !sorts_before(items[start].value, items[end].value);) {
      ++end;
    }
    if (end - start > most) {
      most = end - start;
      best = end - 1;
    }
  }
  return best;
}

Error median_along(KernelContext& context, const char* op, const Tensor& self, int64_t dim, bool keepdim,
                   bool ignores_nan, Tensor& values, Tensor& indices) {
  ET_RETURN_IF_ERROR(normalize_dim(op, dim, self.dim(), &dim));
  const int64_t length = self.dim() == 0 ? 1 : self.size(dim);
  return write_one(
      context, op, self, dim, keepdim, [=](const auto* items) { return median_rank(items, length, ignores_nan); },
      values, indices);
}

Error median_of_all(KernelContext& context, const char* op, const Tensor& self, bool ignores_nan, Tensor& out) {
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {}));
  const int64_t n = self.numel();
  const ScalarType dtype = self.scalar_type();
  return dispatch_compute(dtype, [&](auto zero) {
    using C = decltype(zero);
    if (n == 0) {
      store_one(dtype, std::is_integral_v<C> ? std::numeric_limits<C>::min() : static_cast<C>(NAN),
                out.mutable_data_ptr());
      return Error::Ok;
    }
    const auto nbytes = static_cast<size_t>(n) * sizeof(Item<C>);
    ET_TRY(void* memory, context.allocate_temp(nbytes));
    ET_TRY(void* scratch, context.allocate_temp(nbytes));
    auto* items = static_cast<Item<C>*>(memory);
    for (int64_t i = 0; i < n; ++i) {  // dense: memory order will do
      items[i] = {load_one<C>(dtype, self.const_data_ptr(), i), i};
    }
    ET_CHECK_OR_RETURN(sort_items(context, items, static_cast<Item<C>*>(scratch), n), Cancelled, "median: cancelled");
    store_one(dtype, items[median_rank(items, n, ignores_nan)].value, out.mutable_data_ptr());
    return Error::Ok;
  });
}

}  // namespace

Error sort_values(KernelContext& context, const Tensor& self, int64_t dim, bool descending, Tensor& values,
                  Tensor& indices) {
  ET_RETURN_IF_ERROR(normalize_dim("aten::sort", dim, self.dim(), &dim));
  const int64_t length = self.dim() == 0 ? 1 : self.size(dim);
  return write_sorted(context, "aten::sort", self, dim, length, descending, values, indices);
}

Error sort_values_stable(KernelContext& context, const Tensor& self, std::optional<bool>, int64_t dim, bool descending,
                         Tensor& values, Tensor& indices) {
  return sort_values(context, self, dim, descending, values, indices);
}

Error topk_values(KernelContext& context, const Tensor& self, int64_t k, int64_t dim, bool largest, bool,
                  Tensor& values, Tensor& indices) {
  ET_RETURN_IF_ERROR(normalize_dim("aten::topk", dim, self.dim(), &dim));
  const int64_t length = self.dim() == 0 ? 1 : self.size(dim);
  ET_CHECK_OR_RETURN(k >= 0 && k <= length, InvalidArgument,
                     "aten::topk: k is %" PRId64 ", dim %" PRId64 " has %" PRId64 " elements", k, dim, length);
  return write_sorted(context, "aten::topk", self, dim, k, largest, values, indices);
}

Error kthvalue_values(KernelContext& context, const Tensor& self, int64_t k, int64_t dim, bool keepdim, Tensor& values,
                      Tensor& indices) {
  ET_RETURN_IF_ERROR(normalize_dim("aten::kthvalue", dim, self.dim(), &dim));
  const int64_t length = self.dim() == 0 ? 1 : self.size(dim);
  ET_CHECK_OR_RETURN(k >= 1 && k <= length, InvalidArgument,
                     "aten::kthvalue: k is %" PRId64 ", dim %" PRId64 " has %" PRId64 " elements", k, dim, length);
  return write_one(context, "aten::kthvalue", self, dim, keepdim, [k](const auto*) { return k - 1; }, values, indices);
}

Error median_dim_values(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, Tensor& values,
                        Tensor& indices) {
  return median_along(context, "aten::median", self, dim, keepdim, false, values, indices);
}

Error nanmedian_dim_values(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, Tensor& values,
                           Tensor& indices) {
  return median_along(context, "aten::nanmedian", self, dim, keepdim, true, values, indices);
}

Error median_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return median_of_all(context, "aten::median", self, false, out);
}

Error nanmedian_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return median_of_all(context, "aten::nanmedian", self, true, out);
}

Error mode_values(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, Tensor& values,
                  Tensor& indices) {
  ET_RETURN_IF_ERROR(normalize_dim("aten::mode", dim, self.dim(), &dim));
  const int64_t length = self.dim() == 0 ? 1 : self.size(dim);
  return write_one(
      context, "aten::mode", self, dim, keepdim, [length](const auto* items) { return mode_rank(items, length); },
      values, indices);
}

}  // namespace et::kernels::portable
