// Kernels of custom_ops.yaml. Simple and total: each argument shows in the result.
#include <algorithm>
#include <cstring>

#include "custom_ops/kernels.h"

namespace custom_ops {
namespace {

float first(const Tensor& tensor) { return tensor.numel() > 0 ? tensor.const_data_ptr<float>()[0] : 0.0f; }

float number(const Scalar& scalar) { return static_cast<float>(scalar.to<double>()); }

template <typename T>
void scale(const Tensor& x, double by, Tensor& out) {
  const T* from = x.const_data_ptr<T>();
  T* to = out.mutable_data_ptr<T>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    to[i] = static_cast<T>(static_cast<double>(from[i]) * by);
  }
}

}  // namespace

Error everything_out(KernelContext& context, const Tensor& x, const OptionalTensor& y, int64_t i, double f, bool b,
                     const Scalar& s, std::string_view t, IntArrayRef l, Span<const double> fs, Span<const bool> bs,
                     TensorList xs, OptionalTensorList ys, std::optional<ScalarType> dtype, std::optional<int64_t> oi,
                     std::optional<double> of, std::optional<bool> ob, const std::optional<Scalar>& os,
                     std::optional<std::string_view> ot, std::optional<IntArrayRef> ol,
                     std::optional<Span<const double>> ofs, Tensor& out0, Tensor& out1) {
  float sum = static_cast<float>(i) + static_cast<float>(f) + (b ? 1 : 0) + number(s) + static_cast<float>(t.size());
  for (const int64_t value : l) {
    sum += static_cast<float>(value);
  }
  for (const double value : fs) {
    sum += static_cast<float>(value);
  }
  for (const bool value : bs) {
    sum += value ? 10 : 0;
  }
  for (const Tensor& tensor : xs) {
    sum += first(tensor);
  }
  for (const std::optional<Tensor>& tensor : ys) {
    sum += tensor.has_value() ? first(*tensor) : 100;
  }
  float given = dtype.has_value() ? static_cast<float>(static_cast<int>(*dtype)) : -1;
  given += oi.has_value() ? static_cast<float>(*oi) : 0;
  given += of.has_value() ? static_cast<float>(*of) : 0;
  given += ob.has_value() && *ob ? 1 : 0;
  given += os.has_value() ? number(*os) : 0;
  given += ot.has_value() ? static_cast<float>(ot->size()) : 0;
  for (const int64_t value : ol.value_or(IntArrayRef())) {
    given += static_cast<float>(value);
  }
  for (const double value : ofs.value_or(Span<const double>())) {
    given += static_cast<float>(value);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out0, x.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out1, x.sizes()));
  for (int64_t k = 0; k < x.numel(); ++k) {
    const float own = x.const_data_ptr<float>()[k] + (y.has_value() ? y->const_data_ptr<float>()[k] : 0);
    out0.mutable_data_ptr<float>()[k] = own + sum;
    out1.mutable_data_ptr<float>()[k] = own + given;
  }
  return Error::Ok;
}

Error add_(KernelContext&, Tensor& x, const Tensor& y, double by) {
  ET_CHECK_OR_RETURN(equal(x.sizes(), y.sizes()), InvalidArgument, "test_ops::add_: sizes differ");
  for (int64_t k = 0; k < x.numel(); ++k) {
    x.mutable_data_ptr<float>()[k] += static_cast<float>(by) * y.const_data_ptr<float>()[k];
  }
  return Error::Ok;
}

Error accumulate(KernelContext& context, Tensor& total, const Tensor& x, Tensor& out) {
  ET_RETURN_IF_ERROR(add_(context, total, x, 1));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, total.sizes()));
  scale<float>(total, 2, out);
  return Error::Ok;
}

Error swap_(KernelContext&, Tensor& first, Tensor& second) {
  ET_CHECK_OR_RETURN(equal(first.sizes(), second.sizes()), InvalidArgument, "test_ops::swap_: sizes differ");
  float* a = first.mutable_data_ptr<float>();
  std::swap_ranges(a, a + first.numel(), second.mutable_data_ptr<float>());
  return Error::Ok;
}

Error scale_out(KernelContext& context, const Tensor& x, double by, Tensor& out) {
  ET_RETURN_IF_ERROR(resize_tensor(context, out, x.sizes()));
  ET_CHECK_OR_RETURN(x.scalar_type() == ScalarType::Double, NotSupported, "test_ops::scale: %s is not supported",
                     to_string(x.scalar_type()));
  scale<double>(x, by, out);
  return Error::Ok;
}

Error scale_float_out(KernelContext& context, const Tensor& x, double by, Tensor& out) {
  ET_RETURN_IF_ERROR(resize_tensor(context, out, x.sizes()));
  scale<float>(x, by, out);
  return Error::Ok;
}

Error scale_nhwc_out(KernelContext& context, const Tensor& x, double by, Tensor& out) {
  return scale_float_out(context, x, by, out);
}

Error scale_int_out(KernelContext& context, const Tensor& x, double by, Tensor& out) {
  ET_RETURN_IF_ERROR(resize_tensor(context, out, x.sizes()));
  x.scalar_type() == ScalarType::Int ? scale<int32_t>(x, by, out) : scale<int64_t>(x, by, out);
  return Error::Ok;
}

Error positive_out(KernelContext& context, const Tensor& x, Tensor& out) {
  const float* from = x.const_data_ptr<float>();
  const int64_t sizes[] = {std::count_if(from, from + x.numel(), [](float value) { return value > 0; })};
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  std::copy_if(from, from + x.numel(), out.mutable_data_ptr<float>(), [](float value) { return value > 0; });
  return Error::Ok;
}

Error halve_into(KernelContext& context, const Tensor& x, Tensor& half) {
  ET_RETURN_IF_ERROR(resize_tensor(context, half, x.sizes()));
  scale<float>(x, 0.5, half);
  return Error::Ok;
}

Error affine_out(KernelContext& context, const Tensor& x, double a, double b, Tensor& out) {
  ET_RETURN_IF_ERROR(resize_tensor(context, out, x.sizes()));
  for (int64_t k = 0; k < x.numel(); ++k) {
    out.mutable_data_ptr<float>()[k] = static_cast<float>(a) * x.const_data_ptr<float>()[k] + static_cast<float>(b);
  }
  return Error::Ok;
}

Error shift_(KernelContext&, Tensor& x, double by) {
  for (int64_t k = 0; k < x.numel(); ++k) {
    x.mutable_data_ptr<float>()[k] += static_cast<float>(by);
  }
  return Error::Ok;
}

Error wrong_out(KernelContext&, const Tensor&, int64_t, Tensor&) { return Error::Ok; }

}  // namespace custom_ops
