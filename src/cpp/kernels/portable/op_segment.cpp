// Reductions of the elements that an index or a segment names: index_reduce and segment_reduce.
#include "kernels/portable/op_segment.h"

#include <cmath>

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/combine.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/index_checks.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::portable {
namespace {

// Which rows along the axis belong to a segment: lengths one after the other, or offsets.
struct Segments {
  const Tensor& numbers;
  bool are_offsets;
  int64_t count;  // a row of the tensor in front

  Error range(const char* op, int64_t row, int64_t index, int64_t limit, int64_t* begin, int64_t* end) const {
    const int64_t width = are_offsets ? count + 1 : count;
    if (are_offsets) {
      *begin = index_at(numbers, row * width + index);
      *end = index_at(numbers, row * width + index + 1);
    } else {
      *begin = *end;
      *end = *begin + index_at(numbers, row * width + index);
    }
    ET_CHECK_OR_RETURN(*begin >= 0 && *end >= *begin && *end <= limit, InvalidArgument,
                       "%s: segment %" PRId64 " is [%" PRId64 ", %" PRId64 ") of %" PRId64 " rows", op, index, *begin,
                       *end, limit);
    return Error::Ok;
  }
};

}  // namespace

Error index_reduce_out(KernelContext& context, const Tensor& self, int64_t dim, const Tensor& index,
                       const Tensor& source, std::string_view reduce, bool include_self, Tensor& out) {
  constexpr const char* kOp = "aten::index_reduce";
  Reduce how = Reduce::kSum;
  ET_RETURN_IF_ERROR(parse_reduce(kOp, reduce, &how));
  ET_RETURN_IF_ERROR(normalize_dim(kOp, dim, self.dim(), &dim));
  const int64_t size = self.dim() == 0 ? 1 : self.size(dim);
  ET_RETURN_IF_ERROR(check_indices(kOp, index, size, 0));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "source", source, self));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  bool fits = source.dim() == self.dim() && (self.dim() > 0 || index.numel() == 1);
  for (int64_t d = 0; fits && d < self.dim(); ++d) {
    fits = source.size(d) == (d == dim ? index.numel() : self.size(d));
  }
  ET_CHECK_OR_RETURN(fits, InvalidArgument, "%s: source %s does not go with self %s and %" PRId64 " positions", kOp,
                     ShapeText(source.sizes()).text, ShapeText(self.sizes()).text, index.numel());
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  const ScalarType dtype = self.scalar_type();
  const auto size_of = static_cast<int64_t>(self.element_size());
  const int64_t lanes = size == 0 ? 0 : self.numel() / size;
  return dispatch_compute(dtype, [&](auto zero) {
    using C = decltype(zero);
    ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(size + 1) * (sizeof(C) + sizeof(int64_t))));
    auto* counts = static_cast<int64_t*>(memory);
    C* values = reinterpret_cast<C*>(counts + size);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      int64_t rest = lane, from = 0, to = 0, with = 0;
      for (int64_t d = self.dim() - 1; d >= 0; --d) {
        if (d != dim) {
          from += rest % self.size(d) * self.stride(d);
          to += rest % self.size(d) * out.stride(d);
          with += rest % self.size(d) * source.stride(d);
          rest /= self.size(d);
        }
      }
      const int64_t step = self.dim() == 0 ? 1 : self.stride(dim);
      const int64_t out_step = self.dim() == 0 ? 1 : out.stride(dim);
      const int64_t source_step = source.dim() == 0 ? 1 : source.stride(dim);
      load<C>(dtype, static_cast<const char*>(self.const_data_ptr()) + from * size_of, step, size, values);
      for (int64_t i = 0; i < size; ++i) {
        counts[i] = 0;
      }
      for (int64_t i = 0; i < index.numel(); ++i) {
        const int64_t place = index_at(index, i);
        if (counts[place]++ == 0 && !include_self) {
          values[place] = neutral<C>(how);
        }
        values[place] =
            combine(how, values[place], load_one<C>(dtype, source.const_data_ptr(), with + i * source_step));
      }
      for (int64_t i = 0; i < size; ++i) {
        if (how == Reduce::kMean && counts[i] > 0) {
          const C divisor = static_cast<C>(counts[i] + (include_self ? 1 : 0));
          values[i] = std::is_integral_v<C> ? div_floor(values[i], divisor) : values[i] / divisor;
        }
        store_one<C>(dtype, values[i], out.mutable_data_ptr(), to + i * out_step);
      }
    }
    return Error::Ok;
  });
}

Error segment_reduce_out(KernelContext& context, const Tensor& data, std::string_view reduce,
                         const OptionalTensor& lengths, const OptionalTensor& indices, const OptionalTensor& offsets,
                         int64_t axis, bool, const std::optional<Scalar>& initial, Tensor& out) {
  constexpr const char* kOp = "aten::segment_reduce";
  Reduce how = Reduce::kSum;
  ET_RETURN_IF_ERROR(parse_reduce(kOp, reduce, &how));
  ET_RETURN_IF_ERROR(normalize_dim(kOp, axis, data.dim(), &axis));
  ET_CHECK_OR_RETURN(!indices.has_value() && (lengths.has_value() || offsets.has_value()), InvalidArgument,
                     "%s: needs lengths or offsets, and takes no indices", kOp);
  const Tensor& numbers = offsets.has_value() ? *offsets : *lengths;
  ET_CHECK_OR_RETURN(numbers.dim() == axis + 1, InvalidArgument,
                     "%s: lengths or offsets of shape %s for data %s along axis %" PRId64, kOp,
                     ShapeText(numbers.sizes()).text, ShapeText(data.sizes()).text, axis);
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, data));
  const int64_t count = numbers.size(-1) - (offsets.has_value() ? 1 : 0);
  ET_CHECK_OR_RETURN(count >= 0, InvalidArgument, "%s: the offsets are empty", kOp);
  Sizes sizes(data.sizes());
  sizes[axis] = count;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&data, &numbers, &out}));
  const Segments segments{numbers, offsets.has_value(), count};
  const int64_t rows = data.size(axis);
  const int64_t outer = product(data.sizes(), 0, static_cast<size_t>(axis));
  ET_CHECK_OR_RETURN(numbers.numel() == outer * numbers.size(-1), InvalidArgument,
                     "%s: lengths or offsets of shape %s for data %s along axis %" PRId64, kOp,
                     ShapeText(numbers.sizes()).text, ShapeText(data.sizes()).text, axis);
  const int64_t inner = product(data.sizes(), static_cast<size_t>(axis) + 1, data.sizes().size());
  const ScalarType dtype = data.scalar_type();
  return dispatch_float(dtype, [&](auto zero) {
    using C = decltype(zero);
    for (int64_t o = 0; o < outer; ++o) {
      int64_t begin = 0, end = 0;
      for (int64_t s = 0; s < count; ++s) {
        ET_RETURN_IF_ERROR(segments.range(kOp, o, s, rows, &begin, &end));
        for (int64_t i = 0; i < inner; ++i) {
          C value = initial.has_value() ? scalar_to<C>(*initial) : neutral<C>(how);
          for (int64_t r = begin; r < end; ++r) {
            value = combine(how, value, load_one<C>(dtype, data.const_data_ptr(), (o * rows + r) * inner + i));
          }
          if (how == Reduce::kMean) {
            value = end > begin           ? value / static_cast<C>(end - begin)
                    : initial.has_value() ? value
                                          : static_cast<C>(NAN);
          }
          store_one<C>(dtype, value, out.mutable_data_ptr(), (o * count + s) * inner + i);
        }
      }
    }
    return Error::Ok;
  });
}

}  // namespace et::kernels::portable
