// Batch norm of floats of 16 and 32 bits, row-major or channels-last: of training, whose statistics are those of the
// batch, and of inference.
//
// As in norm.cpp the mean comes first and the squared deviations from it second. Sums of a chunk are floats, those of
// chunks doubles.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cmath>

#include "kernels/optimized/vec/float_runs.h"
#include "kernels/optimized/vec/float_tensors.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/op_norm.h"
#include "kernels/portable/shape.h"
#include "kernels/portable/strided_copy.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::norm::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

float Sum(const float* x, size_t n) {
  return sum_of([](auto v) HWY_ATTR { return v; }, x, n);
}

float SumOfSquares(const float* x, size_t n, float mean) {
  const hn::ScalableTag<float> d;
  const auto vm = hn::Set(d, mean);
  return sum_of(
      [vm](auto v) HWY_ATTR {
        const auto deviation = hn::Sub(v, vm);
        return hn::Mul(deviation, deviation);
      },
      x, n);
}

/// totals[i] += x[i], or the square of x[i] - means[i] where means are given.
void AddEach(const float* x, size_t n, const double* means, double* totals) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  over_vectors<double>(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    auto v = hn::PromoteTo(d, whole.value ? hn::LoadU(df, x + i) : hn::LoadN(df, x + i, left));
    if (means != nullptr) {
      v = hn::Sub(v, load(d, whole, means + i, left));
      v = hn::Mul(v, v);
    }
    store(d, whole, hn::Add(load(d, whole, totals + i, left), v), totals + i, left);
  });
}

/// y = x * scale + shift, with numbers of their own for each element where `each` is true.
void Apply(const float* x, float* y, size_t n, const float* scale, const float* shift, bool each) {
  const hn::ScalableTag<float> d;
  if (each) {
    over_vectors(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
      const auto v = load(d, whole, x + i, left);
      store(d, whole, hn::MulAdd(v, load(d, whole, scale + i, left), load(d, whole, shift + i, left)), y + i, left);
    });
    return;
  }
  const auto vs = hn::Set(d, *scale);
  const auto vb = hn::Set(d, *shift);
  over_vectors(n, [&](auto whole, size_t i, size_t left)
                      HWY_ATTR { store(d, whole, hn::MulAdd(load(d, whole, x + i, left), vs, vb), y + i, left); });
}

}  // namespace et::kernels::optimized::norm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::norm {

HWY_EXPORT(AddEach);
HWY_EXPORT(Apply);
HWY_EXPORT(Sum);
HWY_EXPORT(SumOfSquares);

namespace {

using portable::load_one;
using portable::store_one;

constexpr size_t kChunk = 512;  // elements that are converted at a time

/// What a channel's statistics come to.
struct Channels {
  size_t count = 0;           // of channels
  double elements = 0;        // in each
  double* means = nullptr;    // [count], as the others
  double* squares = nullptr;  // sums of squared deviations
  float* scales = nullptr;
  float* shifts = nullptr;
};

/// Calls visit(floats, n, at) for the n elements from `first` on, a chunk at a time; `at` is the place of the first.
template <typename Visit>
void each_chunk(const Tensor& tensor, size_t first, size_t n, const Visit& visit) {
  float buffer[kChunk];
  for (size_t i = 0; i < n; i += kChunk) {
    const size_t part = std::min(kChunk, n - i);
    visit(elements_of(tensor, first + i, part, buffer), part, first + i);
  }
}

/// out = input * scale + shift for rows [begin, end), each of all channels.
void apply_rows(const Tensor& input, const Tensor& out, const Channels& channels, size_t begin, size_t end) {
  const auto run = HWY_DYNAMIC_POINTER(Apply);
  float buffer[kChunk];
  for (size_t r = begin; r < end; ++r) {
    const size_t first = r * channels.count;
    each_chunk(input, first, channels.count, [&](const float* x, size_t n, size_t at) {
      float* const y = elements_for(out, at, buffer);
      run(x, y, n, channels.scales + (at - first), channels.shifts + (at - first), true);
      write_elements(out, at, n, y);
    });
  }
}

/// Short runs that are converted together.
size_t runs_at_once(size_t inner) { return std::max<size_t>(1, kChunk / inner); }

/// Means and squares of `runs` channels from `first` on, whose elements are `batch` runs of `inner` each.
void measure_runs(const Tensor& input, const Channels& channels, size_t first, size_t runs, size_t batch,
                  size_t inner) {
  const auto sum = HWY_DYNAMIC_POINTER(Sum);
  const auto sum_of_squares = HWY_DYNAMIC_POINTER(SumOfSquares);
  const auto each_run = [&](const auto& visit) {
    for (size_t b = 0; b < batch; ++b) {
      each_chunk(input, (b * channels.count + first) * inner, runs * inner, [&](const float* x, size_t n, size_t) {
        for (size_t i = 0; i < runs; ++i) {
          visit(first + i, x + i * inner, std::min(n, inner));
        }
      });
    }
  };
  std::fill_n(channels.means + first, runs, 0.0);
  std::fill_n(channels.squares + first, runs, 0.0);
  each_run([&](size_t c, const float* x, size_t n) { channels.means[c] += static_cast<double>(sum(x, n)); });
  for (size_t c = first; c < first + runs; ++c) {
    channels.means[c] /= channels.elements;
  }
  each_run([&](size_t c, const float* x, size_t n) {
    channels.squares[c] += static_cast<double>(sum_of_squares(x, n, static_cast<float>(channels.means[c])));
  });
}

/// The same for runs [begin, end) of `inner` elements, each of one channel, which take turns.
void apply_runs(const Tensor& input, const Tensor& out, const Channels& channels, size_t begin, size_t end,
                size_t inner) {
  const auto run = HWY_DYNAMIC_POINTER(Apply);
  const size_t step = runs_at_once(inner);
  float buffer[kChunk];
  for (size_t p = begin; p < end; p += step) {
    const size_t runs = std::min(step, end - p);
    each_chunk(input, p * inner, runs * inner, [&](const float* x, size_t n, size_t at) {
      float* const y = elements_for(out, at, buffer);
      for (size_t i = 0; i < runs; ++i) {
        const size_t c = (p + i) % channels.count;
        run(x + i * inner, y + i * inner, std::min(n, inner), channels.scales + c, channels.shifts + c, false);
      }
      write_elements(out, at, n, y);
    });
  }
}

/// The same for all channels where they lie side by side, in each of `rows` rows.
void measure_rows(const Tensor& input, const Channels& channels, size_t rows) {
  const auto add_each = HWY_DYNAMIC_POINTER(AddEach);
  const auto add_rows = [&](const double* means, double* totals) {
    std::fill_n(totals, channels.count, 0.0);
    for (size_t r = 0; r < rows; ++r) {
      const size_t first = r * channels.count;
      each_chunk(input, first, channels.count, [&](const float* x, size_t n, size_t at) {
        add_each(x, n, means == nullptr ? nullptr : means + (at - first), totals + (at - first));
      });
    }
  };
  add_rows(nullptr, channels.means);
  for (size_t c = 0; c < channels.count; ++c) {
    channels.means[c] /= channels.elements;
  }
  add_rows(channels.means, channels.squares);
}

struct Parameters {
  const OptionalTensor& weight;
  const OptionalTensor& bias;
  const Tensor* running_mean;
  const Tensor* running_var;
  double momentum;
  double eps;
};

double parameter_at(const OptionalTensor& tensor, size_t c, double otherwise) {
  return tensor ? load_one<double>(tensor->scalar_type(), tensor->const_data_ptr(), static_cast<int64_t>(c))
                : otherwise;
}

/// Writes the statistics of channel c and works out its scale and shift.
void finish_channel(const Channels& channels, size_t c, const Parameters& a, const Tensor& save_mean,
                    const Tensor& save_invstd) {
  const auto i = static_cast<int64_t>(c);
  const double mean = channels.means[c];
  const double variance = channels.squares[c] / channels.elements;
  const double invstd = 1.0 / std::sqrt(variance + a.eps);
  store_one(save_mean.scalar_type(), mean, save_mean.mutable_data_ptr(), i);
  store_one(save_invstd.scalar_type(), invstd, save_invstd.mutable_data_ptr(), i);
  const auto move = [&](const Tensor* running, double to) {
    if (running != nullptr) {
      const double old = load_one<double>(running->scalar_type(), running->const_data_ptr(), i);
      store_one(running->scalar_type(), old + a.momentum * (to - old), running->mutable_data_ptr(), i);
    }
  };
  move(a.running_mean, mean);
  move(a.running_var, variance * channels.elements / (channels.elements - 1));
  const double scale = invstd * parameter_at(a.weight, c, 1.0);
  channels.scales[c] = static_cast<float>(scale);
  channels.shifts[c] = static_cast<float>(parameter_at(a.bias, c, 0.0) - mean * scale);
}

bool has_count(const Tensor& tensor, int64_t count) {
  return tensor.numel() == count && is_floating(tensor.scalar_type());
}

/// False for arguments that the portable kernel is to refuse or to take.
bool is_plain(const Tensor& input, const Parameters& a) {
  if (input.dim() < 2 || input.numel() == 0) {
    return false;
  }
  const int64_t count = input.size(1);
  for (const OptionalTensor* parameter : {&a.weight, &a.bias}) {
    if (*parameter && !has_count(**parameter, count)) {
      return false;
    }
  }
  for (const Tensor* running : {a.running_mean, a.running_var}) {
    if (running != nullptr && !has_count(*running, count)) {
      return false;
    }
  }
  return true;
}

/// Elements of an image that belong to a channel.
size_t run_length(const Tensor& input) {
  return static_cast<size_t>(input.numel()) / static_cast<size_t>(input.size(0)) / static_cast<size_t>(input.size(1));
}

/// True when all channels of a position lie side by side.
bool has_rows(const Tensor& input) {
  return run_length(input) == 1 || runtime::is_channels_last_dim_order(runtime::dim_order(input));
}

/// out = input * scale + shift.
void apply_channels(KernelContext& context, const Tensor& input, const Tensor& out, const Channels& channels) {
  const size_t inner = run_length(input);
  if (has_rows(input)) {
    threads::parallel_for(context, static_cast<size_t>(input.numel()) / channels.count,
                          threads::grain_for(channels.count),
                          [&](size_t begin, size_t end) { apply_rows(input, out, channels, begin, end); });
    return;
  }
  threads::parallel_for(context, static_cast<size_t>(input.size(0)) * channels.count, threads::grain_for(inner),
                        [&](size_t begin, size_t end) { apply_runs(input, out, channels, begin, end, inner); });
}

Error train(KernelContext& context, const Tensor& input, const Parameters& a, Tensor& out, Tensor& save_mean,
            Tensor& save_invstd) {
  const int64_t count = input.size(1);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, input.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, save_mean, {count}));
  ET_RETURN_IF_ERROR(resize_tensor(context, save_invstd, {count}));
  Channels channels;
  channels.count = static_cast<size_t>(count);
  const auto batch = static_cast<size_t>(input.size(0));
  const size_t inner = run_length(input);
  channels.elements = static_cast<double>(batch * inner);
  ET_TRY(void* const memory, context.allocate_temp(channels.count * 2 * (sizeof(double) + sizeof(float))));
  channels.means = static_cast<double*>(memory);
  channels.squares = channels.means + channels.count;
  channels.scales = reinterpret_cast<float*>(channels.squares + channels.count);
  channels.shifts = channels.scales + channels.count;

  if (has_rows(input)) {
    measure_rows(input, channels, batch * inner);
  } else {
    threads::parallel_for(context, channels.count, threads::grain_for(4 * batch * inner),
                          [&](size_t begin, size_t end) {
                            const size_t step = runs_at_once(inner);
                            for (size_t c = begin; c < end; c += step) {
                              measure_runs(input, channels, c, std::min(step, end - c), batch, inner);
                            }
                          });
  }
  for (size_t c = 0; c < channels.count; ++c) {
    finish_channel(channels, c, a, save_mean, save_invstd);
  }
  apply_channels(context, input, out, channels);
  return Error::Ok;
}

/// Inference: what a channel becomes is known before.
Error native_batch_norm_legit_no_training_out(KernelContext& context, const Tensor& input, const OptionalTensor& weight,
                                              const OptionalTensor& bias, const Tensor& running_mean,
                                              const Tensor& running_var, double momentum, double eps, Tensor& out0,
                                              Tensor& out1, Tensor& out2) {
  const Parameters a{weight, bias, &running_mean, &running_var, momentum, eps};
  if (!is_plain(input, a)) {
    return portable::native_batch_norm_legit_no_training_out(context, input, weight, bias, running_mean, running_var,
                                                             momentum, eps, out0, out1, out2);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out0, input.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out1, {0}));
  ET_RETURN_IF_ERROR(resize_tensor(context, out2, {0}));
  Channels channels;
  channels.count = static_cast<size_t>(input.size(1));
  ET_TRY(void* const memory, context.allocate_temp(channels.count * 2 * sizeof(float)));
  channels.scales = static_cast<float*>(memory);
  channels.shifts = channels.scales + channels.count;
  const auto number_at = [](const Tensor& tensor, size_t c) {
    return load_one<float>(tensor.scalar_type(), tensor.const_data_ptr(), static_cast<int64_t>(c));
  };
  for (size_t c = 0; c < channels.count; ++c) {
    const float deviation = std::sqrt(number_at(running_var, c) + static_cast<float>(eps));
    channels.scales[c] = (weight ? number_at(*weight, c) : 1.0f) / deviation;
    channels.shifts[c] = (bias ? number_at(*bias, c) : 0.0f) - number_at(running_mean, c) * channels.scales[c];
  }
  apply_channels(context, input, out0, channels);
  return Error::Ok;
}

Error native_batch_norm_legit_out(KernelContext& context, const Tensor& input, const OptionalTensor& weight,
                                  const OptionalTensor& bias, Tensor& running_mean, Tensor& running_var, bool training,
                                  double momentum, double eps, Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  const Parameters a{weight, bias, &running_mean, &running_var, momentum, eps};
  return training && is_plain(input, a)
             ? train(context, input, a, out, save_mean, save_invstd)
             : portable::native_batch_norm_legit_out(context, input, weight, bias, running_mean, running_var, training,
                                                     momentum, eps, out, save_mean, save_invstd);
}

/// The statistics that move are copies, which training moves as above.
Error native_batch_norm_legit_functional_out(KernelContext& context, const Tensor& input, const OptionalTensor& weight,
                                             const OptionalTensor& bias, const Tensor& running_mean,
                                             const Tensor& running_var, bool training, double momentum, double eps,
                                             Tensor& out, Tensor& save_mean, Tensor& save_invstd,
                                             Tensor& running_mean_out, Tensor& running_var_out) {
  const Parameters a{weight, bias, &running_mean, &running_var, momentum, eps};
  if (!training || !is_plain(input, a)) {
    return portable::native_batch_norm_legit_functional_out(context, input, weight, bias, running_mean, running_var,
                                                            training, momentum, eps, out, save_mean, save_invstd,
                                                            running_mean_out, running_var_out);
  }
  ET_RETURN_IF_ERROR(portable::copy_tensor(context, running_mean, running_mean_out));
  ET_RETURN_IF_ERROR(portable::copy_tensor(context, running_var, running_var_out));
  const Parameters moved{weight, bias, &running_mean_out, &running_var_out, momentum, eps};
  return train(context, input, moved, out, save_mean, save_invstd);
}

Error native_batch_norm_legit_no_stats_out(KernelContext& context, const Tensor& input, const OptionalTensor& weight,
                                           const OptionalTensor& bias, bool training, double momentum, double eps,
                                           Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  const Parameters a{weight, bias, nullptr, nullptr, momentum, eps};
  return is_plain(input, a) ? train(context, input, a, out, save_mean, save_invstd)
                            : portable::native_batch_norm_legit_no_stats_out(
                                  context, input, weight, bias, training, momentum, eps, out, save_mean, save_invstd);
}

/// The input and args[first_out]: floats of one type of up to 32 bits in one dim order; what is saved: floating.
bool fits(Arguments args, size_t first_out) {
  const EValue& input = *args[0];
  const EValue& out = *args[first_out];
  return is_up_to_float(input) && is_up_to_float(out) &&
         input.to_tensor().scalar_type() == out.to_tensor().scalar_type() && same_dim_order(input, out) &&
         (is_row_major(input) || is_channels_last(input)) && is_up_to_float(*args[first_out + 1]) &&
         is_up_to_float(*args[first_out + 2]);
}
// _native_batch_norm_legit(input, weight, bias, running_mean, running_var, training, momentum, eps, out, save_mean,
// save_invstd)
bool fits_with_stats(Arguments args) { return fits(args, 8); }
// _native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, momentum, eps, out0, out1, out2)
bool fits_no_training(Arguments args) { return fits(args, 7); }
// _native_batch_norm_legit_functional(input, weight, bias, running_mean, running_var, training, momentum, eps, out,
// save_mean, save_invstd, running_mean_out, running_var_out)
bool fits_functional(Arguments args) {
  return fits(args, 8) && is_floating(args[11]->to_tensor().scalar_type()) &&
         is_floating(args[12]->to_tensor().scalar_type());
}
// _native_batch_norm_legit.no_stats(input, weight, bias, training, momentum, eps, out, save_mean, save_invstd)
bool fits_without_stats(Arguments args) { return fits(args, 6); }

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&native_batch_norm_legit_functional_out, &fits_functional>(
        "et::_native_batch_norm_legit_functional.out"),
    make_fitting_kernel<&native_batch_norm_legit_no_training_out, &fits_no_training>(
        "aten::_native_batch_norm_legit_no_training.out"),
    make_fitting_kernel<&native_batch_norm_legit_no_stats_out, &fits_without_stats>(
        "aten::_native_batch_norm_legit.no_stats_out"),
    make_fitting_kernel<&native_batch_norm_legit_out, &fits_with_stats>("aten::_native_batch_norm_legit.out"),
};

}  // namespace

ET_KERNEL_TABLE(batch_norm, kKernels)

}  // namespace et::kernels::optimized::norm
#endif  // HWY_ONCE
