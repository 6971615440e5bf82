// Samples of row-major float images at the places that a grid gives (grid_sampler_2d), linear and nearest. The pixels
// around a place and their weights are found once for all channels.
//
// Channels are brought innermost before: a pixel is then some vectors, and no element is looked up by itself. What
// comes of some points goes back in squares. A single channel, and few points of a large image, are gathered.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/rounding.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/transpose4-inl.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "kernels/portable/grid_positions.h"
#include "kernels/portable/op_grid_sampler.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_GRID_SAMPLER_ONCE
#define ET_KERNELS_OPTIMIZED_GRID_SAMPLER_ONCE
namespace et::kernels::optimized::resize {

using portable::GridPadding;

constexpr size_t kPoints = 64;    // whose corners are found together; whole vectors
constexpr size_t kChannels = 64;  // that are innermost together, at most

/// A pixel's floats in a copy whose channels are innermost: whole vectors of four. What is behind the last is zero.
constexpr size_t row_of(size_t channels) { return (channels + 3) / 4 * 4; }

/// What all points of a call have in common.
struct GridRules {
  int32_t height, width;
  bool is_nearest, align_corners;
  GridPadding padding;

  int32_t pixels() const { return height * width; }
};

/// Points of one image and some of its channels.
struct GridPart {
  const float* image;  // [channels, pixels]; or [pixels + 1, row_of(channels)], of which the last has zeros
  const float* grid;   // [points, 2]
  float* out;          // [channels, points of the image]
  size_t channels, image_points;
  size_t points;  // of this part, kPoints at most
};

}  // namespace et::kernels::optimized::resize
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::resize::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

/// The four pixels around each point, from left to right and down, and their weights. One that is outside of the image
/// is the pixel behind the last. Nearest: only the first, with no weight.
struct Corners {
  HWY_ALIGN int32_t at[4][kPoints];
  HWY_ALIGN float weight[4][kPoints];
};

using FloatTag = hn::ScalableTag<float>;
using Floats = hn::Vec<FloatTag>;

/// portable::unnormalize, operation by operation: what is nearest must not depend on the kernel.
HWY_INLINE Floats unnormalized(Floats x, int32_t size, bool align_corners) {
  const FloatTag d;
  const auto one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f);
  const auto moved = hn::Add(x, one);
  return align_corners ? hn::Mul(hn::Mul(moved, half), hn::Set(d, static_cast<float>(size - 1)))
                       : hn::Mul(hn::Sub(hn::Mul(moved, hn::Set(d, static_cast<float>(size))), one), half);
}

/// Which of `x` are a place along a dimension.
template <class V>
HWY_INLINE hn::Mask<hn::DFromV<V>> is_inside(V x, int32_t size) {
  const hn::DFromV<V> d;
  return hn::And(hn::Ge(x, hn::Zero(d)), hn::Lt(x, hn::Set(d, size)));
}

/// The grid's numbers of a part, whole vectors of them. Points that a part lacks have the middle of the image.
HWY_INLINE const float* whole_grid(const GridPart& part, float* HWY_RESTRICT copy) {
  if (part.points == kPoints) {
    return part.grid;
  }
  std::memset(copy, 0, 2 * kPoints * sizeof(float));
  std::memcpy(copy, part.grid, 2 * part.points * sizeof(float));
  return copy;
}

/// portable::pad_position_2d with reflection.
HWY_INLINE Floats reflected(Floats x, int32_t size, bool align_corners) {
  const FloatTag d;
  HWY_ALIGN float each[hn::MaxLanes(FloatTag())];
  hn::Store(x, d, each);
  for (float& position : each) {  // remainders of divisions
    position = portable::pad_position_2d(position, size, GridPadding::kReflection, align_corners);
  }
  return hn::Load(d, each);
}

/// portable::pad_position_2d.
HWY_INLINE Floats padded(Floats x, int32_t size, GridPadding padding, bool align_corners) {
  const FloatTag d;
  if (padding == GridPadding::kReflection) {
    return reflected(x, size, align_corners);
  }
  if (padding == GridPadding::kBorder) {
    const auto number = hn::IfThenZeroElse(hn::IsNaN(x), x);
    return hn::Min(hn::Max(number, hn::Zero(d)), hn::Set(d, static_cast<float>(size - 1)));
  }
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 1e9f)), x, hn::Set(d, -100.0f));
}

void find_corners(const GridRules& rules_of_all, const GridPart& part, Corners& corners) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const GridRules rules = rules_of_all;  // a copy, which no store changes
  HWY_ALIGN float copy[2 * kPoints];
  const float* const grid = whole_grid(part, copy);
  const auto width = hn::Set(di, rules.width), outside = hn::Set(di, rules.pixels()), next = hn::Set(di, 1);
  const auto one = hn::Set(d, 1.0f);
  for (size_t i = 0; i < kPoints; i += hn::Lanes(d)) {
    Floats x, y;
    hn::LoadInterleaved2(d, grid + 2 * i, x, y);
    const auto given_x = unnormalized(x, rules.width, rules.align_corners);
    const auto given_y = unnormalized(y, rules.height, rules.align_corners);
    x = padded(given_x, rules.width, rules.padding, rules.align_corners);
    y = padded(given_y, rules.height, rules.padding, rules.align_corners);
    if (rules.is_nearest) {
      const auto column = hn::ConvertTo(di, hn::Round(x)), row = hn::ConvertTo(di, hn::Round(y));
      const auto inside = hn::And(is_inside(column, rules.width), is_inside(row, rules.height));
      hn::Store(hn::IfThenElse(inside, hn::Add(hn::Mul(row, width), column), outside), di, corners.at[0] + i);
      continue;
    }
    const auto x0 = hn::Floor(x), y0 = hn::Floor(y);
    const auto right = hn::Sub(x, x0), low = hn::Sub(y, y0);
    const auto left = hn::Sub(one, right), high = hn::Sub(one, low);
    const auto column = hn::ConvertTo(di, x0), row = hn::ConvertTo(di, y0);
    const auto first = hn::Add(hn::Mul(row, width), column), below = hn::Add(first, width);
    const auto in_left = is_inside(column, rules.width), in_right = is_inside(hn::Add(column, next), rules.width);
    const auto in_high = is_inside(row, rules.height), in_low = is_inside(hn::Add(row, next), rules.height);
    const auto keep = [&](size_t corner, auto inside, auto at, auto weight) HWY_ATTR {
      hn::Store(hn::IfThenElse(inside, at, outside), di, corners.at[corner] + i);
      hn::Store(weight, d, corners.weight[corner] + i);
    };
    auto weight = hn::Mul(high, left);
    if (rules.padding == GridPadding::kZeros) {  // all four are outside, where there are zeros
      const auto is_finite = hn::And(hn::IsFinite(given_x), hn::IsFinite(given_y));
      weight = hn::IfThenElse(is_finite, weight, hn::Set(d, std::numeric_limits<float>::quiet_NaN()));
    }
    keep(0, hn::And(in_high, in_left), first, weight);
    keep(1, hn::And(in_high, in_right), hn::Add(first, next), hn::Mul(high, right));
    keep(2, hn::And(in_low, in_left), below, hn::Mul(low, left));
    keep(3, hn::And(in_low, in_right), hn::Add(below, next), hn::Mul(low, right));
  }
}

/// to[c * to_stride + r] = from[r * from_stride + c]. kToFirst: lines of `to` are written whole; else those of `from`
/// are read so, 64 columns at a time, which leaves what is written in the first cache.
template <bool kToFirst>
HWY_INLINE void transpose(const float* from, size_t from_stride, float* to, size_t to_stride, size_t rows,
                          size_t columns) {
  constexpr size_t kSide = 4;
  const auto square = [&](size_t r, size_t c) HWY_ATTR {
    transpose4(reinterpret_cast<const char*>(from + r * from_stride + c),
               reinterpret_cast<char*>(to + c * to_stride + r), static_cast<int64_t>(from_stride * sizeof(float)),
               static_cast<int64_t>(to_stride * sizeof(float)));
  };
  const size_t whole_rows = rows / kSide * kSide, whole_columns = columns / kSide * kSide;
  if (kToFirst) {
    for (size_t c = 0; c < whole_columns; c += kSide) {
      for (size_t r = 0; r < whole_rows; r += kSide) {
        square(r, c);
      }
    }
  } else {
    constexpr size_t kTile = 64;
    for (size_t c0 = 0; c0 < whole_columns; c0 += kTile) {
      for (size_t r = 0; r < whole_rows; r += kSide) {
        for (size_t c = c0; c < HWY_MIN(c0 + kTile, whole_columns); c += kSide) {
          square(r, c);
        }
      }
    }
  }
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) {
      to[c * to_stride + r] = from[r * from_stride + c];
    }
  }
}

/// The last channels of a pixel, one to three of them from `first` on, and zeros.
HWY_INLINE void bring_last(const float* planes, size_t channels, size_t pixels, size_t first, size_t count,
                           float* rows) {
  const hn::FixedTag<float, 4> d;
  const size_t row = row_of(channels);
  const auto zero = hn::Zero(d);
  const float* const x = planes + first * pixels;
  const bool has_two = first + 1 < channels, has_three = first + 2 < channels;
  size_t p = 0;
  for (; p + 4 <= count; p += 4) {
    HWY_ALIGN float square[16];
    const auto second = has_two ? hn::LoadU(d, x + pixels + p) : zero;
    hn::StoreInterleaved4(hn::LoadU(d, x + p), second, has_three ? hn::LoadU(d, x + 2 * pixels + p) : zero, zero, d,
                          square);
    for (size_t i = 0; i < 4; ++i) {
      hn::StoreU(hn::Load(d, square + 4 * i), d, rows + (p + i) * row + first);
    }
  }
  for (; p < count; ++p) {
    for (size_t c = first; c < row; ++c) {
      rows[p * row + c] = c < channels ? planes[c * pixels + p] : 0.0f;
    }
  }
}

/// `count` pixels of planes [channels, pixels] become rows of channels.
void BringInnermost(const float* planes, size_t channels, size_t pixels, size_t count, float* rows) {
  const size_t whole = channels / 4 * 4;
  transpose<false>(planes, pixels, rows, row_of(channels), whole, count);
  if (whole < channels) {
    bring_last(planes, channels, pixels, whole, count, rows);
  }
}

/// body(d, c) for each vector of a row.
template <class Body>
HWY_INLINE void over_row(size_t row, const Body& body) {
  const FloatTag d;
  const hn::CappedTag<float, 4> quarter;
  size_t c = 0;
  for (; c + hn::Lanes(d) <= row; c += hn::Lanes(d)) {
    body(d, c);
  }
  for (; c < row; c += hn::Lanes(quarter)) {
    body(quarter, c);
  }
}

/// Of an image whose channels are innermost, kChannels at most.
void SampleRows(const GridRules& rules, const GridPart& part) {
  Corners corners;
  HWY_ALIGN float results[kPoints * kChannels];
  find_corners(rules, part, corners);
  const size_t channels = part.channels, row = row_of(channels), points = part.points;
  for (size_t p = 0; p < points; ++p) {
    const auto pixel = [&](size_t corner) { return part.image + static_cast<size_t>(corners.at[corner][p]) * row; };
    float* const to = results + p * kChannels;
    const float* const x0 = pixel(0);
    if (rules.is_nearest) {
      over_row(row, [&](auto d, size_t c) HWY_ATTR { hn::StoreU(hn::LoadU(d, x0 + c), d, to + c); });
      continue;
    }
    const float *const x1 = pixel(1), *const x2 = pixel(2), *const x3 = pixel(3);
    const float w0 = corners.weight[0][p], w1 = corners.weight[1][p];
    const float w2 = corners.weight[2][p], w3 = corners.weight[3][p];
    over_row(row, [&](auto d, size_t c) HWY_ATTR {
      auto sum = hn::Mul(hn::LoadU(d, x0 + c), hn::Set(d, w0));
      sum = hn::MulAdd(hn::LoadU(d, x1 + c), hn::Set(d, w1), sum);
      sum = hn::MulAdd(hn::LoadU(d, x2 + c), hn::Set(d, w2), sum);
      hn::StoreU(hn::MulAdd(hn::LoadU(d, x3 + c), hn::Set(d, w3), sum), d, to + c);
    });
  }
  const size_t whole = channels / 4 * 4;
  transpose<true>(results, kChannels, part.out, part.image_points, points, whole);
  if (whole < channels) {
    HWY_ALIGN float last[4 * kPoints];
    transpose<true>(results + whole, kChannels, last, kPoints, points, 4);
    for (size_t c = whole; c < channels; ++c) {
      std::memcpy(part.out + c * part.image_points, last + (c - whole) * kPoints, points * sizeof(float));
    }
  }
}

/// Of an image in planes.
void SamplePlanes(const GridRules& rules, const GridPart& part) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  Corners corners;
  find_corners(rules, part, corners);
  const auto outside = hn::Set(di, rules.pixels());
  const auto pixels = static_cast<size_t>(rules.pixels());
  over_vectors(part.points, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    const auto at0 = hn::Load(di, corners.at[0] + i);
    const auto in0 = hn::RebindMask(d, hn::Lt(at0, outside));
    const float* plane = part.image;
    float* to = part.out + i;
    if (rules.is_nearest) {
      for (size_t c = 0; c < part.channels; ++c, plane += pixels, to += part.image_points) {
        store(d, whole, hn::MaskedGatherIndex(in0, d, plane, at0), to, left);
      }
      return;
    }
    const auto at1 = hn::Load(di, corners.at[1] + i), at2 = hn::Load(di, corners.at[2] + i);
    const auto at3 = hn::Load(di, corners.at[3] + i);
    const auto in1 = hn::RebindMask(d, hn::Lt(at1, outside)), in2 = hn::RebindMask(d, hn::Lt(at2, outside));
    const auto in3 = hn::RebindMask(d, hn::Lt(at3, outside));
    const auto w0 = hn::Load(d, corners.weight[0] + i), w1 = hn::Load(d, corners.weight[1] + i);
    const auto w2 = hn::Load(d, corners.weight[2] + i), w3 = hn::Load(d, corners.weight[3] + i);
    for (size_t c = 0; c < part.channels; ++c, plane += pixels, to += part.image_points) {
      auto sum = hn::Mul(hn::MaskedGatherIndex(in0, d, plane, at0), w0);
      sum = hn::MulAdd(hn::MaskedGatherIndex(in1, d, plane, at1), w1, sum);
      sum = hn::MulAdd(hn::MaskedGatherIndex(in2, d, plane, at2), w2, sum);
      store(d, whole, hn::MulAdd(hn::MaskedGatherIndex(in3, d, plane, at3), w3, sum), to, left);
    }
  });
}

}  // namespace et::kernels::optimized::resize::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::resize {

HWY_EXPORT(BringInnermost);
HWY_EXPORT(SampleRows);
HWY_EXPORT(SamplePlanes);

namespace {

constexpr const char* kOp = "aten::grid_sampler_2d";
constexpr size_t kCost = 4;                   // of a sample, next to a copy
constexpr size_t kFewestChannels = 4;         // that are worth bringing innermost
constexpr size_t kHeld = size_t{1} << 17;     // floats of images that stay in the second cache
constexpr size_t kLargest = size_t{1} << 22;  // floats of one image that is copied

/// A call.
struct GridCall {
  GridRules rules;
  const float* images;  // [batch, channels, pixels]
  const float* grid;    // [batch, points, 2]
  float* out;           // [batch, channels, points]
  size_t batch, channels, pixels, points;

  size_t chunks() const { return divide_up(points, kPoints); }
  /// kPoints points of an image and its channels from `channel` on; the image as it lies.
  GridPart part(size_t image, size_t channel, size_t count, size_t chunk) const {
    const size_t first = chunk * kPoints, plane = image * channels + channel;
    return {images + plane * pixels,
            grid + (image * points + first) * 2,
            out + plane * points + first,
            count,
            points,
            std::min(kPoints, points - first)};
  }
};

void sample_planes(KernelContext& context, const GridCall& call) {
  const auto sample = HWY_DYNAMIC_POINTER(SamplePlanes);
  const size_t grain = threads::grain_for(kPoints * call.channels * kCost);
  threads::parallel_for(context, call.batch * call.chunks(), grain, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      sample(call.rules, call.part(i / call.chunks(), 0, call.channels, i % call.chunks()));
    }
  });
}

/// Some blocks of channels at a time, each of one image: first the copies, then the samples.
Error sample_rows(KernelContext& context, const GridCall& call) {
  constexpr size_t kStrip = 512;  // pixels
  const size_t width = std::min(call.channels, kChannels), image = (call.pixels + 1) * row_of(width);
  const size_t blocks = divide_up(call.channels, width), all = call.batch * blocks;
  const size_t threads = context.pool() == nullptr ? 1 : context.pool()->num_threads();
  const size_t together = std::clamp<size_t>(threads * kHeld / image, 1, all);
  const size_t strips = divide_up(call.pixels, kStrip);
  ET_TRY(void* const memory, context.allocate_temp(together * image * sizeof(float)));
  float* const copies = static_cast<float*>(memory);
  const auto bring = HWY_DYNAMIC_POINTER(BringInnermost);
  const auto sample = HWY_DYNAMIC_POINTER(SampleRows);
  for (size_t first = 0; first < all && !context.cancelled(); first += together) {
    const size_t count = std::min(together, all - first);
    const auto part_of = [&](size_t copy, size_t chunk) {
      const size_t channel = (first + copy) % blocks * width;
      return call.part((first + copy) / blocks, channel, std::min(width, call.channels - channel), chunk);
    };
    threads::parallel_for(context, count * strips, threads::grain_for(kStrip * width), [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        const GridPart part = part_of(i / strips, 0);
        float* const rows = copies + i / strips * image;
        const size_t pixel = i % strips * kStrip;
        const size_t row = row_of(part.channels);
        bring(part.image + pixel, part.channels, call.pixels, std::min(kStrip, call.pixels - pixel),
              rows + pixel * row);
        std::fill_n(rows + call.pixels * row, pixel == 0 ? row : 0, 0.0f);
      }
    });
    const size_t chunks = call.chunks();
    threads::parallel_for(context, count * chunks, threads::grain_for(kPoints * width * kCost),
                          [&](size_t begin, size_t end) {
                            for (size_t i = begin; i < end; ++i) {
                              GridPart part = part_of(i / chunks, i % chunks);
                              part.image = copies + i / chunks * image;
                              sample(call.rules, part);
                            }
                          });
  }
  return Error::Ok;
}

Error grid_sampler_2d_out(KernelContext& context, const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                          int64_t padding_mode, bool align_corners, Tensor& out) {
  const auto interpolation = static_cast<portable::GridInterpolation>(interpolation_mode);
  const bool is_nearest = interpolation == portable::GridInterpolation::kNearest;
  ET_RETURN_IF_ERROR(
      portable::check_grid_sampler(context, kOp, input, grid, 2, interpolation_mode, 2, padding_mode, out));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  if (input.size(2) * input.size(3) >= INT32_MAX || interpolation == portable::GridInterpolation::kBicubic) {
    return portable::grid_sampler_2d_out(context, input, grid, interpolation_mode, padding_mode, align_corners, out);
  }
  const GridCall call{{static_cast<int32_t>(input.size(2)), static_cast<int32_t>(input.size(3)), is_nearest,
                       align_corners, static_cast<GridPadding>(padding_mode)},
                      input.const_data_ptr<float>(),
                      grid.const_data_ptr<float>(),
                      out.mutable_data_ptr<float>(),
                      static_cast<size_t>(input.size(0)),
                      static_cast<size_t>(input.size(1)),
                      static_cast<size_t>(input.size(2) * input.size(3)),
                      static_cast<size_t>(grid.size(1) * grid.size(2))};
  const size_t image = (call.pixels + 1) * row_of(std::min(call.channels, kChannels));
  // A copy of the image pays off where there are so many points; one element a point needs more of them.
  const bool has_many = is_nearest ? call.points >= 2 * call.pixels : call.points >= call.pixels / 4;
  if (call.channels >= kFewestChannels && has_many && image <= kLargest) {
    return sample_rows(context, call);
  }
  sample_planes(context, call);
  return Error::Ok;
}

/// grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners, out) of floats, but for bicubic.
bool fits_grid(Arguments args) {
  return is_float(*args[0]) && is_float(*args[1]) && is_float(*args[5]) && is_row_major(*args[0]) &&
         is_row_major(*args[1]) && is_row_major(*args[5]) &&
         args[2]->to_int() != static_cast<int64_t>(portable::GridInterpolation::kBicubic);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&grid_sampler_2d_out, &fits_grid>("aten::grid_sampler_2d.out"),
};

}  // namespace

ET_KERNEL_TABLE(grid_sampler, kKernels)

}  // namespace et::kernels::optimized::resize
#endif  // HWY_ONCE
