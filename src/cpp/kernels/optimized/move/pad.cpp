// Padding by reflection and replication of row-major images: each line is one copy between its two edges, and threads
// share lines.
//
// Not for: what the plain kernels refuse, images with channels innermost, padding that cuts off; those get the call.

#include <algorithm>
#include <cstring>

#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/op_pad.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::move {
namespace {

constexpr size_t kMostSpatial = 3;

/// One dimension with what is put before and behind it.
struct PaddedDim {
  int64_t size = 1, low = 0, high = 0;

  int64_t padded() const { return size + low + high; }
  /// Where padded position `i` reads.
  int64_t source(int64_t i, bool replicates) const {
    const int64_t at = i - low;
    if (replicates) {
      return std::min(std::max(at, int64_t{0}), size - 1);
    }
    return at < 0 ? -at : at >= size ? 2 * (size - 1) - at : at;
  }
};

/// The last three dimensions, outermost first; those that an image has not are of one element. False where the plain
/// kernel is to look.
bool read_padding(const Tensor& self, IntArrayRef padding, size_t spatial, bool replicates, PaddedDim* dims) {
  constexpr int64_t kMostPadding = int64_t{1} << 31;
  const auto rank = static_cast<size_t>(self.dim());
  bool fits = padding.size() == 2 * spatial && (rank == spatial + 1 || rank == spatial + 2) && self.numel() > 0;
  for (size_t k = 0; fits && k < spatial; ++k) {
    const PaddedDim dim{self.size(static_cast<int64_t>(rank - 1 - k)), padding[2 * k], padding[2 * k + 1]};
    const int64_t most = replicates ? kMostPadding : dim.size - 1;
    fits = dim.low >= 0 && dim.high >= 0 && dim.low <= most && dim.high <= most && dim.size <= kMostPadding;
    dims[kMostSpatial - 1 - k] = dim;
  }
  return fits;
}

template <typename T>
void pad_line(const T* from, const PaddedDim& line, bool replicates, T* to) {
  const int64_t low = line.low, high = line.high, size = line.size;
  T* const end = to + low + size;
  if (replicates) {
    std::fill_n(to, low, from[0]);
    std::fill_n(end, high, from[size - 1]);
  } else {
    for (int64_t i = 0; i < low; ++i) {
      to[i] = from[low - i];
    }
    for (int64_t i = 0; i < high; ++i) {
      end[i] = from[size - 2 - i];
    }
  }
  std::memcpy(to + low, from, static_cast<size_t>(size) * sizeof(T));
}

template <bool kReplicates, size_t kSpatial, auto Plain>
Error pad_out(KernelContext& context, const Tensor& self, IntArrayRef padding, Tensor& out) {
  PaddedDim dims[kMostSpatial];
  if (!read_padding(self, padding, kSpatial, kReplicates, dims)) {
    return Plain(context, self, padding, out);
  }
  portable::Sizes sizes(self.sizes());
  for (size_t k = 0; k < kSpatial; ++k) {
    sizes[self.dim() - 1 - static_cast<int64_t>(k)] = dims[kMostSpatial - 1 - k].padded();
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  const auto& [frames, rows, line] = dims;
  const int64_t planes = self.numel() / (frames.size * rows.size * line.size);
  const auto lines = static_cast<size_t>(planes * frames.padded() * rows.padded());
  const auto grain = threads::kGrainElements / static_cast<size_t>(line.padded());
  return portable::dispatch_by_size(self.element_size(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* const from = static_cast<const T*>(self.const_data_ptr());
    auto* const to = static_cast<T*>(out.mutable_data_ptr());
    threads::parallel_for(context, lines, grain, [&](size_t begin, size_t end) {
      const auto first = static_cast<int64_t>(begin);
      int64_t row = first % rows.padded();
      int64_t frame = first / rows.padded() % frames.padded();
      int64_t plane = first / rows.padded() / frames.padded();
      T* target = to + first * line.padded();
      for (size_t n = begin; n < end; ++n, target += line.padded()) {
        const int64_t source = (plane * frames.size + frames.source(frame, kReplicates)) * rows.size;
        pad_line(from + (source + rows.source(row, kReplicates)) * line.size, line, kReplicates, target);
        if (++row == rows.padded()) {
          row = 0;
          if (++frame == frames.padded()) {
            frame = 0;
            ++plane;
          }
        }
      }
    });
    return Error::Ok;
  });
}

/// pad(self, padding, out): row-major images of one element type.
bool fits_pad(Arguments args) {
  return args[0]->to_tensor().scalar_type() == args[2]->to_tensor().scalar_type() && is_row_major(*args[0]) &&
         is_row_major(*args[2]);
}

template <bool kReplicates, size_t kSpatial, auto Plain>
constexpr Kernel make_pad_kernel(const char* name) {
  return make_fitting_kernel<&pad_out<kReplicates, kSpatial, Plain>, &fits_pad>(name);
}

constexpr Kernel kKernels[] = {
    make_pad_kernel<false, 1, &portable::reflection_pad1d_out>("aten::reflection_pad1d.out"),
    make_pad_kernel<false, 2, &portable::reflection_pad2d_out>("aten::reflection_pad2d.out"),
    make_pad_kernel<false, 3, &portable::reflection_pad3d_out>("aten::reflection_pad3d.out"),
    make_pad_kernel<true, 1, &portable::replication_pad1d_out>("aten::replication_pad1d.out"),
    make_pad_kernel<true, 2, &portable::replication_pad2d_out>("aten::replication_pad2d.out"),
    make_pad_kernel<true, 3, &portable::replication_pad3d_out>("aten::replication_pad3d.out"),
};

}  // namespace

ET_KERNEL_TABLE(pad, kKernels)

}  // namespace et::kernels::optimized::move
