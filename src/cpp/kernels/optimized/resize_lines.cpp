// Linear interpolation of lines (upsample_linear1d), of floats up to 64 bits: each output is two inputs with their weights, which
// all lines share.
//
// Source: the coordinate rules of torch.nn.functional.interpolate, as in portable/op_upsample.cpp. 16-bit floats are computed
// in float and rounded once.

#include "kernels/optimized/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/resize_lines.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/fitting.h"
#include "kernels/optimized/float_tensors.h"
#include "kernels/optimized/tables.h"
#include "kernels/optimized/vectors-inl.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_RESIZE_LINES_TAPS
#define ET_KERNELS_OPTIMIZED_RESIZE_LINES_TAPS
namespace et::kernels::optimized {

/// Where the elements of an output line come from: [out] positions, and the weight of the upper one.
template <typename T>
struct LineTaps {
  using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  Index* low;
  Index* high;
  T* weight;
};

}  // namespace et::kernels::optimized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {

template <typename T>
HWY_INLINE void interpolate_line(const LineTaps<T>& taps, const T* x, T* y, size_t n) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto one = hn::Set(d, T(1));
  over_vectors<T>(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    // Behind the end of the tables position 0, which every line has.
    const auto low = hn::GatherIndex(d, x, load(di, whole, taps.low + i, left));
    const auto high = hn::GatherIndex(d, x, load(di, whole, taps.high + i, left));
    const auto weight = load(d, whole, taps.weight + i, left);
    store(d, whole, hn::MulAdd(high, weight, hn::Mul(low, hn::Sub(one, weight))), y + i, left);
  });
}

void InterpolateFloats(const LineTaps<float>& taps, const float* x, float* y, size_t n) {
  interpolate_line(taps, x, y, n);
}
void InterpolateDoubles(const LineTaps<double>& taps, const double* x, double* y, size_t n) {
  interpolate_line(taps, x, y, n);
}

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(InterpolateFloats);
HWY_EXPORT(InterpolateDoubles);

namespace {

constexpr const char* kOp = "aten::upsample_linear1d";

template <typename T>
Result<LineTaps<T>> find_taps(KernelContext& context, size_t in, size_t out, double scale, bool align_corners) {
  using Index = typename LineTaps<T>::Index;
  ET_TRY(void* const low, context.allocate_temp(out * sizeof(Index)));
  ET_TRY(void* const high, context.allocate_temp(out * sizeof(Index)));
  ET_TRY(void* const weight, context.allocate_temp(out * sizeof(T)));
  const LineTaps<T> taps{static_cast<Index*>(low), static_cast<Index*>(high), static_cast<T*>(weight)};
  const auto last = static_cast<Index>(in - 1);
  for (size_t o = 0; o < out; ++o) {
    if (in == out) {  // a copy, as in ATen
      taps.low[o] = taps.high[o] = static_cast<Index>(o);
      taps.weight[o] = T(0);
      continue;
    }
    T x = static_cast<T>(scale);
    x = align_corners ? static_cast<T>(o) * x : (static_cast<T>(o) + T(0.5)) * x - T(0.5);
    x = x < T(0) ? T(0) : x;
    const Index position = x < static_cast<T>(in) ? static_cast<Index>(x) : last;  // NaN too
    taps.low[o] = position < last ? position : last;
    taps.high[o] = position < last ? position + 1 : last;
    const T fraction = x - static_cast<T>(taps.low[o]);
    taps.weight[o] = fraction < T(0) ? T(0) : fraction > T(1) ? T(1) : fraction;
  }
  return taps;
}

template <typename T>
Error interpolate(KernelContext& context, const T* x, T* y, size_t lines, size_t in, size_t out, double scale,
                  bool align_corners) {
  ET_TRY(const LineTaps<T> taps, find_taps<T>(context, in, out, scale, align_corners));
  constexpr size_t kCost = 4;  // of an element, next to a copy
  threads::parallel_for(context.pool(), lines, threads::grain_for(out * kCost), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if constexpr (std::is_same_v<T, float>) {
        HWY_DYNAMIC_DISPATCH(InterpolateFloats)(taps, x + i * in, y + i * out, out);
      } else {
        HWY_DYNAMIC_DISPATCH(InterpolateDoubles)(taps, x + i * in, y + i * out, out);
      }
    }
  });
  return Error::Ok;
}

Error upsample_linear1d_vec_out(KernelContext& context, const Tensor& input, std::optional<IntArrayRef> output_size,
                                bool align_corners, std::optional<Span<const double>> scale_factors, Tensor& out) {
  ET_CHECK_OR_RETURN((output_size || scale_factors) && (!output_size || output_size->size() == 1) &&
                         (!scale_factors || scale_factors->size() == 1),
                     InvalidArgument, "%s: needs one number as output_size or scale_factors", kOp);
  const int64_t in = input.size(2);
  const double factor = scale_factors ? (*scale_factors)[0] : 0.0;
  const double grown = static_cast<double>(in) * factor;
  const int64_t size = output_size ? (*output_size)[0] : grown >= 1 && grown < 1e9 ? static_cast<int64_t>(grown) : 0;
  ET_CHECK_OR_RETURN(in > 0 && in <= INT32_MAX && size > 0, InvalidArgument, "%s: cannot resize %s to size %" PRId64,
                     kOp, portable::ShapeText(input.sizes()).text, size);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {input.size(0), input.size(1), size}));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  double scale = factor > 0 ? 1.0 / factor : static_cast<double>(in) / static_cast<double>(size);
  if (align_corners) {
    scale = size > 1 ? static_cast<double>(in - 1) / static_cast<double>(size - 1) : 0.0;
  }
  const auto lines = static_cast<size_t>(input.size(0) * input.size(1));
  const auto length = static_cast<size_t>(in);
  const auto target = static_cast<size_t>(size);
  if (input.scalar_type() == ScalarType::Double) {
    return interpolate(context, input.const_data_ptr<double>(), out.mutable_data_ptr<double>(), lines, length, target,
                       scale, align_corners);
  }
  ET_TRY(const float* const x, floats_of(context, input));
  ET_TRY(float* const y, floats_for(context, out));
  ET_RETURN_IF_ERROR(interpolate(context, x, y, lines, length, target, scale, align_corners));
  write_floats(context, out, y);
  return Error::Ok;
}

/// upsample_linear1d(input, output_size, align_corners, scale_factors, out): floats, row-major, of one dtype.
bool fits_lines(Arguments args) {
  const Tensor input = args[0]->to_tensor();
  const Tensor out = args[4]->to_tensor();
  return (is_up_to_float(input.scalar_type()) || input.scalar_type() == ScalarType::Double) &&
         out.scalar_type() == input.scalar_type() && input.dim() == 3 && out.dim() == 3 && is_row_major(*args[0]) &&
         is_row_major(*args[4]);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&upsample_linear1d_vec_out, &fits_lines>("et::upsample_linear1d.vec_out"),
};

}  // namespace

Span<const Kernel> resize_lines_kernels() { return kKernels; }

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
