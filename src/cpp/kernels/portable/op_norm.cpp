// Normalisation layers. Statistics are accumulated in double, in two passes.
#include "kernels/portable/op_norm.h"

#include <cmath>

#include "kernels/portable/convert.h"
#include "kernels/portable/loop_nest.h"
#include "kernels/portable/reduce.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::portable {
namespace {

constexpr int64_t kChunk = 128;

// The elements of one group (a row, a channel, a group of channels), wherever they lie: outer x inner loops.
struct Lane {
  const char* data;
  int64_t outer;
  int64_t outer_stride;  // elements
  int64_t inner;
  int64_t inner_stride;
};

// Calls f(address offset in elements, values, n) for chunks of the lane.
template <typename C, typename F>
void for_each_chunk(const Lane& lane, ScalarType dtype, F&& f) {
  C buffer[kChunk];
  const int64_t size = static_cast<int64_t>(element_size(dtype));
  for (int64_t o = 0; o < lane.outer; ++o) {
    for (int64_t i = 0; i < lane.inner; i += kChunk) {
      const int64_t n = lane.inner - i < kChunk ? lane.inner - i : kChunk;
      const int64_t offset = o * lane.outer_stride + i * lane.inner_stride;
      load(dtype, lane.data + offset * size, lane.inner_stride, n, buffer);
      f(o, i, static_cast<C*>(buffer), n);
    }
  }
}

struct Statistics {
  double mean;
  double variance;  // biased: divided by the number of elements
};

template <typename C>
Statistics statistics_of(const Lane& lane, ScalarType dtype) {
  const double count = static_cast<double>(lane.outer * lane.inner);
  double sum = 0;
  for_each_chunk<C>(lane, dtype, [&](int64_t, int64_t, C* values, int64_t n) { add_run(sum, values, n); });
  const double mean = sum / count;
  double squares = 0;
  for_each_chunk<C>(lane, dtype, [&](int64_t, int64_t, C* values, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const double distance = static_cast<double>(values[i]) - mean;
      squares += distance * distance;
    }
  });
  return {mean, squares / count};
}

Error check_floating(const char* op, const Tensor& tensor) {
  ET_CHECK_OR_RETURN(is_floating(tensor.scalar_type()), InvalidType, "%s: input is %s, must be floating", op,
                     to_string(tensor.scalar_type()));
  return Error::Ok;
}

// A [channels] parameter, or none.
Error check_parameter(const char* op, const char* name, const OptionalTensor& tensor, int64_t channels) {
  if (tensor.has_value()) {
    ET_CHECK_OR_RETURN(tensor->numel() == channels && is_floating(tensor->scalar_type()), InvalidArgument,
                       "%s: %s has shape %s, expected %" PRId64 " floating elements", op, name,
                       ShapeText(tensor->sizes()).text, channels);
  }
  return Error::Ok;
}

template <typename C>
C parameter_at(const OptionalTensor& tensor, int64_t i, C otherwise) {
  return tensor.has_value() ? load_one<C>(tensor->scalar_type(), tensor->const_data_ptr(), i) : otherwise;
}

// Batch norm works channel by channel: a lane is one channel of one sample, or of all of them.
struct Channels {
  int64_t batch;
  int64_t channels;
  int64_t inner;
};

Error plan_batch_norm(const char* op, const Tensor& input, const Tensor& out, const OptionalTensor& weight,
                      const OptionalTensor& bias, Channels* c) {
  ET_RETURN_IF_ERROR(check_floating(op, input));
  const bool is_empty_list = input.dim() == 1 && input.numel() == 0;  // the only vector that ATen takes
  ET_RETURN_IF_ERROR(check_rank(op, "input", input, is_empty_list ? 1 : 2, kMaxRank));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, input));
  c->batch = input.size(0);
  c->channels = is_empty_list ? 0 : input.size(1);
  c->inner = product(input.sizes(), 2, static_cast<size_t>(input.dim()));
  ET_RETURN_IF_ERROR(check_parameter(op, "weight", weight, c->channels));
  return check_parameter(op, "bias", bias, c->channels);
}

// out = (input - mean[c]) * invstd[c] * weight[c] + bias[c], for any dim order.
template <typename C, typename Scale>
void apply_channels(const KernelContext& context, const Tensor& input, const Tensor& out, int64_t channels,
                    const Scale& scale_of) {
  for (int64_t c = 0; c < channels && !context.cancelled(); ++c) {
    const auto [scale, shift] = scale_of(c);
    const Window from = select_of(input, 1, c);
    const Window to = select_of(out, 1, c);
    LoopNest nest(from.sizes);
    nest.add(to.data, to.strides, out.element_size());
    nest.add(from.data, from.strides, input.element_size());
    nest.simplify();
    const int64_t size = static_cast<int64_t>(input.element_size());
    nest.for_each_run([&, scale = scale, shift = shift](char* const* pointers, int64_t n) {
      C buffer[kChunk];
      for (int64_t start = 0; start < n; start += kChunk) {
        const int64_t count = n - start < kChunk ? n - start : kChunk;
        load(input.scalar_type(), pointers[1] + start * nest.run_stride(1), nest.run_stride(1) / size, count, buffer);
        for (int64_t i = 0; i < count; ++i) {
          buffer[i] = buffer[i] * scale + shift;
        }
        store(out.scalar_type(), buffer, count, pointers[0] + start * nest.run_stride(0), nest.run_stride(0) / size);
      }
    });
  }
}

template <typename C>
struct ScaleShift {
  C scale;
  C shift;
};

template <typename C>
ScaleShift<C> scale_shift(double mean, double invstd, const OptionalTensor& weight, const OptionalTensor& bias,
                          int64_t c) {
  const double scale = invstd * static_cast<double>(parameter_at<C>(weight, c, C(1)));
  return {static_cast<C>(scale), static_cast<C>(static_cast<double>(parameter_at<C>(bias, c, C(0))) - mean * scale)};
}

// Statistics of channel c over the batch and the inner dimensions.
template <typename C>
Statistics channel_statistics(const Tensor& input, int64_t c, double count) {
  const Window window = select_of(input, 1, c);
  const int64_t size = static_cast<int64_t>(input.element_size());
  LoopNest nest(window.sizes);
  nest.add(window.data, window.strides, input.element_size());
  nest.simplify();
  const auto for_each_value = [&](auto&& f) {
    nest.for_each_run([&](char* const* pointers, int64_t n) {
      const Lane lane{pointers[0], 1, 0, n, nest.run_stride(0) / size};
      for_each_chunk<C>(lane, input.scalar_type(), [&](int64_t, int64_t, C* values, int64_t m) { f(values, m); });
    });
  };
  double sum = 0;
  for_each_value([&](C* values, int64_t n) { add_run(sum, values, n); });
  const double mean = sum / count;
  double squares = 0;
  for_each_value([&](C* values, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const double distance = static_cast<double>(values[i]) - mean;
      squares += distance * distance;
    }
  });
  return {mean, squares / count};
}

// Training batch norm: statistics of the batch; running statistics are updated when given.
Error train_batch_norm(KernelContext& context, const char* op, const Tensor& input, const OptionalTensor& weight,
                       const OptionalTensor& bias, const Tensor* running_mean, const Tensor* running_var,
                       double momentum, double eps, Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  Channels c;
  ET_RETURN_IF_ERROR(plan_batch_norm(op, input, out, weight, bias, &c));
  if (running_mean != nullptr) {
    ET_RETURN_IF_ERROR(check_parameter(op, "running_mean", *running_mean, c.channels));
    ET_RETURN_IF_ERROR(check_parameter(op, "running_var", *running_var, c.channels));
  }
  const int64_t count = c.batch * c.inner;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, input.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, save_mean, {c.channels}));
  ET_RETURN_IF_ERROR(resize_tensor(context, save_invstd, {c.channels}));
  return dispatch_float(input.scalar_type(), [&](auto zero) {
    using C = decltype(zero);
    apply_channels<C>(context, input, out, c.channels, [&](int64_t channel) {
      const Statistics s = channel_statistics<C>(input, channel, static_cast<double>(count));
      const double invstd = 1.0 / std::sqrt(s.variance + eps);
      store_one(save_mean.scalar_type(), s.mean, save_mean.mutable_data_ptr(), channel);
      store_one(save_invstd.scalar_type(), invstd, save_invstd.mutable_data_ptr(), channel);
      if (running_mean != nullptr) {
        const double old_mean = load_one<double>(running_mean->scalar_type(), running_mean->const_data_ptr(), channel);
        const double old_var = load_one<double>(running_var->scalar_type(), running_var->const_data_ptr(), channel);
        const double unbiased = s.variance * static_cast<double>(count) / static_cast<double>(count - 1);
        store_one(running_mean->scalar_type(), old_mean + momentum * (s.mean - old_mean),
                  running_mean->mutable_data_ptr(), channel);
        store_one(running_var->scalar_type(), old_var + momentum * (unbiased - old_var),
                  running_var->mutable_data_ptr(), channel);
      }
      return scale_shift<C>(s.mean, invstd, weight, bias, channel);
    });
    return Error::Ok;
  });
}

Error infer_batch_norm(KernelContext& context, const char* op, const Tensor& input, const OptionalTensor& weight,
                       const OptionalTensor& bias, const Tensor& running_mean, const Tensor& running_var, double eps,
                       Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  Channels c;
  ET_RETURN_IF_ERROR(plan_batch_norm(op, input, out, weight, bias, &c));
  ET_RETURN_IF_ERROR(check_parameter(op, "running_mean", running_mean, c.channels));
  ET_RETURN_IF_ERROR(check_parameter(op, "running_var", running_var, c.channels));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, input.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, save_mean, {0}));
  ET_RETURN_IF_ERROR(resize_tensor(context, save_invstd, {0}));
  return dispatch_float(input.scalar_type(), [&](auto zero) {
    using C = decltype(zero);
    apply_channels<C>(context, input, out, c.channels, [&](int64_t channel) {
      const double mean = load_one<double>(running_mean.scalar_type(), running_mean.const_data_ptr(), channel);
      const double var = load_one<double>(running_var.scalar_type(), running_var.const_data_ptr(), channel);
      return scale_shift<C>(mean, 1.0 / std::sqrt(var + eps), weight, bias, channel);
    });
    return Error::Ok;
  });
}

}  // namespace

Error native_batch_norm_legit_no_training_out(KernelContext& context, const Tensor& input, const OptionalTensor& weight,
                                              const OptionalTensor& bias, const Tensor& running_mean,
                                              const Tensor& running_var, double, double eps, Tensor& out0, Tensor& out1,
                                              Tensor& out2) {
  return infer_batch_norm(context, "aten::_native_batch_norm_legit_no_training", input, weight, bias, running_mean,
                          running_var, eps, out0, out1, out2);
}

Error native_batch_norm_legit_out(KernelContext& context, const Tensor& input, const OptionalTensor& weight,
                                  const OptionalTensor& bias, Tensor& running_mean, Tensor& running_var, bool training,
                                  double momentum, double eps, Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  constexpr const char* kOp = "aten::_native_batch_norm_legit";
  if (training) {
    return train_batch_norm(context, kOp, input, weight, bias, &running_mean, &running_var, momentum, eps, out,
                            save_mean, save_invstd);
  }
  return infer_batch_norm(context, kOp, input, weight, bias, running_mean, running_var, eps, out, save_mean,
                          save_invstd);
}

Error native_batch_norm_legit_functional_out(KernelContext& context, const Tensor& input, const OptionalTensor& weight,
                                             const OptionalTensor& bias, const Tensor& running_mean,
                                             const Tensor& running_var, bool training, double momentum, double eps,
                                             Tensor& out, Tensor& save_mean, Tensor& save_invstd,
                                             Tensor& running_mean_out, Tensor& running_var_out) {
  constexpr const char* kOp = "aten::_native_batch_norm_legit_functional";
  // The statistics that move are copies; PyTorch's own shape function makes those of 16-bit floats floats.
  ET_RETURN_IF_ERROR(check_floating(kOp, running_mean_out));
  ET_RETURN_IF_ERROR(copy_tensor(context, running_mean, running_mean_out));
  ET_RETURN_IF_ERROR(check_floating(kOp, running_var_out));
  ET_RETURN_IF_ERROR(copy_tensor(context, running_var, running_var_out));
  return native_batch_norm_legit_out(context, input, weight, bias, running_mean_out, running_var_out, training,
                                     momentum, eps, out, save_mean, save_invstd);
}

Error native_batch_norm_legit_no_stats_out(KernelContext& context, const Tensor& input, const OptionalTensor& weight,
                                           const OptionalTensor& bias, bool, double momentum, double eps, Tensor& out,
                                           Tensor& save_mean, Tensor& save_invstd) {
  return train_batch_norm(context, "aten::_native_batch_norm_legit", input, weight, bias, nullptr, nullptr, momentum,
                          eps, out, save_mean, save_invstd);
}

Error native_batch_norm_out(KernelContext& context, const Tensor& input, const OptionalTensor& weight,
                            const OptionalTensor& bias, const OptionalTensor& running_mean,
                            const OptionalTensor& running_var, bool training, double momentum, double eps, Tensor& out,
                            Tensor& save_mean, Tensor& save_invstd) {
  constexpr const char* kOp = "aten::native_batch_norm";
  const bool has_running = running_mean.has_value() && running_var.has_value();
  if (training) {
    return train_batch_norm(context, kOp, input, weight, bias, has_running ? &*running_mean : nullptr,
                            has_running ? &*running_var : nullptr, momentum, eps, out, save_mean, save_invstd);
  }
  ET_CHECK_OR_RETURN(has_running, InvalidArgument, "%s: inference needs running_mean and running_var", kOp);
  return infer_batch_norm(context, kOp, input, weight, bias, *running_mean, *running_var, eps, out, save_mean,
                          save_invstd);
}

Error rms_norm_out(KernelContext& context, const Tensor& input, const OptionalTensor& weight, double eps, Tensor& out) {
  constexpr const char* kOp = "et::rms_norm";
  ET_RETURN_IF_ERROR(check_floating(kOp, input));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, input));
  ET_RETURN_IF_ERROR(check_rank(kOp, "input", input, 1, kMaxRank));
  const int64_t columns = input.size(input.dim() - 1);
  ET_RETURN_IF_ERROR(check_parameter(kOp, "weight", weight, columns));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, input.sizes()));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&input, &out}));
  const int64_t rows = columns == 0 ? 0 : product(input.sizes(), 0, static_cast<size_t>(input.dim() - 1));
  const ScalarType dtype = input.scalar_type();
  return dispatch_float(dtype, [&](auto zero) {
    using C = decltype(zero);
    const auto size = static_cast<int64_t>(input.element_size());
    for (int64_t r = 0; r < rows && !context.cancelled(); ++r) {
      const Lane lane{static_cast<const char*>(input.const_data_ptr()) + r * columns * size, 1, 0, columns, 1};
      double squares = 0;
      for_each_chunk<C>(lane, dtype, [&](int64_t, int64_t, C* values, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          squares += static_cast<double>(values[i] * values[i]);
        }
      });
      const C factor = static_cast<C>(1.0 / std::sqrt(squares / static_cast<double>(columns) + eps));
      char* target = static_cast<char*>(out.mutable_data_ptr()) + r * columns * size;
      for_each_chunk<C>(lane, dtype, [&](int64_t, int64_t start, C* values, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          values[i] = values[i] * factor * parameter_at<C>(weight, start + i, C(1));
        }
        store(dtype, values, n, target + start * size, 1);
      });
    }
    return Error::Ok;
  });
}

Error native_layer_norm_out(KernelContext& context, const Tensor& input, IntArrayRef normalized_shape,
                            const OptionalTensor& weight, const OptionalTensor& bias, double eps, Tensor& out0,
                            Tensor& out1, Tensor& out2) {
  constexpr const char* kOp = "aten::native_layer_norm";
  ET_RETURN_IF_ERROR(check_floating(kOp, input));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out0", out0, input));
  const int64_t lead = input.dim() - static_cast<int64_t>(normalized_shape.size());
  ET_CHECK_OR_RETURN(lead >= 0 && !normalized_shape.empty() &&
                         equal(IntArrayRef(input.sizes()).subspan(static_cast<size_t>(lead), normalized_shape.size()),
                               normalized_shape),
                     InvalidArgument, "%s: input %s does not end in normalized_shape %s", kOp,
                     ShapeText(input.sizes()).text, ShapeText(normalized_shape).text);
  const int64_t columns = product(normalized_shape, 0, normalized_shape.size());
  ET_RETURN_IF_ERROR(check_parameter(kOp, "weight", weight, columns));
  ET_RETURN_IF_ERROR(check_parameter(kOp, "bias", bias, columns));
  Sizes statistic_sizes(input.sizes());
  for (int64_t d = lead; d < input.dim(); ++d) {
    statistic_sizes[d] = 1;
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out0, input.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out1, statistic_sizes));
  ET_RETURN_IF_ERROR(resize_tensor(context, out2, statistic_sizes));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&input, &out0}));
  const int64_t rows = product(input.sizes(), 0, static_cast<size_t>(lead));
  const ScalarType dtype = input.scalar_type();
  return dispatch_float(dtype, [&](auto zero) {
    using C = decltype(zero);
    const int64_t row_bytes = columns * static_cast<int64_t>(input.element_size());
    for (int64_t r = 0; r < rows && !context.cancelled(); ++r) {
      const Lane lane{static_cast<const char*>(input.const_data_ptr()) + r * row_bytes, 1, 0, columns, 1};
      const Statistics s = statistics_of<C>(lane, dtype);
      const double rstd = 1.0 / std::sqrt(s.variance + eps);
      store_one(out1.scalar_type(), s.mean, out1.mutable_data_ptr(), r);
      store_one(out2.scalar_type(), rstd, out2.mutable_data_ptr(), r);
      char* target = static_cast<char*>(out0.mutable_data_ptr()) + r * row_bytes;
      for_each_chunk<C>(lane, dtype, [&](int64_t, int64_t start, C* values, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          const C normal = (values[i] - static_cast<C>(s.mean)) * static_cast<C>(rstd);
          values[i] = normal * parameter_at<C>(weight, start + i, C(1)) + parameter_at<C>(bias, start + i, C(0));
        }
        store(dtype, values, n, target + start * static_cast<int64_t>(input.element_size()), 1);
      });
    }
    return Error::Ok;
  });
}

Error native_group_norm_out(KernelContext& context, const Tensor& input, const OptionalTensor& weight,
                            const OptionalTensor& bias, int64_t N, int64_t C_, int64_t HxW, int64_t group, double eps,
                            Tensor& out0, Tensor& out1, Tensor& out2) {
  constexpr const char* kOp = "aten::native_group_norm";
  ET_RETURN_IF_ERROR(check_floating(kOp, input));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out0", out0, input));
  const bool channels_last = !is_contiguous(input) && is_channels_last(input);
  int64_t elements = 0;
  ET_CHECK_OR_RETURN(group > 0 && C_ % group == 0 && whole_product({N, C_, HxW}, &elements) &&
                         input.numel() == elements && (!channels_last || (N == input.size(0) && C_ == input.size(1))),
                     InvalidArgument,
                     "%s: input %s is not %" PRId64 " x %" PRId64 " x %" PRId64 " in %" PRId64 " groups", kOp,
                     ShapeText(input.sizes()).text, N, C_, HxW, group);
  ET_RETURN_IF_ERROR(check_parameter(kOp, "weight", weight, C_));
  ET_RETURN_IF_ERROR(check_parameter(kOp, "bias", bias, C_));
  ET_RETURN_IF_ERROR(resize_tensor(context, out0, input.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out1, {N, group}));
  ET_RETURN_IF_ERROR(resize_tensor(context, out2, {N, group}));
  if (channels_last) {
    ET_CHECK_OR_RETURN(is_channels_last(out0), InvalidArgument, "%s: out0 has another dim order than the input", kOp);
  } else {
    ET_RETURN_IF_ERROR(check_row_major(kOp, {&input, &out0}));
  }
  if (elements == 0) {  // nothing bounds the other sizes
    return Error::Ok;
  }
  const int64_t per_group = C_ / group;
  const ScalarType dtype = input.scalar_type();
  const int64_t size = static_cast<int64_t>(input.element_size());
  return dispatch_float(dtype, [&](auto zero) {
    using C = decltype(zero);
    for (int64_t g = 0; g < N * group && !context.cancelled(); ++g) {
      const int64_t channel_step = channels_last ? 1 : HxW;
      const int64_t pixel_step = channels_last ? C_ : 1;
      const int64_t first = (g / group * C_ * HxW + g % group * per_group * channel_step) * size;
      const Lane lane{static_cast<const char*>(input.const_data_ptr()) + first, per_group, channel_step, HxW,
                      pixel_step};
      const Statistics s = statistics_of<C>(lane, dtype);
      const double rstd = 1.0 / std::sqrt(s.variance + eps);
      store_one(out1.scalar_type(), s.mean, out1.mutable_data_ptr(), g);
      store_one(out2.scalar_type(), rstd, out2.mutable_data_ptr(), g);
      char* target = static_cast<char*>(out0.mutable_data_ptr()) + first;
      for_each_chunk<C>(lane, dtype, [&](int64_t channel, int64_t start, C* values, int64_t n) {
        const auto [scale, shift] = scale_shift<C>(s.mean, rstd, weight, bias, (g % group) * per_group + channel);
        for (int64_t i = 0; i < n; ++i) {
          values[i] = values[i] * scale + shift;
        }
        store(dtype, values, n, target + (channel * channel_step + start * pixel_step) * size, pixel_step);
      });
    }
    return Error::Ok;
  });
}

}  // namespace et::kernels::portable
