// Linear interpolation of lines (upsample_linear1d), of floats up to 64 bits: each output is two inputs with their
// weights, which all lines share.
//
// 16-bit floats are computed in float and rounded once.

#include "kernels/optimized/vec/every_target-inl.h"

#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/float_tensors.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "kernels/portable/resize_axis.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_RESIZE_LINES_TAPS
#define ET_KERNELS_OPTIMIZED_RESIZE_LINES_TAPS
namespace et::kernels::optimized::resize {

/// Where the elements of an output line come from: [out] positions, and the weight of the upper one.
template <typename T>
struct LineTaps {
  using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  Index* low;
  Index* high;
  T* weight;
};

}  // namespace et::kernels::optimized::resize
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::resize::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

template <typename T>
void InterpolateLine(const LineTaps<T>& taps, const T* x, T* y, size_t n) {
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

}  // namespace et::kernels::optimized::resize::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::resize {

namespace {

constexpr const char* kOp = "aten::upsample_linear1d";
constexpr size_t kLook = 1 << 16;  // elements of a line between two looks at whether the caller asked to stop

template <typename T>
Result<LineTaps<T>> find_taps(KernelContext& context, const portable::ResizeAxis& axis, bool align_corners) {
  const auto out = static_cast<size_t>(axis.out);
  using Index = typename LineTaps<T>::Index;
  ET_TRY(void* const low, context.allocate_temp(out * sizeof(Index)));
  ET_TRY(void* const high, context.allocate_temp(out * sizeof(Index)));
  ET_TRY(void* const weight, context.allocate_temp(out * sizeof(T)));
  const LineTaps<T> taps{static_cast<Index*>(low), static_cast<Index*>(high), static_cast<T*>(weight)};
  const bool goes_on = threads::in_pieces(context, out, kLook, [&](size_t o, size_t end) {
    for (; o < end; ++o) {
      const auto tap = portable::linear_tap<T>(axis, static_cast<int64_t>(o), align_corners);
      taps.low[o] = static_cast<Index>(tap.low);
      taps.high[o] = static_cast<Index>(tap.high);
      taps.weight[o] = tap.fraction;
    }
  });
  ET_CHECK_OR_RETURN(goes_on, Cancelled, "%s: cancelled", kOp);
  return taps;
}

template <typename T>
Error interpolate(KernelContext& context, const T* x, T* y, size_t lines, const portable::ResizeAxis& axis,
                  bool align_corners) {
  HWY_EXPORT_T(Line, InterpolateLine<T>);
  const auto line = HWY_DYNAMIC_POINTER_T(Line);
  ET_TRY(const LineTaps<T> taps, find_taps<T>(context, axis, align_corners));
  const auto in = static_cast<size_t>(axis.in);
  const auto out = static_cast<size_t>(axis.out);
  constexpr size_t kCost = 4;  // of an element, next to a copy
  threads::parallel_for(context, lines, threads::grain_for(out * kCost), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      threads::in_pieces(context, out, kLook, [&](size_t o, size_t last) {
        line({taps.low + o, taps.high + o, taps.weight + o}, x + i * in, y + i * out + o, last - o);
      });
    }
  });
  return Error::Ok;
}

Error upsample_linear1d_vec_out(KernelContext& context, const Tensor& input, portable::ResizeSizes output_size,
                                bool align_corners, portable::ResizeFactors scale_factors, Tensor& out) {
  portable::ResizeAxis axes[3];
  portable::Sizes sizes(input.sizes());
  ET_RETURN_IF_ERROR(portable::resize_axes(kOp, input, 1, output_size, scale_factors, align_corners, axes, &sizes));
  const portable::ResizeAxis& axis = axes[2];
  ET_CHECK_OR_RETURN(axis.in <= INT32_MAX, NotSupported, "%s: lines of %" PRId64 " elements", kOp, axis.in);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const auto lines = static_cast<size_t>(input.size(0) * input.size(1));
  if (input.scalar_type() == ScalarType::Double) {
    return interpolate(context, input.const_data_ptr<double>(), out.mutable_data_ptr<double>(), lines, axis,
                       align_corners);
  }
  ET_TRY(const float* const x, floats_of(context, input));
  ET_TRY(float* const y, floats_for(context, out));
  ET_RETURN_IF_ERROR(interpolate(context, x, y, lines, axis, align_corners));
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

ET_KERNEL_TABLE(lines, kKernels)

}  // namespace et::kernels::optimized::resize
#endif  // HWY_ONCE
