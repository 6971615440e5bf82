// Operators that make tensors from numbers.
#include "kernels/portable/op_fill.h"

#include <cmath>

#include "base/checked_math.h"
#include "kernels/portable/arithmetic.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/strided_copy.h"
#include "threads/parallel.h"

namespace et::kernels::portable {
namespace {

constexpr size_t kLook = 1 << 16;  // elements between two looks at whether the caller asked to stop

Error fill(KernelContext& context, IntArrayRef sizes, const Scalar& value, const Tensor& out) {
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  alignas(16) char element[16];
  store_scalar(out.scalar_type(), value, element);
  fill_window(window_of(out), element);
  return Error::Ok;
}

const Scalar zero_scalar() { return Scalar(int64_t{0}); }
const Scalar one_scalar() { return Scalar(int64_t{1}); }

// Element i = start + i * step, computed in C.
template <typename C>
Error write_range(KernelContext& context, const char* op, double start, double end, double step, int64_t start_int,
                  int64_t end_int, int64_t step_int, Tensor& out) {
  int64_t count;
  if constexpr (std::is_integral_v<C>) {
    ET_CHECK_OR_RETURN(step_int != 0 && (end_int == start_int || (end_int > start_int) == (step_int > 0)),
                       InvalidArgument, "%s: step %" PRId64 " does not lead from %" PRId64 " to %" PRId64, op, step_int,
                       start_int, end_int);
    const auto first = static_cast<uint64_t>(start_int), last = static_cast<uint64_t>(end_int);
    const auto stride = static_cast<uint64_t>(step_int);
    const uint64_t distance = step_int > 0 ? last - first : first - last, pace = step_int > 0 ? stride : 0 - stride;
    ET_CHECK_OR_RETURN(!narrow_overflow(distance / pace + (distance % pace != 0 ? 1 : 0), &count), InvalidArgument,
                       "%s: too many steps of %" PRId64 " from %" PRId64 " to %" PRId64, op, step_int, start_int,
                       end_int);
  } else {
    ET_CHECK_OR_RETURN(
        step != 0 && (end == start || (end > start) == (step > 0)) && std::isfinite(start) && std::isfinite(end),
        InvalidArgument, "%s: step %g does not lead from %g to %g", op, step, start, end);
    const double steps = std::ceil((end - start) / step);
    ET_CHECK_OR_RETURN(steps < 9e18, InvalidArgument, "%s: too many steps of %g from %g to %g", op, step, start, end);
    count = static_cast<int64_t>(steps);
  }
  const int64_t sizes[] = {count};
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  char* data = static_cast<char*>(out.mutable_data_ptr());
  threads::in_pieces(context, static_cast<size_t>(count), kLook, [&](size_t from, size_t to) {
    for (auto i = static_cast<int64_t>(from); i < static_cast<int64_t>(to); ++i) {
      if constexpr (std::is_integral_v<C>) {
        store_one<int64_t>(out.scalar_type(), wrapping_add(start_int, wrapping_mul(i, step_int)), data, i);
      } else {
        store_one<C>(out.scalar_type(), static_cast<C>(start) + static_cast<C>(i) * static_cast<C>(step), data, i);
      }
    }
  });
  return Error::Ok;
}

}  // namespace

Error full_out(KernelContext& context, IntArrayRef size, const Scalar& fill_value, Tensor& out) {
  return fill(context, size, fill_value, out);
}

Error full_like_out(KernelContext& context, const Tensor& self, const Scalar& fill_value, std::optional<int64_t>,
                    Tensor& out) {
  return fill(context, self.sizes(), fill_value, out);
}

Error new_full_out(KernelContext& context, const Tensor&, IntArrayRef size, const Scalar& fill_value, Tensor& out) {
  return fill(context, size, fill_value, out);
}

Error zeros_out(KernelContext& context, IntArrayRef size, Tensor& out) {
  return fill(context, size, zero_scalar(), out);
}

Error zeros_like_out(KernelContext& context, const Tensor& self, std::optional<int64_t>, Tensor& out) {
  return fill(context, self.sizes(), zero_scalar(), out);
}

Error new_zeros_out(KernelContext& context, const Tensor&, IntArrayRef size, Tensor& out) {
  return fill(context, size, zero_scalar(), out);
}

Error ones_out(KernelContext& context, IntArrayRef size, Tensor& out) { return fill(context, size, one_scalar(), out); }

Error ones_like_out(KernelContext& context, const Tensor& self, std::optional<int64_t>, Tensor& out) {
  return fill(context, self.sizes(), one_scalar(), out);
}

Error new_ones_out(KernelContext& context, const Tensor&, IntArrayRef size, Tensor& out) {
  return fill(context, size, one_scalar(), out);
}

// What ATen leaves uninitialised is zero here: two runs of a program give the same bytes.
Error empty_out(KernelContext& context, IntArrayRef size, std::optional<int64_t>, Tensor& out) {
  return fill(context, size, zero_scalar(), out);
}

Error empty_like_out(KernelContext& context, const Tensor& self, std::optional<int64_t>, Tensor& out) {
  return fill(context, self.sizes(), zero_scalar(), out);
}

Error new_empty_out(KernelContext& context, const Tensor&, IntArrayRef size, Tensor& out) {
  return fill(context, size, zero_scalar(), out);
}

Error empty_strided_out(KernelContext& context, IntArrayRef size, IntArrayRef, Tensor& out) {
  return fill(context, size, zero_scalar(), out);
}

Error empty_dim_order_out(KernelContext& context, IntArrayRef size, std::optional<IntArrayRef>, Tensor& out) {
  return fill(context, size, zero_scalar(), out);
}

Error scalar_tensor_out(KernelContext& context, const Scalar& s, Tensor& out) { return fill(context, {}, s, out); }

Error fill_scalar_out(KernelContext& context, const Tensor& self, const Scalar& value, Tensor& out) {
  return fill(context, self.sizes(), value, out);
}

Error fill_tensor_out(KernelContext& context, const Tensor& self, const Tensor& value, Tensor& out) {
  ET_RETURN_IF_ERROR(check_rank("aten::fill", "value", value, 0, 0));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  return copy_window(window_of(value), window_of(out));
}

Error arange_start_out(KernelContext& context, const Scalar& start, const Scalar& end, const Scalar& step,
                       Tensor& out) {
  // ATen computes in int64 only when the output is int64, else in double (float outputs: in double, then rounded).
  const bool integers = out.scalar_type() == ScalarType::Long && !start.is_floating_point() &&
                        !end.is_floating_point() && !step.is_floating_point();
  if (integers) {
    return write_range<int64_t>(context, "aten::arange", 0, 0, 0, start.to<int64_t>(), end.to<int64_t>(),
                                step.to<int64_t>(), out);
  }
  return write_range<double>(context, "aten::arange", start.to<double>(), end.to<double>(), step.to<double>(), 0, 0, 0,
                             out);
}

Error arange_out(KernelContext& context, const Scalar& end, Tensor& out) {
  return arange_start_out(context, zero_scalar(), end, one_scalar(), out);
}

Error linspace_out(KernelContext& context, const Scalar& start, const Scalar& end, int64_t steps, Tensor& out) {
  ET_CHECK_OR_RETURN(steps >= 0, InvalidArgument, "aten::linspace: steps is %" PRId64 ", must not be negative", steps);
  const int64_t sizes[] = {steps};
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  const double first = start.to<double>();
  const double last = end.to<double>();
  const double step = steps > 1 ? (last - first) / static_cast<double>(steps - 1) : 0.0;
  threads::in_pieces(context, static_cast<size_t>(steps), kLook, [&](size_t begin, size_t stop) {
    for (auto i = static_cast<int64_t>(begin); i < static_cast<int64_t>(stop); ++i) {
      // From both ends, so that the last element is exactly `end`.
      const double value = i < steps / 2 || steps == 1 ? first + step * static_cast<double>(i)
                                                       : last - step * static_cast<double>(steps - 1 - i);
      store_one(out.scalar_type(), value, out.mutable_data_ptr(), i);
    }
  });
  return Error::Ok;
}

Error eye_out(KernelContext& context, int64_t n, Tensor& out) {
  ET_CHECK_OR_RETURN(n >= 0, InvalidArgument, "aten::eye: n is %" PRId64 ", must not be negative", n);
  const int64_t sizes[] = {n, n};
  ET_RETURN_IF_ERROR(fill(context, sizes, zero_scalar(), out));
  alignas(16) char one[16];
  store_scalar(out.scalar_type(), one_scalar(), one);
  Window diagonal = window_of(out);
  diagonal.strides[0] += diagonal.strides[1];
  diagonal.sizes.resize(1);
  diagonal.strides.resize(1);
  fill_window(diagonal, one);
  return Error::Ok;
}

}  // namespace et::kernels::portable
