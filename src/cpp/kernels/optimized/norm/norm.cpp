// Normalisation: native_layer_norm and native_group_norm. Batch norm is in batch_norm.cpp.
//
// Rows are read two or three times while they are in the cache: mean, then squared deviations from it, then the result.
// That is as exact as Welford's method and needs no division in the loop. Tensors of 16-bit floats are converted first,
// and what comes out is rounded once.
//
// Group norm of channels-last images takes its statistics from blocks of pixels, each while it is in the cache. Vectors
// go over channels, and the blocks' means and squared deviations are put together as in T. Chan, G. Golub, R. LeVeque,
// "Updating formulae and a pairwise algorithm for computing sample variances", 1979.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cmath>

#include "base/rounding.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/float_tensors.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::norm::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void MeanAndRstd(const T* x, size_t n, T eps, T* mean, T* rstd) {
  const T m = sum_of([](auto v) HWY_ATTR { return v; }, x, n) / static_cast<T>(n);
  const auto vm = hn::Set(hn::ScalableTag<T>(), m);
  const T squares = sum_of(
      [vm](auto v) HWY_ATTR {
        const auto deviation = hn::Sub(v, vm);
        return hn::Mul(deviation, deviation);
      },
      x, n);
  *mean = m;
  *rstd = T(1) / std::sqrt(squares / static_cast<T>(n) + eps);
}

/// y = (x - mean) * rstd * weight[i] + bias[i]; weight and bias may be nullptr.
template <class T>
void NormalizeRow(const T* x, T* y, size_t n, T mean, T rstd, const T* weight, const T* bias) {
  const hn::ScalableTag<T> d;
  const auto vm = hn::Set(d, mean);
  const auto vr = hn::Set(d, rstd);
  over_vectors<T>(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    auto v = hn::Mul(hn::Sub(load(d, whole, x + i, left), vm), vr);
    if (weight != nullptr) {
      v = hn::Mul(v, load(d, whole, weight + i, left));
    }
    if (bias != nullptr) {
      v = hn::Add(v, load(d, whole, bias + i, left));
    }
    store(d, whole, v, y + i, left);
  });
}

/// y = x * scale + shift with one scale for the whole row.
template <class T>
void ScaleRow(const T* x, T* y, size_t n, T scale, T shift) {
  const hn::ScalableTag<T> d;
  const auto vs = hn::Set(d, scale);
  const auto vb = hn::Set(d, shift);
  over_vectors<T>(n, [&](auto whole, size_t i, size_t left)
                         HWY_ATTR { store(d, whole, hn::MulAdd(load(d, whole, x + i, left), vs, vb), y + i, left); });
}

/// Of each column of [rows, columns]: its mean, and the sum of its squared deviations from it.
void ColumnStatistics(const float* x, size_t rows, size_t columns, float* means, float* squares) {
  const hn::ScalableTag<float> d;
  const auto share = hn::Set(d, 1.0f / static_cast<float>(rows));
  over_vectors(columns, [&](auto whole, size_t c, size_t left) HWY_ATTR {
    auto sum = hn::Zero(d), other_sum = hn::Zero(d);  // two chains hide each other's latency
    size_t r = 0;
    for (; r + 2 <= rows; r += 2) {
      sum = hn::Add(sum, load(d, whole, x + r * columns + c, left));
      other_sum = hn::Add(other_sum, load(d, whole, x + (r + 1) * columns + c, left));
    }
    if (r < rows) {
      sum = hn::Add(sum, load(d, whole, x + r * columns + c, left));
    }
    const auto mean = hn::Mul(hn::Add(sum, other_sum), share);
    auto square = hn::Zero(d), other_square = hn::Zero(d);
    const auto deviation = [&](size_t row)
                               HWY_ATTR { return hn::Sub(load(d, whole, x + row * columns + c, left), mean); };
    for (r = 0; r + 2 <= rows; r += 2) {
      const auto a = deviation(r), b = deviation(r + 1);
      square = hn::MulAdd(a, a, square);
      other_square = hn::MulAdd(b, b, other_square);
    }
    if (r < rows) {
      const auto a = deviation(r);
      square = hn::MulAdd(a, a, square);
    }
    store(d, whole, mean, means + c, left);
    store(d, whole, hn::Add(square, other_square), squares + c, left);
  });
}

/// The same of all rows from those of blocks, [blocks, 2, columns]: of `size` rows each, the last one of `last`.
void JoinStatistics(const float* blocks, size_t count, size_t columns, size_t size, size_t last, double* means,
                    double* squares) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const double rows = static_cast<double>((count - 1) * size + last);
  over_vectors<double>(columns, [&](auto whole, size_t c, size_t left) HWY_ATTR {
    const auto at = [&](size_t block, size_t which) HWY_ATTR {
      return hn::PromoteTo(d, load(df, whole, blocks + (2 * block + which) * columns + c, left));
    };
    const auto whole_size = hn::Set(d, static_cast<double>(size)), last_size = hn::Set(d, static_cast<double>(last));
    auto sum = hn::Zero(d);
    for (size_t b = 0; b + 1 < count; ++b) {
      sum = hn::Add(sum, at(b, 0));
    }
    const auto mean = hn::Div(hn::MulAdd(sum, whole_size, hn::Mul(at(count - 1, 0), last_size)), hn::Set(d, rows));
    auto within = at(count - 1, 1), between = hn::Zero(d);
    for (size_t b = 0; b + 1 < count; ++b) {
      const auto apart = hn::Sub(at(b, 0), mean);
      within = hn::Add(within, at(b, 1));
      between = hn::MulAdd(apart, apart, between);
    }
    const auto apart = hn::Sub(at(count - 1, 0), mean);
    between = hn::MulAdd(between, whole_size, hn::Mul(hn::Mul(apart, apart), last_size));
    store(d, whole, mean, means + c, left);
    store(d, whole, hn::Add(within, between), squares + c, left);
  });
}

/// y = x * scales[column] + shifts[column] for [rows, columns].
void ScaleColumns(const float* x, float* y, size_t rows, size_t columns, const float* scales, const float* shifts) {
  const hn::ScalableTag<float> d;
  for (size_t r = 0; r < rows; ++r, x += columns, y += columns) {
    over_vectors(columns, [&](auto whole, size_t c, size_t left) HWY_ATTR {
      const auto scaled =
          hn::MulAdd(load(d, whole, x + c, left), load(d, whole, scales + c, left), load(d, whole, shifts + c, left));
      store(d, whole, scaled, y + c, left);
    });
  }
}

}  // namespace et::kernels::optimized::norm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::norm {

HWY_EXPORT(ColumnStatistics);
HWY_EXPORT(JoinStatistics);
HWY_EXPORT(ScaleColumns);

namespace {

using portable::Sizes;

/// Errors: InvalidArgument unless an optional parameter has `count` elements.
Error check_count(const char* op, const char* name, const OptionalTensor& tensor, int64_t count) {
  ET_CHECK_OR_RETURN(!tensor || tensor->numel() == count, InvalidArgument,
                     "%s: %s has %" PRId64 " elements, needs %" PRId64, op, name, tensor->numel(), count);
  return Error::Ok;
}

/// Normalizes the rows of `columns` elements, of which there are as many as out1 has elements.
template <typename T>
Error normalize_rows(KernelContext& context, const Tensor& input, int64_t columns, const OptionalTensor& weight,
                     const OptionalTensor& bias, double eps, const Tensor& out0, const Tensor& out1,
                     const Tensor& out2) {
  HWY_EXPORT_T(Statistics, MeanAndRstd<T>);
  HWY_EXPORT_T(Normalize, NormalizeRow<T>);
  ET_TRY(const T* const x, numbers_of<T>(context, input));
  ET_TRY(T* const y, numbers_for<T>(context, out0));
  ET_TRY(T* const means, numbers_for<T>(context, out1));
  ET_TRY(T* const rstds, numbers_for<T>(context, out2));
  ET_TRY(const T* const w, numbers_of<T>(context, weight));
  ET_TRY(const T* const b, numbers_of<T>(context, bias));
  const auto n = static_cast<size_t>(columns);
  const auto statistics_of = HWY_DYNAMIC_POINTER_T(Statistics);
  const auto normalize = HWY_DYNAMIC_POINTER_T(Normalize);
  threads::parallel_for(context, static_cast<size_t>(out1.numel()), threads::grain_for(4 * n),
                        [&](size_t begin, size_t end) {
                          for (size_t r = begin; r < end && !context.cancelled(); ++r) {
                            statistics_of(x + r * n, n, static_cast<T>(eps), means + r, rstds + r);
                            normalize(x + r * n, y + r * n, n, means[r], rstds[r], w, b);
                          }
                        });
  write_numbers(context, out0, y);
  write_numbers(context, out1, means);
  write_numbers(context, out2, rstds);
  return Error::Ok;
}

/// The means of nothing.
template <typename T>
Error fill_with_nan(KernelContext& context, const Tensor& out) {
  ET_TRY(T* const values, numbers_for<T>(context, out));
  std::fill_n(values, out.numel(), static_cast<T>(NAN));
  write_numbers(context, out, values);
  return Error::Ok;
}

bool is_double(const Tensor& tensor) { return tensor.scalar_type() == ScalarType::Double; }

Error native_layer_norm_out(KernelContext& context, const Tensor& input, IntArrayRef normalized_shape,
                            const OptionalTensor& weight, const OptionalTensor& bias, double eps, Tensor& out0,
                            Tensor& out1, Tensor& out2) {
  const int64_t lead = input.dim() - static_cast<int64_t>(normalized_shape.size());
  bool matches = lead >= 0 && !normalized_shape.empty();
  int64_t columns = 1;
  for (size_t i = 0; matches && i < normalized_shape.size(); ++i) {
    matches = normalized_shape[i] == input.size(lead + static_cast<int64_t>(i));
    columns *= normalized_shape[i];
  }
  ET_CHECK_OR_RETURN(matches, InvalidArgument,
                     "aten::native_layer_norm: normalized_shape %s is not the end of the shape %s",
                     ShapeText(normalized_shape).text, ShapeText(input.sizes()).text);
  ET_RETURN_IF_ERROR(check_count("aten::native_layer_norm", "weight", weight, columns));
  ET_RETURN_IF_ERROR(check_count("aten::native_layer_norm", "bias", bias, columns));
  Sizes statistics(input.sizes());
  for (int64_t d = lead; d < input.dim(); ++d) {
    statistics[d] = 1;
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out0, input.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out1, statistics));
  ET_RETURN_IF_ERROR(resize_tensor(context, out2, statistics));
  if (out1.numel() == 0 || columns == 0) {
    const auto fill = is_double(input) ? &fill_with_nan<double> : &fill_with_nan<float>;
    ET_RETURN_IF_ERROR(fill(context, out1));
    return fill(context, out2);
  }
  const auto normalize = is_double(input) ? &normalize_rows<double> : &normalize_rows<float>;
  return normalize(context, input, columns, weight, bias, eps, out0, out1, out2);
}

/// What a channel is multiplied by, and what is added then.
template <typename T>
struct ScaleAndShift {
  T scale, shift;
};
template <typename T>
ScaleAndShift<T> scale_and_shift(T mean, T rstd, const T* weight, const T* bias, size_t channel) {
  const T scale = rstd * (weight == nullptr ? T(1) : weight[channel]);
  return {scale, (bias == nullptr ? T(0) : bias[channel]) - mean * scale};
}

/// Group norm of images with channels innermost, x [batch, spatial, channels]. Statistics: [batch, group].
struct ChannelsLastGroupNorm {
  const float* x;
  float* y;
  const float *weight, *bias;  // [channels] or nullptr
  size_t batch, spatial, channels, groups;
  float eps;
  float *means, *rstds;

  /// Pixels of a block, which the first cache holds.
  size_t block() const { return std::max<size_t>(4096 / channels, 8); }
  size_t blocks() const { return divide_up(spatial, block()); }
  size_t pixels_of(size_t b) const { return std::min(block(), spatial - b * block()); }
};

/// The statistics of an image's groups from those of its channels.
void join_channels(const ChannelsLastGroupNorm& norm, size_t image, const double* means, const double* squares) {
  const size_t per_group = norm.channels / norm.groups;
  const auto rows = static_cast<double>(norm.spatial), count = rows * static_cast<double>(per_group);
  for (size_t g = 0; g < norm.groups; ++g) {
    const size_t first = g * per_group, end = first + per_group;
    double mean = 0, square = 0;
    for (size_t c = first; c < end; ++c) {
      mean += means[c];
    }
    mean /= static_cast<double>(per_group);
    for (size_t c = first; c < end; ++c) {
      square += squares[c] + rows * (means[c] - mean) * (means[c] - mean);
    }
    norm.means[image * norm.groups + g] = static_cast<float>(mean);
    norm.rstds[image * norm.groups + g] = static_cast<float>(1.0 / std::sqrt(square / count + double{norm.eps}));
  }
}

Error group_norm_channels_last(KernelContext& context, const ChannelsLastGroupNorm& norm) {
  const size_t channels = norm.channels, per_group = channels / norm.groups, image_size = norm.spatial * channels;
  ET_TRY(void* const statistics_memory, context.allocate_temp(2 * norm.blocks() * channels * sizeof(float)));
  ET_TRY(void* const joined_memory, context.allocate_temp(2 * channels * sizeof(double)));
  ET_TRY(void* const scales_memory, context.allocate_temp(2 * channels * sizeof(float)));
  auto* const statistics = static_cast<float*>(statistics_memory);
  auto* const joined = static_cast<double*>(joined_memory);
  auto* const scales = static_cast<float*>(scales_memory);
  const auto statistics_of = HWY_DYNAMIC_POINTER(ColumnStatistics);
  const auto scale_columns = HWY_DYNAMIC_POINTER(ScaleColumns);
  const size_t grain = threads::grain_for(4 * norm.block() * channels);
  for (size_t image = 0; image < norm.batch; ++image) {
    const float* const x = norm.x + image * image_size;
    threads::parallel_for(context, norm.blocks(), grain, [&](size_t begin, size_t end) {
      for (size_t b = begin; b < end; ++b) {
        float* const means = statistics + 2 * b * channels;
        statistics_of(x + b * norm.block() * channels, norm.pixels_of(b), channels, means, means + channels);
      }
    });
    HWY_DYNAMIC_DISPATCH(JoinStatistics)
    (statistics, norm.blocks(), channels, norm.block(), norm.pixels_of(norm.blocks() - 1), joined, joined + channels);
    join_channels(norm, image, joined, joined + channels);
    for (size_t c = 0; c < channels; ++c) {
      const size_t g = image * norm.groups + c / per_group;
      const auto [scale, shift] = scale_and_shift(norm.means[g], norm.rstds[g], norm.weight, norm.bias, c);
      scales[c] = scale;
      scales[channels + c] = shift;
    }
    threads::parallel_for(context, norm.blocks(), grain, [&](size_t begin, size_t end) {
      for (size_t b = begin; b < end; ++b) {
        const size_t at = b * norm.block() * channels;
        scale_columns(x + at, norm.y + image * image_size + at, norm.pixels_of(b), channels, scales, scales + channels);
      }
    });
  }
  return Error::Ok;
}

/// Input [batch, groups, per_group, spatial], or of floats with channels innermost.
template <typename T>
Error normalize_groups(KernelContext& context, const Tensor& input, const OptionalTensor& weight,
                       const OptionalTensor& bias, size_t batch, size_t groups, size_t per_group, size_t spatial,
                       double eps, const Tensor& out0, const Tensor& out1, const Tensor& out2) {
  HWY_EXPORT_T(Statistics, MeanAndRstd<T>);
  HWY_EXPORT_T(Scale, ScaleRow<T>);
  ET_TRY(const T* const x, numbers_of<T>(context, input));
  ET_TRY(T* const y, numbers_for<T>(context, out0));
  ET_TRY(T* const means, numbers_for<T>(context, out1));
  ET_TRY(T* const rstds, numbers_for<T>(context, out2));
  ET_TRY(const T* const w, numbers_of<T>(context, weight));
  ET_TRY(const T* const b, numbers_of<T>(context, bias));
  const auto e = static_cast<T>(eps);
  const bool is_row_major = runtime::is_contiguous_dim_order(runtime::dim_order(input));
  if constexpr (std::is_same_v<T, float>) {
    if (!is_row_major) {
      ET_RETURN_IF_ERROR(
          group_norm_channels_last(context, {x, y, w, b, batch, spatial, groups * per_group, groups, e, means, rstds}));
    }
  }
  if (is_row_major) {
    const size_t n = per_group * spatial;
    const auto statistics_of = HWY_DYNAMIC_POINTER_T(Statistics);
    const auto scale_row = HWY_DYNAMIC_POINTER_T(Scale);
    threads::parallel_for(context, batch * groups, threads::grain_for(4 * n), [&](size_t begin, size_t end) {
      for (size_t g = begin; g < end && !context.cancelled(); ++g) {
        statistics_of(x + g * n, n, e, means + g, rstds + g);
        for (size_t c = 0; c < per_group; ++c) {
          const auto [scale, shift] = scale_and_shift(means[g], rstds[g], w, b, g % groups * per_group + c);
          scale_row(x + g * n + c * spatial, y + g * n + c * spatial, spatial, scale, shift);
        }
      }
    });
  }
  write_numbers(context, out0, y);
  write_numbers(context, out1, means);
  write_numbers(context, out2, rstds);
  return Error::Ok;
}

Error native_group_norm_out(KernelContext& context, const Tensor& input, const OptionalTensor& weight,
                            const OptionalTensor& bias, int64_t batch, int64_t channels, int64_t spatial, int64_t group,
                            double eps, Tensor& out0, Tensor& out1, Tensor& out2) {
  const bool is_row_major = runtime::is_contiguous_dim_order(runtime::dim_order(input));
  int64_t elements = 0;
  ET_CHECK_OR_RETURN(group > 0 && channels % group == 0 &&
                         portable::whole_product({batch, channels, spatial}, &elements) && elements == input.numel() &&
                         (is_row_major || (batch == input.size(0) && channels == input.size(1))),
                     InvalidArgument,
                     "aten::native_group_norm: N %" PRId64 ", C %" PRId64 ", HxW %" PRId64 " and group %" PRId64
                     " do not fit shape %s",
                     batch, channels, spatial, group, ShapeText(input.sizes()).text);
  ET_RETURN_IF_ERROR(check_count("aten::native_group_norm", "weight", weight, channels));
  ET_RETURN_IF_ERROR(check_count("aten::native_group_norm", "bias", bias, channels));
  ET_RETURN_IF_ERROR(resize_tensor(context, out0, input.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out1, {batch, group}));
  ET_RETURN_IF_ERROR(resize_tensor(context, out2, {batch, group}));
  if (elements == 0) {
    return Error::Ok;
  }
  const auto normalize = is_double(input) ? &normalize_groups<double> : &normalize_groups<float>;
  return normalize(context, input, weight, bias, static_cast<size_t>(batch), static_cast<size_t>(group),
                   static_cast<size_t>(channels / group), static_cast<size_t>(spatial), eps, out0, out1, out2);
}

/// A tensor that is computed in double, or else in float.
bool fits_numbers(const EValue& value, bool doubles) {
  return value.is_tensor() && (doubles ? is_double(value.to_tensor()) : is_up_to_float(value));
}

/// The input, the three outputs from args[first_out] on, and the weight and bias: floats of up to 32 bits, or all
/// doubles and row-major. Input and first output lie in one dim order.
bool fits_norm(Arguments args, size_t first_out, size_t weight) {
  const bool doubles = args[0]->is_tensor() && is_double(args[0]->to_tensor());
  for (const size_t i : {size_t{0}, first_out, first_out + 1, first_out + 2}) {
    if (!fits_numbers(*args[i], doubles) || (doubles && !is_row_major(*args[i]))) {
      return false;
    }
  }
  for (const size_t i : {weight, weight + 1}) {
    if (!args[i]->is_none() && !fits_numbers(*args[i], doubles)) {
      return false;
    }
  }
  return same_dim_order(*args[0], *args[first_out]);
}

// native_layer_norm(input, normalized_shape, weight, bias, eps, out0, out1, out2)
bool fits_layer_norm(Arguments args) { return is_row_major(*args[0]) && fits_norm(args, 5, 2); }
// native_group_norm(input, weight, bias, N, C, HxW, group, eps, out0, out1, out2)
bool fits_group_norm(Arguments args) {
  return (is_row_major(*args[0]) || is_channels_last(*args[0])) && fits_norm(args, 8, 1);
}
constexpr Kernel kKernels[] = {
    make_fitting_kernel<&native_group_norm_out, &fits_group_norm>("aten::native_group_norm.out"),
    make_fitting_kernel<&native_layer_norm_out, &fits_layer_norm>("aten::native_layer_norm.out"),
};

}  // namespace

ET_KERNEL_TABLE(norm, kKernels)

}  // namespace et::kernels::optimized::norm
#endif  // HWY_ONCE
