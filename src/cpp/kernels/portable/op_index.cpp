// Operators that address elements with tensors of indices: embedding, index, index_put, index_select and their like.
// Every index is checked before the first write.
#include "kernels/portable/op_index.h"

#include <algorithm>
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
};

// Advanced indexing, worked out: which dimensions have positions, where their common broadcast shape goes.
struct Plan {
  Positions index[kMaxRank];  // by dimension of self
  Sizes index_sizes;          // the broadcast shape of the positions
  Sizes sizes;                // of self[indices]
  size_t position = 0;        // where index_sizes begins in `sizes`
};

// A mask over dimensions [dim, dim + rank) of self stands for the positions of its true elements, dimension by
// dimension.
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
  const int64_t width = mask.size(mask.dim() - 1);
  for (int64_t k = 0; k < mask.dim(); ++k) {
    ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(count) * sizeof(int64_t)));
    auto* positions = static_cast<int64_t*>(memory);
    const bool is_last = k + 1 == mask.dim();
    const int64_t rows_inside =
        is_last ? 1 : product(mask.sizes(), static_cast<size_t>(k) + 1, static_cast<size_t>(mask.dim()) - 1);
    int64_t found = 0;
    for (int64_t start = 0, row = 0; start < mask.numel(); start += width, ++row) {
      const int64_t of_row = is_last ? 0 : row / rows_inside % mask.size(k);
      for (int64_t i = 0; i < width; ++i) {
        if (bytes[start + i] != 0) {
          positions[found++] = is_last ? i : of_row;
        }
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

// The common walk of all operators here. An *indexed* tensor is addressed through the positions of a plan, a *straight*
// one has the plan's sizes (or broadcasts to them); without one (nullptr) its addresses mean nothing.
class IndexedWalk {
 public:
  IndexedWalk(const Plan& plan, const Tensor& indexed, const Tensor* straight) : plan_(plan) {
    const size_t rank = plan.sizes.size();
    const size_t index_rank = plan.index_sizes.size();
    Sizes straight_strides;  // bytes, by dimension of plan.sizes
    straight_strides.resize(rank, 0);
    for (int64_t d = 0; straight != nullptr && d < straight->dim(); ++d) {
      const int64_t place = static_cast<int64_t>(rank) - straight->dim() + d;
      const int64_t step = straight->stride(d) * static_cast<int64_t>(straight->element_size());
      straight_strides[place] = straight->size(d) == 1 ? 0 : step;
    }
    Sizes whole_strides;  // of the indexed tensor's dimensions without positions
    for (int64_t d = 0; d < indexed.dim(); ++d) {
      index_strides_.push_back(indexed.stride(d) * static_cast<int64_t>(indexed.element_size()));
      extents_.push_back(indexed.size(d));
      if (plan.index[d].data == nullptr) {
        whole_strides.push_back(index_strides_[d]);
      }
    }
    for (size_t i = 0; i < index_rank; ++i) {
      straight_steps_.push_back(straight_strides[static_cast<int64_t>(plan.position + i)]);
    }
    const auto add = [&](LoopNest& nest, size_t first, size_t whole_first, size_t count) {
      nest.add(indexed.const_data_ptr(), slice(whole_strides, whole_first, count), 1);
      nest.add((straight != nullptr ? *straight : indexed).const_data_ptr(), slice(straight_strides, first, count), 1);
      nest.merge();
    };
    const size_t tail = rank - plan.position - index_rank;
    before_ = LoopNest(slice(plan.sizes, 0, plan.position));
    add(before_, 0, 0, plan.position);
    after_ = LoopNest(slice(plan.sizes, plan.position + index_rank, tail));
    add(after_, plan.position + index_rank, plan.position, tail);
  }

  // Calls f(indexed, straight, n, indexed step, straight step) for runs of n elements, steps in bytes, of positions
  // [begin, end). Two runs at one place of the indexed tensor come in the order of their positions.
  template <typename F>
  void for_each_run(int64_t begin, int64_t end, F&& f) const {
    if (plan_.sizes.numel() == 0) {
      return;
    }
    constexpr int64_t kChunk = 64;
    int64_t indexed_offsets[kChunk];
    int64_t straight_offsets[kChunk];
    LoopNest after = after_;
    const int64_t steps[2] = {after.run_stride(0), after.run_stride(1)};
    const bool single = after.steps() == 1;
    for (int64_t first = begin; first < end; first += kChunk) {
      const int64_t count = end - first < kChunk ? end - first : kChunk;
      find_offsets(first, count, indexed_offsets, straight_offsets);
      before_.for_each_run([&](char* const* pointers, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          char* const indexed = pointers[0] + i * before_.run_stride(0);
          char* const straight = pointers[1] + i * before_.run_stride(1);
          for (int64_t p = 0; p < count; ++p) {
            if (single) {
              f(indexed + indexed_offsets[p], straight + straight_offsets[p], int64_t{1}, int64_t{0}, int64_t{0});
              continue;
            }
            after.rebase(0, indexed + indexed_offsets[p]);
            after.rebase(1, straight + straight_offsets[p]);
            after.for_each_run([&](char* const* at, int64_t m) { f(at[0], at[1], m, steps[0], steps[1]); });
          }
        }
      });
    }
  }

  // As above for all positions, one after the other: for writes to the indexed tensor.
  template <typename F>
  void for_each_run(F&& f) const {
    for_each_run(0, positions(), f);
  }

  int64_t positions() const { return plan_.index_sizes.numel(); }
  // Elements that belong to one position.
  int64_t elements() const { return before_.steps() * after_.steps(); }

 private:
  static IntArrayRef slice(const Sizes& sizes, size_t first, size_t count) {
    return IntArrayRef(sizes.data() + first, count);
  }

  // Byte offsets of positions [first, first + count) in both tensors.
  void find_offsets(int64_t first, int64_t count, int64_t* indexed, int64_t* straight) const {
    const auto rank = static_cast<int64_t>(plan_.index_sizes.size());
    int64_t at[kMaxRank] = {};
    int64_t rest = first;
    for (int64_t k = rank - 1; k >= 0; --k) {
      at[k] = rest % plan_.index_sizes[k];
      rest /= plan_.index_sizes[k];
    }
    // Neighbours along the last dimension of the positions, a run of them at a time.
    const int64_t last = rank - 1;
    for (int64_t p = 0; p < count;) {
      const int64_t n = rank == 0 ? 1 : std::min(count - p, plan_.index_sizes[last] - at[last]);
      int64_t start = 0;
      for (int64_t k = 0; k < rank; ++k) {
        start += at[k] * straight_steps_[k];
      }
      const int64_t straight_step = rank == 0 ? 0 : straight_steps_[last];
      for (int64_t i = 0; i < n; ++i) {
        straight[p + i] = start + i * straight_step;
        indexed[p + i] = 0;
      }
      for (size_t d = 0; d < extents_.size(); ++d) {
        const Positions& index = plan_.index[d];
        if (index.data == nullptr) {
          continue;
        }
        int64_t place = 0;
        int64_t step = 0;
        const int64_t lead = rank - static_cast<int64_t>(index.sizes.size());
        for (int64_t k = lead; k < rank; ++k) {
          step = index.sizes[k - lead] == 1 ? 0 : index.strides[k - lead];
          place += at[k] * step;
        }
        const auto dim = static_cast<int64_t>(d);
        const auto add = [&](const auto* values) {
          for (int64_t i = 0; i < n; ++i) {
            const int64_t value = values[place + i * step];
            indexed[p + i] += (value < 0 ? value + extents_[dim] : value) * index_strides_[dim];
          }
        };
        index.dtype == ScalarType::Long ? add(static_cast<const int64_t*>(index.data))
                                        : add(static_cast<const int32_t*>(index.data));
      }
      p += n;
      if (rank > 0) {
        at[last] += n - 1;
      }
      for (int64_t k = last; k >= 0 && ++at[k] == plan_.index_sizes[k]; --k) {
        at[k] = 0;
      }
    }
  }

  const Plan& plan_;
  Sizes extents_;                   // of the indexed tensor
  Sizes index_strides_;             // bytes, of the indexed tensor
  Sizes straight_steps_;            // bytes, by dimension of the positions
  LoopNest before_{IntArrayRef()};  // dimensions before and after the positions; operands: indexed, straight
  LoopNest after_{IntArrayRef()};
};

template <typename T>
void copy_run(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  if (n > 1 && to_step == kSize && from_step == kSize) {
    std::memmove(to, from, static_cast<size_t>(n * kSize));
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(to + i * to_step, from + i * from_step, sizeof(T));
  }
}

// straight = indexed[positions]
Error take(KernelContext& context, const Plan& plan, const Tensor& indexed, const Tensor& straight) {
  const IndexedWalk walk(plan, indexed, &straight);
  constexpr size_t kCost = 4;  // an element that is looked up, next to one that is copied
  const size_t grain = threads::grain_for(static_cast<size_t>(walk.elements()) * kCost);
  return dispatch_by_size(indexed.element_size(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    threads::parallel_for(context, static_cast<size_t>(walk.positions()), grain, [&](size_t begin, size_t end) {
      walk.for_each_run(static_cast<int64_t>(begin), static_cast<int64_t>(end),
                        [](char* from, char* to, int64_t n, int64_t from_step, int64_t to_step) {
                          copy_run<T>(to, to_step, from, from_step, n);
                        });
    });
    return Error::Ok;
  });
}

// indexed[positions] = straight
Error put(const Plan& plan, const Tensor& indexed, const Tensor& straight) {
  const IndexedWalk walk(plan, indexed, &straight);
  return dispatch_by_size(indexed.element_size(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    walk.for_each_run([](char* to, char* from, int64_t n, int64_t to_step, int64_t from_step) {
      copy_run<T>(to, to_step, from, from_step, n);
    });
    return Error::Ok;
  });
}

// As add, for elements that are stored as T and computed in float.
template <typename T>
void add_small(const IndexedWalk& walk, float factor) {
  walk.for_each_run([&](char* to, const char* from, int64_t n, int64_t to_step, int64_t from_step) {
    for (int64_t i = 0; i < n; ++i, to += to_step, from += from_step) {
      T& element = *reinterpret_cast<T*>(to);
      element = T(static_cast<float>(element) + factor * static_cast<float>(*reinterpret_cast<const T*>(from)));
    }
  });
}

// indexed[positions] += factor * straight, in the order of the positions
Error add(const Plan& plan, const Tensor& indexed, const Tensor& straight, const Scalar& factor) {
  const IndexedWalk walk(plan, indexed, &straight);
  const ScalarType dtype = indexed.scalar_type();
  if (is_small_float(dtype)) {
    const auto multiple = scalar_to<float>(factor);
    dtype == ScalarType::Half ? add_small<Half>(walk, multiple) : add_small<BFloat16>(walk, multiple);
    return Error::Ok;
  }
  if (dtype == ScalarType::Bool) {
    const bool counts = scalar_to<bool>(factor);
    walk.for_each_run([&](char* to, const char* from, int64_t n, int64_t to_step, int64_t from_step) {
      for (int64_t i = 0; i < n; ++i, to += to_step, from += from_step) {
        *to = (*to != 0) | (counts & (*from != 0)) ? 1 : 0;
      }
    });
    return Error::Ok;
  }
  return dispatch<WholeTypes>(dtype, "aten::index_add", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T multiple = scalar_to<T>(factor);
    walk.for_each_run([&](char* to, const char* from, int64_t n, int64_t to_step, int64_t from_step) {
      for (int64_t i = 0; i < n; ++i, to += to_step, from += from_step) {
        T& element = *reinterpret_cast<T*>(to);
        element = wrapping_add(element, wrapping_mul(multiple, *reinterpret_cast<const T*>(from)));
      }
    });
    return Error::Ok;
  });
}

Error index_put(KernelContext& context, const char* op, const Tensor& self, OptionalTensorList indices,
                const Tensor& values, bool accumulate, const Tensor& out) {
  Plan plan;
  ET_RETURN_IF_ERROR(plan_indices(context, op, self, indices, &plan));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "values", values, self));
  Sizes sizes;
  ET_RETURN_IF_ERROR(broadcast_sizes(op, plan.sizes, values.sizes(), &sizes));
  ET_CHECK_OR_RETURN(equal(IntArrayRef(sizes), IntArrayRef(plan.sizes)), InvalidArgument,
                     "%s: values %s do not broadcast to the indexed shape %s", op, ShapeText(values.sizes()).text,
                     ShapeText(plan.sizes).text);
  ET_RETURN_IF_ERROR(copy_same_dtype(context, op, self, out));
  return accumulate ? add(plan, out, values, Scalar(int64_t{1})) : put(plan, out, values);
}

// What index_select, index_add, index_fill and index_copy share: a vector of positions along `dim`, each at least
// `low`.
Error plan_positions(const char* op, const Tensor& self, int64_t* dim, const Tensor& index, int64_t low, Plan* plan) {
  ET_RETURN_IF_ERROR(normalize_dim(op, *dim, self.dim(), dim));
  ET_RETURN_IF_ERROR(check_rank(op, "index", index, 0, 1));
  const int64_t size = self.dim() == 0 ? 1 : self.size(*dim);
  ET_RETURN_IF_ERROR(check_indices(op, index, size, low == 0 ? 0 : -size));
  const Sizes count(IntArrayRef({index.numel()}));
  plan->sizes = Sizes(self.sizes());
  if (self.dim() == 0) {
    plan->sizes = count;  // every position is the one element
  } else {
    plan->sizes[*dim] = index.numel();
    plan->position = static_cast<size_t>(*dim);
    // Something to point at where there are no positions: it is never read, and says that the dimension has some.
    plan->index[*dim] = {index.numel() == 0 ? plan : index.const_data_ptr(), index.scalar_type(), count,
                         Sizes(IntArrayRef({int64_t{1}}))};
  }
  plan->index_sizes = count;
  return Error::Ok;
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
  return take(context, plan, self, out);
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
  Plan plan;
  ET_RETURN_IF_ERROR(plan_positions(kOp, self, &dim, index, 0, &plan));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  ET_RETURN_IF_ERROR(
      resize_tensor(context, out, self.dim() == 0 ? IntArrayRef(self.sizes()) : IntArrayRef(plan.sizes)));
  return take(context, plan, self, out);
}

Error index_copy_out(KernelContext& context, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                     Tensor& out) {
  constexpr const char* kOp = "aten::index_copy";
  Plan plan;
  ET_RETURN_IF_ERROR(plan_positions(kOp, self, &dim, index, 0, &plan));
  ET_RETURN_IF_ERROR(check_slots(kOp, self, dim, index, source));
  ET_RETURN_IF_ERROR(copy_same_dtype(context, kOp, self, out));
  return put(plan, out, source);
}

Error index_fill_int_scalar_out(KernelContext& context, const Tensor& self, int64_t dim, const Tensor& index,
                                const Scalar& value, Tensor& out) {
  constexpr const char* kOp = "aten::index_fill";
  Plan plan;
  ET_RETURN_IF_ERROR(plan_positions(kOp, self, &dim, index, -1, &plan));
  ET_RETURN_IF_ERROR(copy_same_dtype(context, kOp, self, out));
  alignas(16) char element[16];
  store_scalar(self.scalar_type(), value, element);
  const IndexedWalk walk(plan, out, nullptr);
  return dispatch_by_size(self.element_size(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    walk.for_each_run([&](char* to, char*, int64_t n, int64_t step, int64_t) { copy_run<T>(to, step, element, 0, n); });
    return Error::Ok;
  });
}

Error index_add_out(KernelContext& context, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                    const Scalar& alpha, Tensor& out) {
  constexpr const char* kOp = "aten::index_add";
  Plan plan;
  ET_RETURN_IF_ERROR(plan_positions(kOp, self, &dim, index, 0, &plan));
  ET_RETURN_IF_ERROR(check_slots(kOp, self, dim, index, source));
  ET_RETURN_IF_ERROR(copy_same_dtype(context, kOp, self, out));
  return add(plan, out, source, alpha);
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
