// Counting: bincount and histc.
#include "kernels/portable/op_count.h"

#include <cmath>

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {
namespace {

// Calls f(position, values, n) for chunks of the elements as C, in memory order; stops at the first error.
template <typename C, typename F>
Error for_each_chunk(const Tensor& tensor, const F& f) {
  constexpr int64_t kChunk = 128;
  C values[kChunk];
  const auto* data = static_cast<const char*>(tensor.const_data_ptr());
  for (int64_t start = 0; start < tensor.numel(); start += kChunk) {
    const int64_t n = tensor.numel() - start < kChunk ? tensor.numel() - start : kChunk;
    load(tensor.scalar_type(), data + start * static_cast<int64_t>(tensor.element_size()), 1, n, values);
    ET_RETURN_IF_ERROR(f(start, static_cast<const C*>(values), n));
  }
  return Error::Ok;
}

}  // namespace

Error bincount_out(KernelContext& context, const Tensor& self, const OptionalTensor& weights, int64_t minlength,
                   Tensor& out) {
  constexpr const char* kOp = "aten::bincount";
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 1, 1));
  ET_CHECK_OR_RETURN(is_integral(self.scalar_type(), false) && minlength >= 0, InvalidArgument,
                     "%s: self is %s, minlength is %" PRId64, kOp, to_string(self.scalar_type()), minlength);
  ET_CHECK_OR_RETURN(!weights.has_value() || weights->numel() == self.numel(), InvalidArgument,
                     "%s: %" PRId64 " weights for %" PRId64 " elements", kOp,
                     weights.has_value() ? weights->numel() : 0, self.numel());
  int64_t count = minlength;
  ET_RETURN_IF_ERROR(for_each_chunk<int64_t>(self, [&](int64_t start, const int64_t* values, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      ET_CHECK_OR_RETURN(values[i] >= 0 && values[i] < INT64_MAX, InvalidArgument,
                         "%s: element %" PRId64 " is %" PRId64 ", must not be negative, and a length fit 63 bits", kOp,
                         start + i, values[i]);
      count = values[i] + 1 > count ? values[i] + 1 : count;
    }
    return Error::Ok;
  }));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {count}));
  const auto sum_up = [&](auto zero) {  // whole numbers, or the weights
    using C = decltype(zero);
    ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(count) * sizeof(C)));
    C* sums = static_cast<C*>(memory);
    for (int64_t i = 0; i < count; ++i) {
      sums[i] = 0;
    }
    ET_RETURN_IF_ERROR(for_each_chunk<int64_t>(self, [&](int64_t start, const int64_t* values, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        if constexpr (std::is_integral_v<C>) {
          ++sums[values[i]];
        } else {
          sums[values[i]] += load_one<double>(weights->scalar_type(), weights->const_data_ptr(), start + i);
        }
      }
      return Error::Ok;
    }));
    store(out.scalar_type(), sums, count, out.mutable_data_ptr(), 1);
    return Error::Ok;
  };
  return weights.has_value() ? sum_up(double{}) : sum_up(int64_t{});
}

Error histc_out(KernelContext& context, const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max,
                Tensor& out) {
  constexpr const char* kOp = "aten::histc";
  ET_CHECK_OR_RETURN(bins > 0, InvalidArgument, "%s: bins is %" PRId64 ", must be positive", kOp, bins);
  double low = min.to<double>();
  double high = max.to<double>();
  if (low == high && self.numel() > 0) {  // the range of the data
    low = high = load_one<double>(self.scalar_type(), self.const_data_ptr());
    ET_RETURN_IF_ERROR(for_each_chunk<double>(self, [&](int64_t, const double* values, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        low = minimum(low, values[i]);
        high = maximum(high, values[i]);
      }
      return Error::Ok;
    }));
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  ET_CHECK_OR_RETURN(std::isfinite(low) && std::isfinite(high) && low < high, InvalidArgument,
                     "%s: the range from %g to %g is not one", kOp, low, high);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {bins}));
  ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(bins) * sizeof(double)));
  double* counts = static_cast<double*>(memory);
  for (int64_t i = 0; i < bins; ++i) {
    counts[i] = 0;
  }
  ET_RETURN_IF_ERROR(for_each_chunk<double>(self, [&](int64_t, const double* values, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      if (values[i] >= low && values[i] <= high) {
        const double place = (values[i] - low) * static_cast<double>(bins) / (high - low);
        // The last one, too, where the range is too wide for a number.
        counts[place < static_cast<double>(bins - 1) ? static_cast<int64_t>(place) : bins - 1] += 1;
      }
    }
    return Error::Ok;
  }));
  store(out.scalar_type(), counts, bins, out.mutable_data_ptr(), 1);
  return Error::Ok;
}

}  // namespace et::kernels::portable
