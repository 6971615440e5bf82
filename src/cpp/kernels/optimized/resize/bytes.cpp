// Bilinear and bicubic resizing of images of bytes, in either layout: rows are resized first, then the rows that an
// output row is made of are added up, with bytes in between as in ATen. Bit-equal with the portable kernel.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>

#include "base/checked_math.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "kernels/portable/resize_taps.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_RESIZE_BYTES_ONCE
#define ET_KERNELS_OPTIMIZED_RESIZE_BYTES_ONCE
namespace et::kernels::optimized::resize {

inline constexpr size_t kMostTaps = 4;

/// Where the bytes of an output row come from: for each tap [length] positions in the row, and their weights.
struct RowTaps {
  size_t count;  // of taps
  size_t length;
  int bits;  // of a weight behind the point
  const int32_t* positions[kMostTaps];
  const int32_t* weights[kMostTaps];
};

/// Rows that are added up to one.
struct RowSum {
  size_t count;
  int bits;
  const uint8_t* rows[kMostTaps];
  int32_t weights[kMostTaps];
};

}  // namespace et::kernels::optimized::resize
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::resize::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

using SumTag = hn::ScalableTag<int32_t>;
using ByteTag = hn::Rebind<uint8_t, SumTag>;

HWY_INLINE hn::Vec<SumTag> half_of(int bits) { return hn::Set(SumTag(), bits == 0 ? 0 : int32_t{1} << (bits - 1)); }

/// y[i] = the byte nearest to the sum of its taps. `line`: scratch of `in` numbers.
void ResizeRow(const RowTaps& taps, const uint8_t* x, size_t in, int32_t* line, uint8_t* y) {
  const SumTag d;
  const ByteTag db;
  over_vectors<int32_t>(in, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    store(d, whole, hn::PromoteTo(d, load(db, whole, x + i, left)), line + i, left);
  });
  const auto half = half_of(taps.bits);
  over_vectors<int32_t>(taps.length, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    auto sum = half;
    for (size_t k = 0; k < taps.count; ++k) {
      // Behind the end of the tables position 0, which every row has.
      const auto value = hn::GatherIndex(d, line, load(d, whole, taps.positions[k] + i, left));
      sum = hn::Add(sum, hn::Mul(value, load(d, whole, taps.weights[k] + i, left)));
    }
    store(db, whole, hn::DemoteTo(db, hn::ShiftRightSame(sum, taps.bits)), y + i, left);
  });
}

void AddRows(const RowSum& sum, size_t length, uint8_t* y) {
  const SumTag d;
  const ByteTag db;
  const auto half = half_of(sum.bits);
  over_vectors<int32_t>(length, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    auto total = half;
    for (size_t k = 0; k < sum.count; ++k) {
      const auto value = hn::PromoteTo(d, load(db, whole, sum.rows[k] + i, left));
      total = hn::Add(total, hn::Mul(value, hn::Set(d, sum.weights[k])));
    }
    store(db, whole, hn::DemoteTo(db, hn::ShiftRightSame(total, sum.bits)), y + i, left);
  });
}

}  // namespace et::kernels::optimized::resize::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::resize {

HWY_EXPORT(ResizeRow);
HWY_EXPORT(AddRows);

namespace {

using portable::ByteAxis;

/// The tables of RowTaps for `axis`, whose positions are pixels of `pixel` bytes.
Result<RowTaps> row_taps(KernelContext& context, const portable::ResizeAxis& axis, const ByteAxis& bytes,
                         size_t pixel) {
  RowTaps taps{static_cast<size_t>(bytes.num_taps()), static_cast<size_t>(axis.out) * pixel, bytes.bits(), {}, {}};
  int32_t* positions[kMostTaps];
  int32_t* weights[kMostTaps];
  for (size_t k = 0; k < taps.count; ++k) {
    ET_TRY(void* const memory, context.allocate_temp(2 * taps.length * sizeof(int32_t)));
    positions[k] = static_cast<int32_t*>(memory);
    weights[k] = positions[k] + taps.length;
    taps.positions[k] = positions[k];
    taps.weights[k] = weights[k];
  }
  for (size_t o = 0; o < static_cast<size_t>(axis.out); ++o) {
    const portable::Taps<int32_t> along = bytes.taps(static_cast<int64_t>(o));
    for (size_t k = 0; k < taps.count; ++k) {
      for (size_t c = 0; c < pixel; ++c) {
        positions[k][o * pixel + c] = static_cast<int32_t>(static_cast<size_t>(along.position[k]) * pixel + c);
        weights[k][o * pixel + c] = along.weight[k];
      }
    }
  }
  return taps;
}

/// An image's rows as they are after they were resized; a row goes into several output rows.
class ResizedRows {
 public:
  /// `memory`: kMostTaps rows of `taps.length` bytes.
  ResizedRows(const RowTaps& taps, size_t in, int32_t* line, uint8_t* memory)
      : taps_(taps), in_(in), line_(line), memory_(memory) {}

  /// The rows at `sources`, resized, in `rows`.
  void get(const uint8_t* const* sources, size_t count, const uint8_t** rows) {
    for (size_t slot = 0; slot < kMostTaps; ++slot) {
      const bool is_needed = std::find(sources, sources + count, sources_[slot]) != sources + count;
      sources_[slot] = is_needed ? sources_[slot] : nullptr;
    }
    for (size_t k = 0; k < count; ++k) {
      const uint8_t** slot = std::find(sources_, sources_ + kMostTaps, sources[k]);
      if (slot == sources_ + kMostTaps) {
        slot = std::find(sources_, sources_ + kMostTaps, nullptr);
        *slot = sources[k];
        HWY_DYNAMIC_DISPATCH(ResizeRow)(taps_, sources[k], in_, line_, row(slot));
      }
      rows[k] = row(slot);
    }
  }

 private:
  uint8_t* row(const uint8_t** slot) { return memory_ + static_cast<size_t>(slot - sources_) * taps_.length; }

  const RowTaps& taps_;
  size_t in_;  // bytes of a row
  int32_t* line_;
  uint8_t* memory_;
  const uint8_t* sources_[kMostTaps] = {};
};

Error resize(KernelContext& context, const char* op, const Tensor& input, portable::ResizeSizes output_size,
             bool align_corners, portable::ResizeFactors factors, bool cubic, Tensor& out) {
  portable::ResizeAxis axes[3];
  portable::Sizes sizes(input.sizes());
  ET_RETURN_IF_ERROR(portable::resize_axes(op, input, 2, output_size, factors, align_corners, axes, &sizes));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const bool is_interleaved = !runtime::is_contiguous_dim_order(runtime::dim_order(input));
  const auto pixel = static_cast<size_t>(is_interleaved ? input.size(1) : 1);
  const auto images = static_cast<size_t>(is_interleaved ? input.size(0) : input.size(0) * input.size(1));
  const auto in = static_cast<size_t>(axes[2].in) * pixel;
  const auto in_height = static_cast<size_t>(axes[1].in);
  const auto out_height = static_cast<size_t>(axes[1].out);
  const ByteAxis rows(axes[1], align_corners, cubic);
  const ByteAxis columns(axes[2], align_corners, cubic);
  ET_TRY(const RowTaps taps, row_taps(context, axes[2], columns, pixel));

  // Parts of the output rows, each with memory of its own.
  const size_t total = images * out_height;
  const size_t threads = context.pool() == nullptr ? 1 : context.pool()->num_threads();
  const size_t parts =
      threads == 1 ? 1 : std::max<size_t>(1, std::min(2 * threads, total * taps.length / threads::kGrainElements));
  ET_TRY(void* const lines, context.allocate_temp(parts * in * sizeof(int32_t)));
  ET_TRY(void* const resized, context.allocate_temp(parts * kMostTaps * taps.length));
  const auto* const x = input.const_data_ptr<uint8_t>();
  auto* const y = out.mutable_data_ptr<uint8_t>();
  threads::parallel_tasks(context.pool(), parts, [&](size_t part) {
    ResizedRows resized_rows(taps, in, static_cast<int32_t*>(lines) + part * in,
                             static_cast<uint8_t*>(resized) + part * kMostTaps * taps.length);
    for (size_t row = part * total / parts; row < (part + 1) * total / parts && !context.cancelled(); ++row) {
      const uint8_t* const image = x + row / out_height * in_height * in;
      const portable::Taps<int32_t> along = rows.taps(static_cast<int64_t>(row % out_height));
      RowSum sum{0, rows.bits(), {}, {}};
      const uint8_t* sources[kMostTaps];
      for (size_t k = 0; k < static_cast<size_t>(rows.num_taps()); ++k) {
        if (along.weight[k] != 0) {
          sources[sum.count] = image + static_cast<size_t>(along.position[k]) * in;
          sum.weights[sum.count++] = along.weight[k];
        }
      }
      resized_rows.get(sources, sum.count, sum.rows);
      HWY_DYNAMIC_DISPATCH(AddRows)(sum, taps.length, y + row * taps.length);
    }
  });
  return Error::Ok;
}

Error upsample_bilinear2d_vec_out(KernelContext& context, const Tensor& input, portable::ResizeSizes output_size,
                                  bool align_corners, portable::ResizeFactors scale_factors, Tensor& out) {
  return resize(context, "aten::upsample_bilinear2d", input, output_size, align_corners, scale_factors, false, out);
}

Error upsample_bicubic2d_vec_out(KernelContext& context, const Tensor& input, portable::ResizeSizes output_size,
                                 bool align_corners, portable::ResizeFactors scale_factors, Tensor& out) {
  return resize(context, "aten::upsample_bicubic2d", input, output_size, align_corners, scale_factors, true, out);
}

/// (input, output_size, align_corners, scale_factors, out): images of bytes, both row-major or both with channels
/// innermost, whose rows positions of 32 bits reach.
bool fits_bytes(Arguments args) {
  const Tensor input = args[0]->to_tensor();
  const Tensor out = args[4]->to_tensor();
  int64_t row = 0;
  if (input.dim() != 4 || mul_overflow(input.size(1), input.size(3), &row) || row > INT32_MAX) {
    return false;
  }
  return input.scalar_type() == ScalarType::Byte && out.scalar_type() == ScalarType::Byte && out.dim() == 4 &&
         same_dim_order(*args[0], *args[4]) && (is_row_major(*args[0]) || is_channels_last(*args[0]));
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&upsample_bilinear2d_vec_out, &fits_bytes>("aten::upsample_bilinear2d.vec_out"),
    make_fitting_kernel<&upsample_bicubic2d_vec_out, &fits_bytes>("et::upsample_bicubic2d.vec_out"),
};

}  // namespace

ET_KERNEL_TABLE(bytes, kKernels)

}  // namespace et::kernels::optimized::resize
#endif  // HWY_ONCE
