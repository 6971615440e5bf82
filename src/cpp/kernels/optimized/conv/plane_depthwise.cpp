// aten::convolution and et::convolution_clamp with one constant filter of 3x3 a channel, on float images whose channels
// lie outermost. Vectors go along rows, so no image is transposed. A plane is copied between zeros first; of a stride
// of 2, even columns and odd ones lie together. Then each tap of a vector of results is a run.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>

#include "base/checked_math.h"
#include "kernels/optimized/conv/images.h"
#include "kernels/optimized/conv/planes.h"
#include "kernels/optimized/vec/math-inl.h"
#include "kernels/optimized/vec/table.h"

#ifndef ET_KERNELS_OPTIMIZED_PLANE_DEPTHWISE_ONCE
#define ET_KERNELS_OPTIMIZED_PLANE_DEPTHWISE_ONCE
namespace et::kernels::optimized::conv {

struct PlaneDepthwise : ImageGeometry {
  size_t channels;
  const float* filter;  // [channels, 3, 3]
  const float* bias;    // [channels]
  float min, max;

  // Of a call. A plane with its border is [rows][stride][columns of a phase].
  int64_t phase_floats() const { return (in_w + 2 * pad_w + stride_w - 1) / stride_w; }
  int64_t row_floats() const { return stride_w * phase_floats(); }
  int64_t rows() const { return in_h + 2 * pad_h; }
};

}  // namespace et::kernels::optimized::conv
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::conv::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

/// Vectors of kRows neighbouring rows of results, of which the first `left` are kept. Rows of the plane are loaded once
/// for all of them.
template <int kRows, int kStride>
HWY_INLINE void plane_block(const PlaneDepthwise& w, const float* taps, float bias, const float* from, float* out,
                            size_t left) {
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> sums[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    sums[r] = hn::Set(d, bias);
  }
  const int64_t phase = w.phase_floats(), row = w.row_floats();
#pragma GCC unroll 9
  for (int i = 0; i < (kRows - 1) * kStride + 3; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) {
      const auto x = hn::LoadU(d, from + i * row + j % kStride * phase + j / kStride);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const int tap = i - r * kStride;
        if (tap >= 0 && tap < 3) {
          sums[r] = hn::MulAdd(x, hn::Set(d, taps[3 * tap + j]), sums[r]);
        }
      }
    }
  }
  const auto low = hn::Set(d, w.min), high = hn::Set(d, w.max);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const auto kept = limit(sums[r], low, high);
    left >= hn::Lanes(d) ? hn::StoreU(kept, d, out + r * w.out_w) : hn::StoreN(kept, d, out + r * w.out_w, left);
  }
}

/// Rows [begin, end) of the results of a plane with its border; `begin` is a multiple of four.
template <int kRows, int kStride>
void plane_results(const PlaneDepthwise& w, const float* taps, float bias, const float* plane, int64_t begin,
                   int64_t end, float* out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  for (int64_t y = begin; y < end; y += kRows) {
    const int64_t first = std::min(y, w.out_h - kRows);  // the last ones overlap
    for (int64_t x = 0; x < w.out_w; x += lanes) {
      plane_block<kRows, kStride>(w, taps, bias, plane + first * kStride * w.row_floats() + x,
                                  out + first * w.out_w + x, static_cast<size_t>(std::min(lanes, w.out_w - x)));
    }
  }
}

void PlaneResults(const PlaneDepthwise& w, const float* taps, float bias, const float* plane, size_t begin, size_t end,
                  float* out) {
  const auto results = w.out_h >= 4      ? w.stride_h == 1 ? &plane_results<4, 1> : &plane_results<4, 2>
                       : w.stride_h == 1 ? &plane_results<1, 1>
                                         : &plane_results<1, 2>;
  results(w, taps, bias, plane, static_cast<int64_t>(begin), static_cast<int64_t>(end), out);
}

/// Copies rows [begin, end) of a plane to where they lie between zeros.
void CopyPlane(const PlaneDepthwise& w, const float* plane, size_t begin, size_t end, float* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto first = static_cast<int64_t>(begin);
  plane += first * w.in_w;
  to += (w.pad_h + first) * w.row_floats();
  for (size_t y = begin; y < end; ++y, plane += w.in_w, to += w.row_floats()) {
    if (w.stride_w == 1) {
      std::copy_n(plane, w.in_w, to + w.pad_w);
      continue;
    }
    // Columns 0, 2, … and 1, 3, …
    float* const even = to + w.pad_w % 2 * w.phase_floats() + w.pad_w / 2;
    float* const odd = to + (w.pad_w + 1) % 2 * w.phase_floats() + (w.pad_w + 1) / 2;
    int64_t x = 0;
    for (; x + 2 * lanes <= w.in_w; x += 2 * lanes) {
      hn::Vec<decltype(d)> a, b;
      hn::LoadInterleaved2(d, plane + x, a, b);
      hn::StoreU(a, d, even + x / 2);
      hn::StoreU(b, d, odd + x / 2);
    }
    for (; x < w.in_w; ++x) {
      (x % 2 == 0 ? even : odd)[x / 2] = plane[x];
    }
  }
}

}  // namespace et::kernels::optimized::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::conv {

HWY_EXPORT(CopyPlane);
HWY_EXPORT(PlaneResults);

namespace {

using namespace ops::arguments::et_convolution_clamp;

Error prepare(runtime::PrepareContext& context, Arguments args, const EValue* min, const EValue* max, void** state) {
  const Tensor weight = args[kWeight]->to_tensor();
  const EValue& stride = *args[kStride];
  if (!has_constant_planes(context, args) || weight.dim() != 4 || weight.size(0) < 2 || weight.size(1) != 1 ||
      args[kGroups]->number_as_int() != weight.size(0) || args[kInput]->to_tensor().size(1) != weight.size(0) ||
      weight.size(2) != 3 || weight.size(3) != 3 || !(is_pair(stride, 1, 1) || is_pair(stride, 2, 2)) ||
      !is_pair(*args[kDilation], 1, 1) || !has_padding_up_to(*args[kPadding], 1 << 15)) {
    return Error::NotSupported;
  }
  ET_RETURN_IF_ERROR(runtime::offer_work(state, work_of(args), ops::kKernelCosts));
  ET_TRY(const Range range, read_range(context, min, max));
  PlaneDepthwise w{};
  static_cast<ImageGeometry&>(w) =
      geometry_of(weight, stride.to_int_list(), args[kPadding]->to_int_list(), args[kDilation]->to_int_list());
  w.channels = static_cast<size_t>(weight.size(0));
  w.filter = weight.const_data_ptr<float>();
  w.min = range.min;
  w.max = range.max;
  ET_TRY(w.bias, padded_bias(context, *args[kBias], w.channels, w.channels));
  return keep_state(context, w, state);
}

Error run(KernelContext& context, Arguments args, void* state) {
  PlaneDepthwise w = *static_cast<const PlaneDepthwise*>(state);
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  ET_RETURN_IF_ERROR(plan_call(context, "convolution", input, w.channels, w.channels, out, &w));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  // Multiplications below which a hand-over to another thread costs more than it saves: some 5 us.
  constexpr size_t kWorthWaking = 250'000;
  constexpr size_t kReadBeyond = 16;  // by the last vector of a plane
  const auto planes = static_cast<size_t>(input.size(0)) * w.channels;
  const bool is_shared = context.pool() != nullptr && static_cast<size_t>(out.numel()) * 9 >= kWorthWaking;
  const size_t slots = is_shared ? std::min(context.pool()->num_threads(), planes) : 1;
  size_t floats, nbytes;
  ET_CHECK_OR_RETURN(!mul_overflow(static_cast<size_t>(w.rows()), static_cast<size_t>(w.row_floats()), &floats) &&
                         !mul_overflow(floats + kReadBeyond, slots * sizeof(float), &nbytes),
                     InvalidArgument, "convolution: %" PRId64 " rows of %" PRId64 " numbers are too many", w.rows(),
                     w.row_floats());
  ET_TRY(void* const memory, context.allocate_temp(nbytes));
  const auto* const in = input.const_data_ptr<float>();
  auto* const to = out.mutable_data_ptr<float>();
  // Between two pieces of rows a caller may stop.
  constexpr size_t kPiece = 1 << 18;
  const size_t rows = std::max<size_t>(kPiece / static_cast<size_t>(std::max(w.row_floats(), w.out_w)) / 4, 1) * 4;
  threads::parallel_tasks(slots > 1 ? context.pool() : nullptr, slots, [&](size_t slot) {
    float* const plane = static_cast<float*>(memory) + slot * (floats + kReadBeyond);
    threads::in_pieces(context, floats + kReadBeyond, kPiece,
                       [&](size_t begin, size_t end) { std::fill(plane + begin, plane + end, 0.0f); });
    for (size_t i = planes * slot / slots; i < planes * (slot + 1) / slots && !context.cancelled(); ++i) {
      const size_t c = i % w.channels;
      const float* const from = in + i * static_cast<size_t>(w.in_h * w.in_w);
      float* const results = to + i * static_cast<size_t>(w.out_h * w.out_w);
      threads::in_pieces(context, static_cast<size_t>(w.in_h), rows, [&](size_t begin, size_t end) {
        HWY_DYNAMIC_DISPATCH(CopyPlane)(w, from, begin, end, plane);
      });
      threads::in_pieces(context, static_cast<size_t>(w.out_h), rows, [&](size_t begin, size_t end) {
        HWY_DYNAMIC_DISPATCH(PlaneResults)(w, w.filter + 9 * c, w.bias[c], plane, begin, end, results);
      });
    }
  });
  return Error::Ok;
}

}  // namespace

ET_KERNEL_TABLE(plane_depthwise, ConvolutionKernels<&prepare, &run, kPriorityPlaneDepthwise>::kTable)

}  // namespace et::kernels::optimized::conv
#endif  // HWY_ONCE
