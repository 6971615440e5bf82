// gather and the scatter family: an index tensor says, element by element, where along `dim` to read or write.
#include "kernels/portable/op_gather_scatter.h"

#include <algorithm>
#include <cstring>

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/combine.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/index_checks.h"
#include "kernels/portable/loop_nest.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::portable {
namespace {

// A scalar tensor behaves as one of one element.
int64_t size_of(const Tensor& tensor, int64_t d) { return tensor.dim() == 0 ? 1 : tensor.size(d); }

Error check_shapes(const char* op, const Tensor& self, int64_t* dim, const Tensor& index, const Tensor* src) {
  ET_RETURN_IF_ERROR(normalize_dim(op, *dim, self.dim(), dim));
  if (index.numel() == 0) {
    return Error::Ok;
  }
  const int64_t rank = self.dim() == 0 ? 1 : self.dim();
  bool fits =
      (index.dim() == 0 ? 1 : index.dim()) == rank && (src == nullptr || (src->dim() == 0 ? 1 : src->dim()) == rank);
  for (int64_t d = 0; fits && d < rank; ++d) {
    fits = (d == *dim || size_of(index, d) <= size_of(self, d)) &&
           (src == nullptr || size_of(index, d) <= size_of(*src, d));
  }
  ET_CHECK_OR_RETURN(fits, InvalidArgument, "%s: index %s does not fit self %s along dim %" PRId64, op,
                     ShapeText(index.sizes()).text, ShapeText(self.sizes()).text, *dim);
  return check_indices(op, index, size_of(self, *dim), 0);
}

// Calls f(address in `indexed` at the index, address in `straight` at the same position, index) for each index.
// Positions come in the index tensor's row-major order, so that of two writes to a place the later in that order stays.
template <typename F>
void for_each_index(const KernelContext& context, const Tensor& index, const Tensor& indexed, int64_t dim,
                    const Tensor* straight, F&& f) {
  Sizes strides(indexed.strides());
  if (indexed.dim() > 0) {
    strides[dim] = 0;
  }
  strides.resize(static_cast<size_t>(index.dim()), 0);
  LoopNest nest(index.sizes());
  nest.add(index.const_data_ptr(), index.strides(), index.element_size());
  nest.add(indexed.const_data_ptr(), strides, indexed.element_size());
  if (straight != nullptr) {
    Sizes straight_strides(straight->strides());
    straight_strides.resize(static_cast<size_t>(index.dim()), 0);
    nest.add(straight->const_data_ptr(), straight_strides, straight->element_size());
  }
  nest.merge();
  const int64_t step = (indexed.dim() == 0 ? 1 : indexed.stride(dim)) * static_cast<int64_t>(indexed.element_size());
  const auto walk = [&](auto tag) {
    using I = typename decltype(tag)::type;
    nest.for_each_run([&](char* const* pointers, int64_t n) {
      const int64_t index_step = nest.run_stride(0);
      const int64_t indexed_step = nest.run_stride(1);
      const int64_t straight_step = straight != nullptr ? nest.run_stride(2) : 0;
      char* const straight_run = straight != nullptr ? pointers[2] : nullptr;
      constexpr int64_t kLook = 1024;  // elements between two looks at whether the caller asked to stop
      for (int64_t i = 0; i < n && (i % kLook != 0 || !context.cancelled()); ++i) {
        const int64_t at = *reinterpret_cast<const I*>(pointers[0] + i * index_step);
        f(pointers[1] + i * indexed_step + at * step, straight_run + i * straight_step);
      }
    });
  };
  index.scalar_type() == ScalarType::Long ? walk(TypeTag<int64_t>{}) : walk(TypeTag<int32_t>{});
}

// As scatter_reduce, of elements T that are combined where they lie.
template <typename T>
void combine_in_place(const KernelContext& context, const Tensor& out, int64_t dim, const Tensor& index,
                      const Tensor& src, Reduce reduce, bool include_self) {
  if (!include_self) {
    const T start = neutral<T>(reduce);
    for_each_index(context, index, out, dim, nullptr,
                   [&](char* target, const char*) { *reinterpret_cast<T*>(target) = start; });
  }
  const auto walk = [&](auto how) {
    for_each_index(context, index, out, dim, &src, [&](char* target, const char* source) {
      T& element = *reinterpret_cast<T*>(target);
      element = combine(how(), element, *reinterpret_cast<const T*>(source));
    });
  };
  reduce == Reduce::kSum ? walk([] { return Reduce::kSum; }) : walk([&] { return reduce; });
}

// The same of bools: a sum or a maximum is true where any is, a product or a minimum where all are.
void combine_bools(const KernelContext& context, const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src,
                   Reduce reduce, bool include_self) {
  const bool any = reduce == Reduce::kSum || reduce == Reduce::kMax;
  if (!include_self) {
    for_each_index(context, index, out, dim, nullptr, [&](char* target, const char*) { *target = any ? 0 : 1; });
  }
  const auto walk = [&](auto both) {
    for_each_index(context, index, out, dim, &src,
                   [&](char* target, const char* source) { *target = both(*target != 0, *source != 0) ? 1 : 0; });
  };
  any ? walk([](bool a, bool b) { return a | b; }) : walk([](bool a, bool b) { return a & b; });
}

// As scatter_reduce, of elements T that gather in float beside the output and are rounded once.
template <typename T>
Error gather_in_float(KernelContext& context, const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src,
                      Reduce reduce, bool include_self) {
  const auto count = static_cast<size_t>(out.numel());
  ET_TRY(void* const sums_memory, context.allocate_temp(count * sizeof(float)));
  ET_TRY(void* const touched_memory, context.allocate_temp(count));
  auto* const sums = static_cast<float*>(sums_memory);
  auto* const touched = static_cast<uint8_t*>(touched_memory);
  T* const elements = static_cast<T*>(out.mutable_data_ptr());
  load(out.scalar_type(), elements, 1, out.numel(), sums);
  std::memset(touched, 0, count);
  if (!include_self) {
    const auto start = neutral<float>(reduce);
    for_each_index(context, index, out, dim, nullptr, [&](const char* target, const char*) {
      sums[reinterpret_cast<const T*>(target) - elements] = start;
    });
  }
  const auto gather = [&](auto how) {
    for_each_index(context, index, out, dim, &src, [&](const char* target, const char* source) {
      const auto place = reinterpret_cast<const T*>(target) - elements;
      touched[place] = 1;
      sums[place] = combine(how(), sums[place], static_cast<float>(*reinterpret_cast<const T*>(source)));
    });
  };
  reduce == Reduce::kSum ? gather([] { return Reduce::kSum; }) : gather([&] { return reduce; });
  constexpr size_t kChunk = 256;
  T rounded[kChunk];
  for (size_t start = 0; start < count; start += kChunk) {
    const size_t n = std::min(kChunk, count - start);
    store(out.scalar_type(), sums + start, static_cast<int64_t>(n), rounded, 1);
    for (size_t i = 0; i < n; ++i) {  // untouched elements keep their exact bits
      elements[start + i] = touched[start + i] != 0 ? rounded[i] : elements[start + i];
    }
  }
  return Error::Ok;
}

// Sums gather in C beside the output, with the number that went into each.
Error scatter_mean(KernelContext& context, const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src,
                   bool include_self) {
  const ScalarType dtype = out.scalar_type();
  const int64_t size = static_cast<int64_t>(out.element_size());
  return dispatch_compute(dtype, [&](auto zero) {
    using C = decltype(zero);
    const auto count = static_cast<size_t>(out.numel());
    ET_TRY(void* sums_memory, context.allocate_temp(count * sizeof(C)));
    ET_TRY(void* counts_memory, context.allocate_temp(count * sizeof(int64_t)));
    C* sums = static_cast<C*>(sums_memory);
    int64_t* counts = static_cast<int64_t*>(counts_memory);
    char* base = static_cast<char*>(out.mutable_data_ptr());
    load(dtype, base, 1, out.numel(), sums);
    std::memset(counts, 0, count * sizeof(int64_t));
    for_each_index(context, index, out, dim, &src, [&](char* target, const char* source) {
      const int64_t place = (target - base) / size;
      if (counts[place]++ == 0 && !include_self) {
        sums[place] = C(0);
      }
      sums[place] = wrapping_add(sums[place], load_one<C>(dtype, source));
    });
    for (size_t i = 0; i < count; ++i) {
      if (counts[i] == 0) {
        continue;  // untouched elements keep their exact bits
      }
      const C divisor = static_cast<C>(counts[i] + (include_self ? 1 : 0));
      store_one(dtype, std::is_integral_v<C> ? div_floor(sums[i], divisor) : sums[i] / divisor, base,
                static_cast<int64_t>(i));
    }
    return Error::Ok;
  });
}

Error scatter_reduce(KernelContext& context, const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                     const Tensor& src, Reduce reduce, bool include_self, Tensor& out) {
  ET_RETURN_IF_ERROR(check_shapes(op, self, &dim, index, &src));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "src", src, self));
  ET_RETURN_IF_ERROR(copy_same_dtype(context, op, self, out));
  if (index.numel() == 0) {
    return Error::Ok;
  }
  if (reduce == Reduce::kMean) {
    return scatter_mean(context, out, dim, index, src, include_self);
  }
  switch (self.scalar_type()) {
    case ScalarType::Bool: combine_bools(context, out, dim, index, src, reduce, include_self); return Error::Ok;
    case ScalarType::Half: return gather_in_float<Half>(context, out, dim, index, src, reduce, include_self);
    case ScalarType::BFloat16: return gather_in_float<BFloat16>(context, out, dim, index, src, reduce, include_self);
    default:
      return dispatch<WholeTypes>(self.scalar_type(), op, [&](auto tag) {
        combine_in_place<typename decltype(tag)::type>(context, out, dim, index, src, reduce, include_self);
        return Error::Ok;
      });
  }
}

}  // namespace

Error gather_out(KernelContext& context, const Tensor& self, int64_t dim, const Tensor& index, bool, Tensor& out) {
  constexpr const char* kOp = "aten::gather";
  ET_RETURN_IF_ERROR(check_shapes(kOp, self, &dim, index, nullptr));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, index.sizes()));
  if (index.numel() == 0) {
    return Error::Ok;
  }
  return dispatch_by_size(self.element_size(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_index(context, index, self, dim, &out,
                   [&](const char* source, char* target) { std::memcpy(target, source, sizeof(T)); });
    return Error::Ok;
  });
}

Error scatter_src_out(KernelContext& context, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                      Tensor& out) {
  constexpr const char* kOp = "aten::scatter";
  ET_RETURN_IF_ERROR(check_shapes(kOp, self, &dim, index, &src));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "src", src, self));
  ET_RETURN_IF_ERROR(copy_same_dtype(context, kOp, self, out));
  if (index.numel() == 0) {
    return Error::Ok;
  }
  return dispatch_by_size(self.element_size(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_index(context, index, out, dim, &src,
                   [](char* target, const char* source) { std::memcpy(target, source, sizeof(T)); });
    return Error::Ok;
  });
}

Error scatter_value_out(KernelContext& context, const Tensor& self, int64_t dim, const Tensor& index,
                        const Scalar& value, Tensor& out) {
  constexpr const char* kOp = "aten::scatter";
  ET_RETURN_IF_ERROR(check_shapes(kOp, self, &dim, index, nullptr));
  ET_RETURN_IF_ERROR(copy_same_dtype(context, kOp, self, out));
  if (index.numel() == 0) {
    return Error::Ok;
  }
  alignas(16) char element[16];
  store_scalar(self.scalar_type(), value, element);
  return dispatch_by_size(self.element_size(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_index(context, index, out, dim, nullptr,
                   [&](char* target, const char*) { std::memcpy(target, element, sizeof(T)); });
    return Error::Ok;
  });
}

Error scatter_add_out(KernelContext& context, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                      Tensor& out) {
  return scatter_reduce(context, "aten::scatter_add", self, dim, index, src, Reduce::kSum, true, out);
}

Error scatter_reduce_out(KernelContext& context, const Tensor& self, int64_t dim, const Tensor& index,
                         const Tensor& src, std::string_view reduce, Tensor& out) {
  Reduce how = Reduce::kSum;
  ET_RETURN_IF_ERROR(parse_reduce("aten::scatter", reduce, &how));
  return scatter_reduce(context, "aten::scatter", self, dim, index, src, how, true, out);
}

Error scatter_reduce_two_out(KernelContext& context, const Tensor& self, int64_t dim, const Tensor& index,
                             const Tensor& src, std::string_view reduce, bool include_self, Tensor& out) {
  Reduce how = Reduce::kSum;
  ET_RETURN_IF_ERROR(parse_reduce("aten::scatter_reduce", reduce, &how));
  return scatter_reduce(context, "aten::scatter_reduce", self, dim, index, src, how, include_self, out);
}

Error slice_scatter_out(KernelContext& context, const Tensor& self, const Tensor& src, int64_t dim,
                        std::optional<int64_t> start, std::optional<int64_t> end, int64_t step, Tensor& out) {
  constexpr const char* kOp = "aten::slice_scatter";
  int64_t first;
  int64_t length;
  ET_RETURN_IF_ERROR(normalize_slice(kOp, self, &dim, start, end, step, &first, &length));
  Window target = slice_of(self, dim, first, length, step);
  ET_CHECK_OR_RETURN(equal(src.sizes(), IntArrayRef(target.sizes)), InvalidArgument,
                     "%s: src %s is not the slice's shape %s", kOp, ShapeText(src.sizes()).text,
                     ShapeText(target.sizes).text);
  ET_RETURN_IF_ERROR(copy_same_dtype(context, kOp, self, out));
  return copy_window(window_of(src), slice_of(out, dim, first, length, step));
}

Error select_scatter_out(KernelContext& context, const Tensor& self, const Tensor& src, int64_t dim, int64_t index,
                         Tensor& out) {
  constexpr const char* kOp = "aten::select_scatter";
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 1, kMaxRank));
  ET_RETURN_IF_ERROR(normalize_dim(kOp, dim, self.dim(), &dim));
  ET_RETURN_IF_ERROR(normalize_index(kOp, index, self, dim, &index));
  ET_CHECK_OR_RETURN(equal(src.sizes(), IntArrayRef(select_of(self, dim, index).sizes)), InvalidArgument,
                     "%s: src %s is not the selected shape of self %s", kOp, ShapeText(src.sizes()).text,
                     ShapeText(self.sizes()).text);
  ET_RETURN_IF_ERROR(copy_same_dtype(context, kOp, self, out));
  return copy_window(window_of(src), select_of(out, dim, index));
}

Error diagonal_scatter_out(KernelContext& context, const Tensor& self, const Tensor& src, int64_t offset, int64_t dim1,
                           int64_t dim2, Tensor& out) {
  constexpr const char* kOp = "aten::diagonal_scatter";
  Window target;
  ET_RETURN_IF_ERROR(diagonal_of(kOp, self, offset, dim1, dim2, &target));
  ET_CHECK_OR_RETURN(equal(src.sizes(), IntArrayRef(target.sizes)), InvalidArgument,
                     "%s: src %s is not the diagonal's shape %s", kOp, ShapeText(src.sizes()).text,
                     ShapeText(target.sizes).text);
  ET_RETURN_IF_ERROR(copy_same_dtype(context, kOp, self, out));
  ET_RETURN_IF_ERROR(diagonal_of(kOp, out, offset, dim1, dim2, &target));
  return copy_window(window_of(src), target);
}

}  // namespace et::kernels::portable
