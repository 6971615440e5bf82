// Random operators beside rand and randn: normal and uniform numbers with parameters, and activations that draw.
#include "kernels/portable/op_normal.h"

#include <algorithm>

#include "kernels/portable/convert.h"
#include "kernels/portable/promote.h"
#include "kernels/portable/random.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {
namespace {

/// A number, or a tensor of numbers that broadcasts to the output.
class Parameter {
 public:
  explicit Parameter(double value) : value_(value) {}
  Parameter(const Tensor& tensor, IntArrayRef sizes)
      : tensor_(&tensor), is_in_order_(equal(tensor.sizes(), sizes) && is_contiguous(tensor)), sizes_(sizes) {}

  /// For element `position` of the output, counted in row-major order.
  double at(int64_t position) const {
    if (tensor_ == nullptr) {
      return value_;
    }
    int64_t offset = is_in_order_ ? position : 0;
    const int64_t missing = static_cast<int64_t>(sizes_.size()) - tensor_->dim();
    for (int64_t d = static_cast<int64_t>(sizes_.size()) - 1; d >= missing && !is_in_order_; --d) {
      if (tensor_->size(d - missing) != 1) {
        offset += position % sizes_[d] * tensor_->stride(d - missing);
      }
      position /= sizes_[d];
    }
    return load_one<double>(tensor_->scalar_type(), tensor_->const_data_ptr(), offset);
  }

 private:
  double value_ = 0.0;
  const Tensor* tensor_ = nullptr;
  bool is_in_order_ = false;
  Sizes sizes_;
};

constexpr int64_t kChunk = 128;  // elements that are converted at once

Error check_deviations(const char* op, const Tensor& std) {
  double values[kChunk];
  const auto* data = static_cast<const char*>(std.const_data_ptr());
  for (int64_t start = 0; start < std.numel(); start += kChunk) {
    const int64_t n = std.numel() - start < kChunk ? std.numel() - start : kChunk;
    load(std.scalar_type(), data + start * static_cast<int64_t>(std.element_size()), 1, n, values);
    for (int64_t i = 0; i < n; ++i) {
      ET_CHECK_OR_RETURN(values[i] >= 0, InvalidArgument, "%s: a standard deviation is %g, must not be negative", op,
                         values[i]);
    }
  }
  return Error::Ok;
}

// out[i] = draw(philox, i, zero), drawn in the type of `zero`.
template <typename Draw>
Error fill(KernelContext& context, const char* op, IntArrayRef sizes, Tensor& out, const Draw& draw) {
  ET_CHECK_OR_RETURN(is_floating(out.scalar_type()), InvalidType, "%s: out is %s, takes floating types", op,
                     to_string(out.scalar_type()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  ET_RETURN_IF_ERROR(check_row_major(op, {&out}));
  Philox philox(context.random());
  return dispatch_float(out.scalar_type(), [&](auto zero) {
    decltype(zero) values[kChunk];
    auto* data = static_cast<char*>(out.mutable_data_ptr());
    for (int64_t start = 0; start < out.numel() && !context.cancelled(); start += kChunk) {
      const int64_t n = out.numel() - start < kChunk ? out.numel() - start : kChunk;
      for (int64_t i = 0; i < n; ++i) {
        values[i] = draw(philox, start + i, zero);
      }
      store(out.scalar_type(), values, n, data + start * static_cast<int64_t>(out.element_size()), 1);
    }
    return Error::Ok;
  });
}

Error normal(KernelContext& context, IntArrayRef sizes, const Parameter& mean, const Parameter& std, Tensor& out) {
  return fill(context, "aten::normal", sizes, out, [&](Philox& philox, int64_t i, auto zero) {
    using T = decltype(zero);
    return static_cast<T>(mean.at(i) + std.at(i) * static_cast<double>(philox.normal<T>()));
  });
}

}  // namespace

Error normal_out(KernelContext& context, const Tensor& self, double mean, double std, std::optional<int64_t>,
                 Tensor& out) {
  ET_CHECK_OR_RETURN(std >= 0, InvalidArgument, "aten::normal: the standard deviation is %g, must not be negative",
                     std);
  return normal(context, self.sizes(), Parameter(mean), Parameter(std), out);
}

Error normal_float_float_out(KernelContext& context, double mean, double std, IntArrayRef size, std::optional<int64_t>,
                             Tensor& out) {
  ET_CHECK_OR_RETURN(std >= 0, InvalidArgument, "aten::normal: the standard deviation is %g, must not be negative",
                     std);
  return normal(context, size, Parameter(mean), Parameter(std), out);
}

Error normal_tensor_float_out(KernelContext& context, const Tensor& mean, double std, std::optional<int64_t>,
                              Tensor& out) {
  ET_CHECK_OR_RETURN(std >= 0, InvalidArgument, "aten::normal: the standard deviation is %g, must not be negative",
                     std);
  return normal(context, mean.sizes(), Parameter(mean, mean.sizes()), Parameter(std), out);
}

Error normal_float_tensor_out(KernelContext& context, double mean, const Tensor& std, std::optional<int64_t>,
                              Tensor& out) {
  ET_RETURN_IF_ERROR(check_deviations("aten::normal", std));
  return normal(context, std.sizes(), Parameter(mean), Parameter(std, std.sizes()), out);
}

Error normal_tensor_tensor_out(KernelContext& context, const Tensor& mean, const Tensor& std, std::optional<int64_t>,
                               Tensor& out) {
  ET_RETURN_IF_ERROR(check_deviations("aten::normal", std));
  Sizes sizes;
  ET_RETURN_IF_ERROR(broadcast_sizes("aten::normal", mean.sizes(), std.sizes(), &sizes));
  return normal(context, sizes, Parameter(mean, sizes), Parameter(std, sizes), out);
}

Error uniform_out(KernelContext& context, const Tensor& self, double from, double to, std::optional<int64_t>,
                  Tensor& out) {
  ET_CHECK_OR_RETURN(from <= to, InvalidArgument, "aten::uniform: from %g is above to %g", from, to);
  return fill(context, "aten::uniform", self.sizes(), out, [=](Philox& philox, int64_t, auto zero) {
    using T = decltype(zero);
    return static_cast<T>(from + (to - from) * static_cast<double>(philox.uniform<T>()));
  });
}

Error rrelu_with_noise_functional_out(KernelContext& context, const Tensor& self, const Tensor& noise,
                                      const Scalar& lower, const Scalar& upper, bool training, std::optional<int64_t>,
                                      Tensor& out, Tensor& noise_out) {
  constexpr const char* kOp = "aten::rrelu_with_noise_functional";
  const ScalarType dtype = self.scalar_type();
  ET_CHECK_OR_RETURN(is_floating(dtype), InvalidType, "%s: self is %s, takes floating types", kOp, to_string(dtype));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  ET_CHECK_OR_RETURN(equal(self.sizes(), noise.sizes()), InvalidArgument, "%s: self %s and noise %s differ in shape",
                     kOp, ShapeText(self.sizes()).text, ShapeText(noise.sizes()).text);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, noise_out, noise.sizes()));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&self, &noise, &out, &noise_out}));
  const double low = lower.to<double>();
  const double high = upper.to<double>();
  Philox philox(context.random());
  constexpr int64_t kChunk = 128;
  double values[kChunk];
  double slopes[kChunk];
  const auto size = static_cast<int64_t>(self.element_size());
  const auto noise_size = static_cast<int64_t>(noise_out.element_size());
  const auto* const from = static_cast<const char*>(self.const_data_ptr());
  for (int64_t first = 0; first < self.numel() && !context.cancelled(); first += kChunk) {
    const int64_t n = std::min(kChunk, self.numel() - first);
    load(dtype, from + first * size, 1, n, values);
    for (int64_t i = 0; i < n; ++i) {
      const bool is_drawn = training && values[i] <= 0;
      slopes[i] = is_drawn ? low + (high - low) * philox.uniform<double>() : values[i] > 0 ? 1.0 : 0.5 * (low + high);
      values[i] *= slopes[i];
    }
    store(dtype, values, n, static_cast<char*>(out.mutable_data_ptr()) + first * size, 1);
    if (!training) {
      const auto* const kept = static_cast<const char*>(noise.const_data_ptr());
      load(noise.scalar_type(), kept + first * static_cast<int64_t>(noise.element_size()), 1, n, slopes);
    }
    store(noise_out.scalar_type(), slopes, n, static_cast<char*>(noise_out.mutable_data_ptr()) + first * noise_size, 1);
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
