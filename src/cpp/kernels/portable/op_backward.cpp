// Backward operators of layers, for training graphs and for the gradients that are part of some models.
#include "kernels/portable/op_backward.h"

#include <cmath>
#include <cstring>

#include "base/checked_math.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/index_checks.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {
namespace {

double at(const Tensor& tensor, int64_t i) {
  return load_one<double>(tensor.scalar_type(), tensor.const_data_ptr(), i);
}

Error check_floating(const char* op, const Tensor& tensor) {
  ET_CHECK_OR_RETURN(is_floating(tensor.scalar_type()), InvalidType, "%s: element type is %s, must be floating", op,
                     to_string(tensor.scalar_type()));
  return Error::Ok;
}

// Gradients gather in doubles in scratch memory and are rounded once.
class Sums {
 public:
  Error init(KernelContext& context, int64_t count) {
    size_t nbytes;
    ET_CHECK_OR_RETURN(count >= 0 && !mul_overflow(static_cast<size_t>(count), sizeof(double), &nbytes), OutOfResources,
                       "gradients of %" PRId64 " elements do not fit memory", count);
    ET_TRY(void* memory, context.allocate_temp(nbytes));
    values_ = static_cast<double*>(memory);
    count_ = count;
    std::memset(values_, 0, nbytes);
    return Error::Ok;
  }
  double& operator[](int64_t i) { return values_[i]; }
  void write_to(const Tensor& out) const { store(out.scalar_type(), values_, count_, out.mutable_data_ptr(), 1); }

 private:
  double* values_ = nullptr;
  int64_t count_ = 0;
};

// A gradient, of which each plane (the last two dimensions) belongs to the plane of `self` at the same place.
Error check_planes(const char* op, const Tensor& grad_output, const Tensor& self) {
  ET_RETURN_IF_ERROR(check_floating(op, self));
  ET_RETURN_IF_ERROR(check_rank(op, "self", self, 3, 4));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "grad_output", grad_output, self));
  bool fits = grad_output.dim() == self.dim();
  for (int64_t d = 0; fits && d < self.dim() - 2; ++d) {
    fits = grad_output.size(d) == self.size(d);
  }
  ET_CHECK_OR_RETURN(fits, InvalidArgument, "%s: gradient %s for input %s", op, ShapeText(grad_output.sizes()).text,
                     ShapeText(self.sizes()).text);
  return Error::Ok;
}

// A weight that may be missing: of `count` elements.
Error check_weight(const char* op, const OptionalTensor& weight, int64_t count) {
  ET_CHECK_OR_RETURN(!weight.has_value() || weight->numel() == count, InvalidArgument,
                     "%s: weight %s, must have %" PRId64 " elements", op, ShapeText(weight->sizes()).text, count);
  return Error::Ok;
}

// The output of a mask: an output that is not wanted gets no elements written.
bool wanted(Span<const bool> mask, size_t i) { return i < mask.size() && mask[i]; }

// Size, and zeros for what is not wanted, of a gradient.
Error prepare_gradient(KernelContext& context, const char* op, bool is_wanted, IntArrayRef sizes, const Tensor& out) {
  if (!is_wanted) {
    return resize_tensor(context, out, {0});
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  return check_row_major(op, {&out});
}

}  // namespace

Error native_layer_norm_backward_out(KernelContext& context, const Tensor& grad_out, const Tensor& input,
                                     IntArrayRef normalized_shape, const Tensor& mean, const Tensor& rstd,
                                     const OptionalTensor& weight, const OptionalTensor& /*bias*/,
                                     Span<const bool> output_mask, Tensor& out0, Tensor& out1, Tensor& out2) {
  constexpr const char* kOp = "aten::native_layer_norm_backward";
  ET_RETURN_IF_ERROR(check_floating(kOp, input));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&grad_out, &input}));
  bool fits = normalized_shape.size() <= static_cast<size_t>(input.dim());
  int64_t columns = 1;
  for (size_t i = 0; fits && i < normalized_shape.size(); ++i) {
    const int64_t size = input.size(input.dim() - static_cast<int64_t>(normalized_shape.size() - i));
    fits = normalized_shape[i] == size;
    columns *= size;
  }
  ET_CHECK_OR_RETURN(fits && columns > 0 && equal(grad_out.sizes(), input.sizes()), InvalidArgument,
                     "%s: input %s, normalized_shape %s", kOp, ShapeText(input.sizes()).text,
                     ShapeText(normalized_shape).text);
  ET_RETURN_IF_ERROR(check_weight(kOp, weight, columns));
  const int64_t rows = input.numel() / columns;
  ET_CHECK_OR_RETURN(mean.numel() == rows && rstd.numel() == rows, InvalidArgument, "%s: mean %s for %" PRId64 " rows",
                     kOp, ShapeText(mean.sizes()).text, rows);
  ET_RETURN_IF_ERROR(prepare_gradient(context, kOp, wanted(output_mask, 0), input.sizes(), out0));
  ET_RETURN_IF_ERROR(prepare_gradient(context, kOp, wanted(output_mask, 1), normalized_shape, out1));
  ET_RETURN_IF_ERROR(prepare_gradient(context, kOp, wanted(output_mask, 2), normalized_shape, out2));
  Sums weight_grad;
  Sums bias_grad;
  ET_RETURN_IF_ERROR(weight_grad.init(context, columns));
  ET_RETURN_IF_ERROR(bias_grad.init(context, columns));
  for (int64_t r = 0; r < rows; ++r) {
    const double m = at(mean, r);
    const double s = at(rstd, r);
    double sum = 0;        // of the gradient with respect to the normalised values
    double projected = 0;  // … times the normalised values
    for (int64_t c = 0; c < columns; ++c) {
      const double grad = at(grad_out, r * columns + c);
      const double normal = (at(input, r * columns + c) - m) * s;
      const double inner = weight.has_value() ? grad * at(*weight, c) : grad;
      weight_grad[c] += grad * normal;
      bias_grad[c] += grad;
      sum += inner;
      projected += inner * normal;
    }
    if (!wanted(output_mask, 0)) {
      continue;
    }
    const double count = static_cast<double>(columns);
    for (int64_t c = 0; c < columns; ++c) {
      const double grad = at(grad_out, r * columns + c);
      const double normal = (at(input, r * columns + c) - m) * s;
      const double inner = weight.has_value() ? grad * at(*weight, c) : grad;
      store_one(out0.scalar_type(), s * (inner - (sum + normal * projected) / count), out0.mutable_data_ptr(),
                r * columns + c);
    }
  }
  if (wanted(output_mask, 1)) {
    weight_grad.write_to(out1);
  }
  if (wanted(output_mask, 2)) {
    bias_grad.write_to(out2);
  }
  return Error::Ok;
}

Error native_group_norm_backward_out(KernelContext& context, const Tensor& grad_out, const Tensor& input,
                                     const Tensor& mean, const Tensor& rstd, const OptionalTensor& weight, int64_t N,
                                     int64_t C, int64_t HxW, int64_t group, Span<const bool> output_mask, Tensor& out0,
                                     Tensor& out1, Tensor& out2) {
  constexpr const char* kOp = "aten::native_group_norm_backward";
  ET_RETURN_IF_ERROR(check_floating(kOp, input));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&grad_out, &input}));
  int64_t elements, groups;
  ET_CHECK_OR_RETURN(
      group > 0 && C % group == 0 && whole_product({N, C, HxW}, &elements) && whole_product({N, group}, &groups) &&
          input.numel() == elements && grad_out.numel() == elements && mean.numel() == groups && rstd.numel() == groups,
      InvalidArgument, "%s: input %s is not %" PRId64 " x %" PRId64 " x %" PRId64 " in %" PRId64 " groups", kOp,
      ShapeText(input.sizes()).text, N, C, HxW, group);
  ET_RETURN_IF_ERROR(check_weight(kOp, weight, C));
  ET_RETURN_IF_ERROR(prepare_gradient(context, kOp, wanted(output_mask, 0), input.sizes(), out0));
  ET_RETURN_IF_ERROR(prepare_gradient(context, kOp, wanted(output_mask, 1), {C}, out1));
  ET_RETURN_IF_ERROR(prepare_gradient(context, kOp, wanted(output_mask, 2), {C}, out2));
  Sums weight_grad;
  Sums bias_grad;
  ET_RETURN_IF_ERROR(weight_grad.init(context, C));
  ET_RETURN_IF_ERROR(bias_grad.init(context, C));
  if (elements == 0) {  // nothing bounds the other sizes
    N = 0;
  }
  const int64_t per_group = C / group;
  const double count = static_cast<double>(per_group * HxW);
  for (int64_t g = 0; g < N * group; ++g) {
    const double m = at(mean, g);
    const double s = at(rstd, g);
    const int64_t first_channel = g % group * per_group;
    const int64_t first = g * per_group * HxW;
    double sum = 0;
    double projected = 0;
    for (int64_t i = 0; i < per_group * HxW; ++i) {
      const int64_t c = first_channel + i / HxW;
      const double grad = at(grad_out, first + i);
      const double normal = (at(input, first + i) - m) * s;
      const double inner = weight.has_value() ? grad * at(*weight, c) : grad;
      weight_grad[c] += grad * normal;
      bias_grad[c] += grad;
      sum += inner;
      projected += inner * normal;
    }
    for (int64_t i = 0; wanted(output_mask, 0) && i < per_group * HxW; ++i) {
      const double grad = at(grad_out, first + i);
      const double normal = (at(input, first + i) - m) * s;
      const double inner = weight.has_value() ? grad * at(*weight, first_channel + i / HxW) : grad;
      store_one(out0.scalar_type(), s * (inner - (sum + normal * projected) / count), out0.mutable_data_ptr(),
                first + i);
    }
  }
  if (wanted(output_mask, 1)) {
    weight_grad.write_to(out1);
  }
  if (wanted(output_mask, 2)) {
    bias_grad.write_to(out2);
  }
  return Error::Ok;
}

Error embedding_dense_backward_out(KernelContext& context, const Tensor& grad_output, const Tensor& indices,
                                   int64_t num_weights, int64_t padding_idx, bool scale_grad_by_freq, Tensor& out) {
  constexpr const char* kOp = "aten::embedding_dense_backward";
  ET_RETURN_IF_ERROR(check_floating(kOp, grad_output));
  ET_RETURN_IF_ERROR(check_rank(kOp, "grad_output", grad_output, 1, kMaxRank));
  ET_RETURN_IF_ERROR(check_indices(kOp, indices, num_weights, 0));
  const int64_t width = grad_output.size(-1);
  int64_t elements;
  ET_CHECK_OR_RETURN(whole_product({indices.numel(), width}, &elements) && grad_output.numel() == elements,
                     InvalidArgument, "%s: gradient %s for indices %s", kOp, ShapeText(grad_output.sizes()).text,
                     ShapeText(indices.sizes()).text);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {num_weights, width}));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&grad_output, &indices, &out}));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  Sums sums;
  Sums counts;
  ET_RETURN_IF_ERROR(sums.init(context, num_weights * width));
  ET_RETURN_IF_ERROR(counts.init(context, num_weights));
  for (int64_t i = 0; i < indices.numel(); ++i) {
    counts[index_at(indices, i)] += 1;
  }
  for (int64_t i = 0; i < indices.numel(); ++i) {
    const int64_t index = index_at(indices, i);
    if (index == padding_idx) {
      continue;
    }
    const double scale = scale_grad_by_freq ? 1.0 / counts[index] : 1.0;
    for (int64_t c = 0; c < width; ++c) {
      sums[index * width + c] += at(grad_output, i * width + c) * scale;
    }
  }
  sums.write_to(out);
  return Error::Ok;
}

namespace {

// Adds each gradient to the input position that `indices` names, plane by plane.
Error scatter_planes(KernelContext& context, const char* op, const Tensor& grad_output, const Tensor& self,
                     const Tensor& indices, Tensor& out) {
  ET_RETURN_IF_ERROR(check_planes(op, grad_output, self));
  ET_CHECK_OR_RETURN(equal(grad_output.sizes(), indices.sizes()), InvalidArgument, "%s: gradient %s, indices %s", op,
                     ShapeText(grad_output.sizes()).text, ShapeText(indices.sizes()).text);
  const int64_t plane = self.size(-1) * self.size(-2);
  const int64_t out_plane = grad_output.size(-1) * grad_output.size(-2);
  ET_RETURN_IF_ERROR(check_indices(op, indices, plane, 0));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  ET_RETURN_IF_ERROR(check_row_major(op, {&grad_output, &indices, &out}));
  Sums sums;
  ET_RETURN_IF_ERROR(sums.init(context, self.numel()));
  for (int64_t i = 0; i < grad_output.numel(); ++i) {
    sums[i / out_plane * plane + index_at(indices, i)] += at(grad_output, i);
  }
  sums.write_to(out);
  return Error::Ok;
}

}  // namespace

Error max_pool2d_with_indices_backward_grad_input(KernelContext& context, const Tensor& grad_output, const Tensor& self,
                                                  IntArrayRef, IntArrayRef, IntArrayRef, IntArrayRef, bool,
                                                  const Tensor& indices, Tensor& grad_input) {
  return scatter_planes(context, "aten::max_pool2d_with_indices_backward", grad_output, self, indices, grad_input);
}

Error avg_pool2d_backward_grad_input(KernelContext& context, const Tensor& grad_output, const Tensor& self,
                                     IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, bool,
                                     bool count_include_pad, std::optional<int64_t> divisor_override,
                                     Tensor& grad_input) {
  constexpr const char* kOp = "aten::avg_pool2d_backward";
  ET_RETURN_IF_ERROR(check_planes(kOp, grad_output, self));
  const auto is_between = [](int64_t value, int64_t least) { return value >= least && value <= INT32_MAX; };
  for (size_t d = 0; d < 2; ++d) {
    const int64_t kernel = list_item(kernel_size, d, 1);
    const int64_t in = self.size(static_cast<int64_t>(d) - 2);
    const int64_t pooled = grad_output.size(static_cast<int64_t>(d) - 2);
    ET_CHECK_OR_RETURN(is_between(kernel, 1) && is_between(list_item(stride, d, kernel), 1) &&
                           is_between(list_item(padding, d, 0), 0) && is_between(in, 0) && is_between(pooled, 0) &&
                           divisor_override.value_or(1) != 0,
                       InvalidArgument, "%s: gradient %s for input %s with a kernel of %" PRId64, kOp,
                       ShapeText(grad_output.sizes()).text, ShapeText(self.sizes()).text, kernel);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, grad_input, self.sizes()));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&grad_output, &grad_input}));
  const int64_t height = self.size(-2);
  const int64_t width = self.size(-1);
  const int64_t out_height = grad_output.size(-2);
  const int64_t out_width = grad_output.size(-1);
  if (self.numel() == 0) {  // nothing bounds the other size
    return Error::Ok;
  }
  Sums sums;
  ET_RETURN_IF_ERROR(sums.init(context, self.numel()));
  const auto window = [&](size_t d, int64_t o, int64_t in, int64_t* low, int64_t* high, int64_t* padded) {
    const int64_t kernel = list_item(kernel_size, d, 1);
    const int64_t pad = list_item(padding, d, 0);
    *low = o * list_item(stride, d, kernel) - pad;
    *high = *low + kernel < in + pad ? *low + kernel : in + pad;
    *padded = *high - *low;
    *low = *low < 0 ? 0 : *low;
    *high = *high < in ? *high : in;
  };
  for (int64_t i = 0; i < grad_output.numel(); ++i) {
    const int64_t plane = i / (out_height * out_width);
    int64_t top;
    int64_t bottom;
    int64_t left;
    int64_t right;
    int64_t padded_height;
    int64_t padded_width;
    window(0, i / out_width % out_height, height, &top, &bottom, &padded_height);
    window(1, i % out_width, width, &left, &right, &padded_width);
    const int64_t real = (bottom - top) * (right - left);
    const int64_t divisor = divisor_override.value_or(count_include_pad ? padded_height * padded_width : real);
    const double share = at(grad_output, i) / static_cast<double>(divisor);
    for (int64_t h = top; h < bottom; ++h) {
      for (int64_t w = left; w < right; ++w) {
        sums[(plane * height + h) * width + w] += share;
      }
    }
  }
  sums.write_to(grad_input);
  return Error::Ok;
}

Error adaptive_avg_pool2d_backward_out(KernelContext& context, const Tensor& grad_output, const Tensor& self,
                                       Tensor& out) {
  constexpr const char* kOp = "aten::_adaptive_avg_pool2d_backward";
  ET_RETURN_IF_ERROR(check_planes(kOp, grad_output, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&grad_output, &out}));
  const int64_t in[2] = {self.size(-2), self.size(-1)};
  const int64_t pooled[2] = {grad_output.size(-2), grad_output.size(-1)};
  for (const int64_t size : {in[0], in[1], pooled[0], pooled[1]}) {
    ET_CHECK_OR_RETURN(size <= INT32_MAX, InvalidArgument, "%s: gradient %s for input %s", kOp,
                       ShapeText(grad_output.sizes()).text, ShapeText(self.sizes()).text);
  }
  if (self.numel() == 0) {  // nothing bounds the other size
    return Error::Ok;
  }
  Sums sums;
  ET_RETURN_IF_ERROR(sums.init(context, self.numel()));
  for (int64_t i = 0; i < grad_output.numel(); ++i) {
    const int64_t plane = i / (pooled[0] * pooled[1]);
    const int64_t position[2] = {i / pooled[1] % pooled[0], i % pooled[1]};
    int64_t low[2];
    int64_t high[2];
    for (int d = 0; d < 2; ++d) {
      low[d] = position[d] * in[d] / pooled[d];
      high[d] = ((position[d] + 1) * in[d] + pooled[d] - 1) / pooled[d];
    }
    const double share = at(grad_output, i) / static_cast<double>((high[0] - low[0]) * (high[1] - low[1]));
    for (int64_t h = low[0]; h < high[0]; ++h) {
      for (int64_t w = low[1]; w < high[1]; ++w) {
        sums[(plane * in[0] + h) * in[1] + w] += share;
      }
    }
  }
  sums.write_to(out);
  return Error::Ok;
}

}  // namespace et::kernels::portable
