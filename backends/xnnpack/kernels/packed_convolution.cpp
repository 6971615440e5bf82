#include "backends/xnnpack/kernels/packed_convolution.h"

#include "backends/xnnpack/kernels/gather.h"
#include "backends/xnnpack/kernels/layout.h"
#include "backends/xnnpack/kernels/volume.h"

namespace et::backends::xnnpack {
namespace {

/// True for a transposed convolution in which the rows of the input make rows of the output of their own. To the
/// library they can be images of one row then: it multiplies as many pixels at a time as there are images, one where
/// there is one image.
bool has_separate_rows(const Geometry& g) {
  return g.transposed && g.kernel.h == g.stride.h && g.padding.h == 0 && g.output_padding.h == 0 && g.dilation.h == 1;
}

}  // namespace

Error run_convolution(KernelContext& context, Span<EValue* const> args, void* opaque) {
  auto* const state = static_cast<PackedConvolution*>(opaque);
  const ConvolutionLibrary& library = *state->library;
  const Geometry& g = state->geometry;
  const Tensor input = args[0]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  if (input.dim() == 5) {
    return run_volume(context, *state, input, out);
  }
  const bool rows = input.dim() == 4;
  const int64_t in_h = rows ? input.size(2) : 1;
  const int64_t in_w = input.size(-1);
  ET_CHECK_OR_RETURN(input.size(1) == static_cast<int64_t>(g.in_channels), InvalidArgument,
                     "convolution: %" PRId64 " channels meet a weight for %zu", input.size(1), g.in_channels);
  ET_TRY(const Extent extent, output_extent(g, input.size(0), in_h, in_w));
  int64_t sizes[4] = {input.size(0), static_cast<int64_t>(g.out_channels), extent.h, extent.w};
  if (!rows) {
    sizes[2] = extent.w;
  }
  ET_RETURN_IF_ERROR(runtime::resize_tensor(context, out, {sizes, static_cast<size_t>(input.dim())}));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  if (state->gathers) {
    return run_gathered(context, *state, input, out);
  }

  const auto taps = static_cast<int64_t>(g.kernel.h) * g.kernel.w;
  const auto depth = static_cast<int64_t>((g.transposed ? g.out_channels : g.in_channels) / g.groups);
  const threads::NativePool pool(pool_for(context, (g.transposed ? input : out).numel() * taps * depth,
                                          depth == 1 ? kDepthwisePs : library.picoseconds));
  const int64_t images = has_separate_rows(g) ? input.size(0) * in_h : input.size(0);
  const int64_t image_h = has_separate_rows(g) ? 1 : in_h;
  ET_RETURN_IF_ERROR(
      state->op.reshape(pool.get(), {images, image_h, in_w}, library.call, [&](xnn_operator_t /*handle*/) {
        return library.reshape(state->op, static_cast<size_t>(images), static_cast<size_t>(image_h),
                               static_cast<size_t>(in_w), g.output_padding, pool.get());
      }));
  ET_TRY(const void* const x, bytes_with_channels_innermost(context, input, pool.get()));
  ET_TRY(const ImageOutput y, ImageOutput::make(context, out));
  ET_TRY(void* const workspace, state->op.workspace(context));
  ET_RETURN_IF_ERROR(check(library.setup(state->op.get(), workspace, x, y.data<void>()), "setup", library.call));
  ET_RETURN_IF_ERROR(state->op.run(context, pool.get()));
  return y.finish(pool.get());
}

}  // namespace et::backends::xnnpack
