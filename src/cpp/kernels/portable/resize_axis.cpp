#include "kernels/portable/resize_axis.h"

namespace et::kernels::portable {
namespace {

/// The size that `in` grows to; 0 where that is no size.
int64_t scaled(int64_t in, double factor) {
  const double grown = static_cast<double>(in) * factor;
  return grown >= 1 && grown < 0x1p62 ? static_cast<int64_t>(grown) : 0;
}

}  // namespace

Error resize_axes(const char* op, const Tensor& input, size_t spatial, const ResizeSizes& output_size,
                  const ResizeFactors& factors, bool align_corners, ResizeAxis (&axes)[3], Sizes* sizes) {
  const auto rank = static_cast<int64_t>(spatial + 2);
  ET_RETURN_IF_ERROR(check_rank(op, "input", input, rank, rank));
  ET_CHECK_OR_RETURN((output_size || factors) && (!output_size || output_size->size() == spatial) &&
                         (!factors || factors->size() == spatial),
                     InvalidArgument, "%s: needs %zu numbers as output_size or scale_factors", op, spatial);
  for (size_t i = 0; i < spatial; ++i) {
    const auto dim = static_cast<int64_t>(2 + i);
    const double factor = factors ? (*factors)[i] : 0.0;
    ResizeAxis& axis = axes[3 - spatial + i];
    axis.in = input.size(dim);
    axis.out = output_size ? (*output_size)[i] : scaled(axis.in, factor);
    ET_CHECK_OR_RETURN(axis.in > 0 && axis.out > 0, InvalidArgument, "%s: cannot resize %s to size %" PRId64, op,
                       ShapeText(input.sizes()).text, axis.out);
    axis.scale = resize_scale(axis.in, axis.out, factor, align_corners);
    (*sizes)[dim] = axis.out;
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
