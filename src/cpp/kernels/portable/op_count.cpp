// Counting: bincount and histc.
#include "kernels/portable/op_count.h"

#include <cmath>

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {
namespace {

int64_t integer_at(const Tensor& tensor, int64_t i) {
  return load_one<int64_t>(tensor.scalar_type(), tensor.const_data_ptr(), i);
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
  for (int64_t i = 0; i < self.numel(); ++i) {
    const int64_t value = integer_at(self, i);
    ET_CHECK_OR_RETURN(value >= 0, InvalidArgument, "%s: element %" PRId64 " is %" PRId64 ", must not be negative", kOp,
                       i, value);
    count = value + 1 > count ? value + 1 : count;
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {count}));
  ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(count) * sizeof(double)));
  double* sums = static_cast<double*>(memory);
  for (int64_t i = 0; i < count; ++i) {
    sums[i] = 0;
  }
  for (int64_t i = 0; i < self.numel(); ++i) {
    sums[integer_at(self, i)] +=
        weights.has_value() ? load_one<double>(weights->scalar_type(), weights->const_data_ptr(), i) : 1.0;
  }
  store(out.scalar_type(), sums, count, out.mutable_data_ptr(), 1);
  return Error::Ok;
}

Error histc_out(KernelContext& context, const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max,
                Tensor& out) {
  constexpr const char* kOp = "aten::histc";
  ET_CHECK_OR_RETURN(bins > 0, InvalidArgument, "%s: bins is %" PRId64 ", must be positive", kOp, bins);
  double low = min.to<double>();
  double high = max.to<double>();
  const auto at = [&](int64_t i) { return load_one<double>(self.scalar_type(), self.const_data_ptr(), i); };
  if (low == high && self.numel() > 0) {  // the range of the data
    low = high = at(0);
    for (int64_t i = 1; i < self.numel(); ++i) {
      low = minimum(low, at(i));
      high = maximum(high, at(i));
    }
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
  for (int64_t i = 0; i < self.numel(); ++i) {
    const double value = at(i);
    if (value >= low && value <= high) {
      const auto bin = static_cast<int64_t>((value - low) * static_cast<double>(bins) / (high - low));
      counts[bin < bins ? bin : bins - 1] += 1;
    }
  }
  store(out.scalar_type(), counts, bins, out.mutable_data_ptr(), 1);
  return Error::Ok;
}

}  // namespace et::kernels::portable
