// Operators that address elements with tensors of indices: embedding, index, index_put, index_select and their like.
// Every index is checked before the first write.
#include "kernels/portable/op_index.h"

#include <cstring>

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/index_checks.h"
#include "kernels/portable/loop_nest.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::portable {
namespace {

// A tensor of positions along one dimension of self.
struct Positions {
  const void* data = nullptr;  // nullptr: the whole dimension
  ScalarType dtype = ScalarType::Long;
  Sizes sizes;
  Sizes strides;

  int64_t at(int64_t i) const {
    return dtype == ScalarType::Long ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
  }
};

// Advanced indexing, worked out: which dimensions have positions, where their common broadcast shape goes.
struct Plan {
  Positions index[kMaxRank];  // by dimension of self
  Sizes index_sizes;          // the broadcast shape of the positions
  Sizes sizes;                // of self[indices]
  size_t position = 0;        // where index_sizes begins in `sizes`
};

// A mask over dimensions [dim, dim + rank) of self stands for the positions of its true elements, dimension by dimension.
Error expand_mask(KernelContext& context, const char* op, const Tensor& self, const Tensor& mask, int64_t dim,
                  Plan* plan) {
  bool fits = mask.dim() > 0 && dim + mask.dim() <= self.dim();
  for (int64_t k = 0; fits && k < mask.dim(); ++k) {
    fits = mask.size(k) == self.size(dim + k);
  }
  ET_CHECK_OR_RETURN(fits, InvalidArgument, "%s: mask %s does not fit self %s at dim %" PRId64, op,
                     ShapeText(mask.sizes()).text, ShapeText(self.sizes()).text, dim);
  ET_RETURN_IF_ERROR(check_row_major(op, {&mask}));
  const auto* bytes = static_cast<const uint8_t*>(mask.const_data_ptr());
  int64_t count = 0;
  for (int64_t i = 0; i < mask.numel(); ++i) {
    count += bytes[i] != 0 ? 1 : 0;
  }
  for (int64_t k = 0; k < mask.dim(); ++k) {
    ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(count) * sizeof(int64_t)));
    auto* positions = static_cast<int64_t*>(memory);
    const int64_t inner = product(mask.sizes(), static_cast<size_t>(k) + 1, static_cast<size_t>(mask.dim()));
    int64_t found = 0;
    for (int64_t i = 0; i < mask.numel(); ++i) {
      if (bytes[i] != 0) {
        positions[found++] = i / inner % mask.size(k);
      }
    }
    Positions& index = plan->index[dim + k];
    index.data = positions;
    index.sizes = Sizes(IntArrayRef({count}));
    index.strides = Sizes(IntArrayRef({int64_t{1}}));
  }
  return Error::Ok;
}

Error plan_indices(KernelContext& context, const char* op, const Tensor& self, OptionalTensorList indices, Plan* plan) {
  int64_t dim = 0;
  for (const OptionalTensor& item : indices) {
    const bool is_mask =
        item.has_value() && (item->scalar_type() == ScalarType::Bool || item->scalar_type() == ScalarType::Byte);
    ET_CHECK_OR_RETURN(dim < self.dim(), InvalidArgument, "%s: %zu indices for a tensor of shape %s", op,
                       indices.size(), ShapeText(self.sizes()).text);
    if (is_mask) {
      ET_RETURN_IF_ERROR(expand_mask(context, op, self, *item, dim, plan));
    } else if (item.has_value()) {
      if (self.size(dim) > 0 || item->numel() > 0) {
        ET_RETURN_IF_ERROR(check_indices(op, *item, self.size(dim), -self.size(dim)));
      }
      plan->index[dim] = {item->const_data_ptr(), item->scalar_type(), Sizes(item->sizes()), Sizes(item->strides())};
      if (item->numel() == 0 && plan->index[dim].data == nullptr) {
        plan->index[dim].data = plan;  // never read; says that the dimension is indexed
      }
    }
    dim += is_mask ? item->dim() : 1;
  }
  int64_t first = -1;
  int64_t last = -1;
  int64_t count = 0;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (plan->index[d].data == nullptr) {
      plan->sizes.push_back(self.size(d));
      continue;
    }
    ET_RETURN_IF_ERROR(broadcast_sizes(op, plan->index_sizes, plan->index[d].sizes, &plan->index_sizes));
    first = first < 0 ? d : first;
    last = d;
    ++count;
  }
  plan->position = count > 0 && count == last - first + 1 ? static_cast<size_t>(first) : 0;
  ET_CHECK_OR_RETURN(plan->sizes.size() + plan->index_sizes.size() <= kMaxRank, NotSupported,
                     "%s: more than %zu dimensions", op, kMaxRank);
  for (size_t i = 0; i < plan->index_sizes.size(); ++i) {
    plan->sizes.insert(plan->position + i, plan->index_sizes[static_cast<int64_t>(i)]);
  }
  return Error::Ok;
}

// Calls f(offset in self, in bytes; linear position) for each indexed element: once for every combination of index
// position and position in the whole dimensions, in the row-major order of plan.sizes.
template <typename F>
void for_each_indexed(const Plan& plan, const Tensor& self, F&& f) {
  if (plan.sizes.numel() == 0) {
    return;
  }
  const int64_t size = static_cast<int64_t>(self.element_size());
  Sizes whole_strides;  // stride in self of each dimension of plan.sizes; 0 for those of the indices
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (plan.index[d].data == nullptr) {
      whole_strides.push_back(self.stride(d) * size);
    }
  }
  const size_t index_rank = plan.index_sizes.size();
  for (size_t i = 0; i < index_rank; ++i) {
    whole_strides.insert(plan.position, 0);
  }
  const int64_t rank = static_cast<int64_t>(plan.sizes.size());
  int64_t at[kMaxRank] = {};
  int64_t position = 0;
  for (;;) {
    int64_t offset = 0;
    for (int64_t d = 0; d < rank; ++d) {
      offset += at[d] * whole_strides[d];
    }
    for (int64_t d = 0; d < self.dim(); ++d) {
      const Positions& index = plan.index[d];
      if (index.data == nullptr) {
        continue;
      }
      int64_t place = 0;
      const int64_t rank_of_index = static_cast<int64_t>(index.sizes.size());
      const int64_t lead = static_cast<int64_t>(plan.position + index_rank) - rank_of_index;
      for (int64_t k = 0; k < rank_of_index; ++k) {
        place += index.sizes[k] == 1 ? 0 : at[lead + k] * index.strides[k];
      }
      const int64_t value = index.at(place);
      offset += (value < 0 ? value + self.size(d) : value) * self.stride(d) * size;
    }
    f(offset, position++);
    int64_t d = rank - 1;
    for (; d >= 0 && ++at[d] == plan.sizes[d]; --d) {
      at[d] = 0;
    }
    if (d < 0) {
      return;
    }
  }
}

Error index_put(KernelContext& context, const char* op, const Tensor& self, OptionalTensorList indices,
                const Tensor& values, bool accumulate, const Tensor& out) {
  Plan plan;
  ET_RETURN_IF_ERROR(plan_indices(context, op, self, indices, &plan));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "values", values, self));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  Sizes sizes;
  ET_RETURN_IF_ERROR(broadcast_sizes(op, plan.sizes, values.sizes(), &sizes));
  ET_CHECK_OR_RETURN(equal(IntArrayRef(sizes), IntArrayRef(plan.sizes)), InvalidArgument,
                     "%s: values %s do not broadcast to the indexed shape %s", op, ShapeText(values.sizes()).text,
                     ShapeText(plan.sizes).text);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  ET_RETURN_IF_ERROR(copy_window(window_of(self), window_of(out)));
  const Sizes logical = contiguous_strides(plan.sizes);
  const ScalarType dtype = self.scalar_type();
  const size_t size = self.element_size();
  char* base = static_cast<char*>(out.mutable_data_ptr());
  const char* source = static_cast<const char*>(values.const_data_ptr());
  const int64_t lead = static_cast<int64_t>(plan.sizes.size()) - values.dim();
  const auto value_offset = [&](int64_t position) {
    int64_t offset = 0;
    for (int64_t d = 0; d < values.dim(); ++d) {
      const int64_t i = position / logical[lead + d] % plan.sizes[lead + d];
      offset += values.size(d) == 1 ? 0 : i * values.stride(d);
    }
    return offset * static_cast<int64_t>(size);
  };
  if (!accumulate) {
    for_each_indexed(plan, out, [&](int64_t offset, int64_t position) {
      std::memcpy(base + offset, source + value_offset(position), size);
    });
    return Error::Ok;
  }
  return dispatch_compute(dtype, [&](auto zero) {
    using C = decltype(zero);
    for_each_indexed(plan, out, [&](int64_t offset, int64_t position) {
      const C sum =
          wrapping_add(load_one<C>(dtype, base + offset), load_one<C>(dtype, source + value_offset(position)));
      store_one(dtype, sum, base + offset);
    });
    return Error::Ok;
  });
}

// What index_select, index_add, index_fill and index_copy share: a vector of positions along `dim`.
Error plan_positions(const char* op, const Tensor& self, int64_t* dim, const Tensor& index) {
  ET_RETURN_IF_ERROR(normalize_dim(op, *dim, self.dim(), dim));
  ET_RETURN_IF_ERROR(check_rank(op, "index", index, 0, 1));
  return check_indices(op, index, self.dim() == 0 ? 1 : self.size(*dim), 0);
}

Window slot(const Tensor& tensor, int64_t dim, int64_t index) {
  return tensor.dim() == 0 ? window_of(tensor) : select_of(tensor, dim, index);
}

Error check_slots(const char* op, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  ET_RETURN_IF_ERROR(check_same_dtype(op, "source", source, self));
  bool fits = source.dim() == self.dim();
  for (int64_t d = 0; fits && d < self.dim(); ++d) {
    fits = source.size(d) == (d == dim ? index.numel() : self.size(d));
  }
  ET_CHECK_OR_RETURN(fits || (source.dim() == 0 && self.dim() <= 1), InvalidArgument,
                     "%s: source %s does not go with self %s and %" PRId64 " positions along dim %" PRId64, op,
                     ShapeText(source.sizes()).text, ShapeText(self.sizes()).text, index.numel(), dim);
  return Error::Ok;
}

}  // namespace

Error index_tensor_out(KernelContext& context, const Tensor& self, OptionalTensorList indices, Tensor& out) {
  constexpr const char* kOp = "aten::index";
  Plan plan;
  ET_RETURN_IF_ERROR(plan_indices(context, kOp, self, indices, &plan));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, plan.sizes));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&out}));
  const char* base = static_cast<const char*>(self.const_data_ptr());
  char* target = static_cast<char*>(out.mutable_data_ptr());
  return dispatch_by_size(self.element_size(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_indexed(plan, self, [&](int64_t offset, int64_t position) {
      std::memcpy(target + position * static_cast<int64_t>(sizeof(T)), base + offset, sizeof(T));
    });
    return Error::Ok;
  });
}

Error index_put_out(KernelContext& context, const Tensor& self, OptionalTensorList indices, const Tensor& values,
                    bool accumulate, Tensor& out) {
  return index_put(context, "aten::index_put", self, indices, values, accumulate, out);
}

Error index_put_(KernelContext& context, Tensor& self, OptionalTensorList indices, const Tensor& values,
                 bool accumulate) {
  return index_put(context, "aten::index_put_", self, indices, values, accumulate, self);
}

Error index_select_out(KernelContext& context, const Tensor& self, int64_t dim, const Tensor& index, Tensor& out) {
  constexpr const char* kOp = "aten::index_select";
  ET_RETURN_IF_ERROR(plan_positions(kOp, self, &dim, index));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  Sizes sizes(self.sizes());
  if (self.dim() > 0) {
    sizes[dim] = index.numel();
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  for (int64_t i = 0; i < index.numel(); ++i) {
    ET_RETURN_IF_ERROR(copy_window(slot(self, dim, index_at(index, i)), slot(out, dim, i)));
  }
  return Error::Ok;
}

Error index_copy_out(KernelContext& context, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                     Tensor& out) {
  constexpr const char* kOp = "aten::index_copy";
  ET_RETURN_IF_ERROR(plan_positions(kOp, self, &dim, index));
  ET_RETURN_IF_ERROR(check_slots(kOp, self, dim, index, source));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  ET_RETURN_IF_ERROR(copy_window(window_of(self), window_of(out)));
  for (int64_t i = 0; i < index.numel(); ++i) {
    ET_RETURN_IF_ERROR(copy_window(slot(source, dim, i), slot(out, dim, index_at(index, i))));
  }
  return Error::Ok;
}

Error index_fill_int_scalar_out(KernelContext& context, const Tensor& self, int64_t dim, const Tensor& index,
                                const Scalar& value, Tensor& out) {
  constexpr const char* kOp = "aten::index_fill";
  ET_RETURN_IF_ERROR(normalize_dim(kOp, dim, self.dim(), &dim));
  ET_RETURN_IF_ERROR(check_rank(kOp, "index", index, 0, 1));
  const int64_t size = self.dim() == 0 ? 1 : self.size(dim);
  ET_RETURN_IF_ERROR(check_indices(kOp, index, size, -size));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  ET_RETURN_IF_ERROR(copy_window(window_of(self), window_of(out)));
  alignas(16) char element[16];
  store_scalar(self.scalar_type(), value, element);
  for (int64_t i = 0; i < index.numel(); ++i) {
    const int64_t position = index_at(index, i);
    fill_window(slot(out, dim, position < 0 ? position + size : position), element);
  }
  return Error::Ok;
}

Error index_add_out(KernelContext& context, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                    const Scalar& alpha, Tensor& out) {
  constexpr const char* kOp = "aten::index_add";
  ET_RETURN_IF_ERROR(plan_positions(kOp, self, &dim, index));
  ET_RETURN_IF_ERROR(check_slots(kOp, self, dim, index, source));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  ET_RETURN_IF_ERROR(copy_window(window_of(self), window_of(out)));
  const ScalarType dtype = self.scalar_type();
  return dispatch_compute(dtype, [&](auto zero) {
    using C = decltype(zero);
    const C factor = scalar_to<C>(alpha);
    for (int64_t i = 0; i < index.numel(); ++i) {
      const Window from = slot(source, dim, i);
      const Window to = slot(out, dim, index_at(index, i));
      LoopNest nest(to.sizes);
      nest.add(to.data, to.strides, to.element_size());
      nest.add(from.data, from.strides, from.element_size());
      nest.simplify();
      nest.for_each_run([&](char* const* pointers, int64_t n) {
        for (int64_t k = 0; k < n; ++k) {
          char* target = pointers[0] + k * nest.run_stride(0);
          const C addend = load_one<C>(dtype, pointers[1] + k * nest.run_stride(1));
          store_one(dtype, wrapping_add(load_one<C>(dtype, target), wrapping_mul(factor, addend)), target);
        }
      });
    }
    return Error::Ok;
  });
}

Error embedding_out(KernelContext& context, const Tensor& weight, const Tensor& indices, int64_t, bool, bool,
                    Tensor& out) {
  constexpr const char* kOp = "aten::embedding";
  ET_RETURN_IF_ERROR(check_rank(kOp, "weight", weight, 2, 2));
  ET_RETURN_IF_ERROR(check_rank(kOp, "indices", indices, 0, kMaxRank - 1));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, weight));
  ET_RETURN_IF_ERROR(check_indices(kOp, indices, weight.size(0), 0));
  Sizes sizes(indices.sizes());
  sizes.push_back(weight.size(1));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&weight, &indices, &out}));
  const size_t row = static_cast<size_t>(weight.size(1)) * weight.element_size();
  const char* table = static_cast<const char*>(weight.const_data_ptr());
  char* target = static_cast<char*>(out.mutable_data_ptr());
  for (int64_t i = 0; row > 0 && i < indices.numel(); ++i) {
    std::memmove(target + static_cast<size_t>(i) * row, table + static_cast<size_t>(index_at(indices, i)) * row, row);
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
