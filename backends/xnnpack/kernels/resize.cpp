// aten::upsample_bilinear2d.out and .vec_out, on xnn_resize_bilinear2d_nhwc_f32.

#include <cmath>

#include "backends/xnnpack/kernels/kernels.h"
#include "backends/xnnpack/kernels/layout.h"
#include "ops/signatures/portable/op_upsample.h"

namespace et::backends::xnnpack {
namespace {

struct ResizeState {
  Operator op;
  int64_t height, width;  // of the output
};

/// True when scaling by `factor` maps `in` elements onto exactly `out`: then the ratio of sizes, which the library
/// uses, and the factor, which PyTorch uses, are the same.
bool is_exact(double factor, int64_t in, int64_t out) {
  return factor * static_cast<double>(in) == static_cast<double>(out);
}

Error keep(PrepareContext& context, const Tensor& self, const Tensor& out, bool align_corners, void** state) {
  const bool fits = self.scalar_type() == ScalarType::Float && out.scalar_type() == ScalarType::Float &&
                    self.dim() == 4 && out.dim() == 4 && has_image_layout(self) && has_image_layout(out) &&
                    out.numel() > 0 &&
                    // Where sizes change, PyTorch's and the library's rules for one row or column must not meet.
                    self.unsafe_impl()->dynamism() == runtime::TensorShapeDynamism::kStatic &&
                    // The size may be a number that an input or the data decides.
                    out.unsafe_impl()->dynamism() == runtime::TensorShapeDynamism::kStatic && self.size(2) > 1 &&
                    self.size(3) > 1 && out.size(2) > 1 && out.size(3) > 1;
  if (!fits) {
    return Error::NotSupported;
  }
  ET_RETURN_IF_ERROR(start_library());
  ET_TRY(ResizeState* const made, make_state<ResizeState>(context));
  made->height = out.size(2);
  made->width = out.size(3);
  const xnn_status status =
      xnn_create_resize_bilinear2d_nhwc_f32(static_cast<size_t>(made->height), static_cast<size_t>(made->width),
                                            align_corners ? XNN_FLAG_ALIGN_CORNERS : 0, made->op.receive());
  return keep_state(made, status, state);
}

// upsample_bilinear2d(self, output_size, align_corners, scales_h, scales_w, out)
Error prepare(PrepareContext& context, Span<EValue* const> args, void** state) {
  const Tensor self = args[0]->to_tensor();
  const Tensor out = args[5]->to_tensor();
  if (self.dim() != 4 || out.dim() != 4) {
    return Error::NotSupported;
  }
  for (const size_t d : {0, 1}) {
    const EValue& scale = *args[3 + d];
    const auto axis = static_cast<int64_t>(2 + d);
    if (!scale.is_none() && !is_exact(scale.number_as_double(), self.size(axis), out.size(axis))) {
      return Error::NotSupported;
    }
  }
  return keep(context, self, out, args[2]->number_as_bool(), state);
}

// upsample_bilinear2d.vec(input, output_size, align_corners, scale_factors, out)
Error prepare_vec(PrepareContext& context, Span<EValue* const> args, void** state) {
  const Tensor self = args[0]->to_tensor();
  const Tensor out = args[4]->to_tensor();
  if (self.dim() != 4 || out.dim() != 4) {
    return Error::NotSupported;
  }
  if (!args[3]->is_none()) {
    const Span<const double> factors = args[3]->to_double_list();
    if (factors.size() != 2 || !is_exact(factors[0], self.size(2), out.size(2)) ||
        !is_exact(factors[1], self.size(3), out.size(3))) {
      return Error::NotSupported;
    }
  }
  return keep(context, self, out, args[2]->number_as_bool(), state);
}

Error run(KernelContext& context, Span<EValue* const> args, void* opaque) {
  auto* const state = static_cast<ResizeState*>(opaque);
  const Tensor self = args[0]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  ET_RETURN_IF_ERROR(runtime::resize_tensor(context, out, {self.size(0), self.size(1), state->height, state->width}));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const threads::NativePool pool(pool_for(context, out.numel(), kInterpolationPs));
  ET_RETURN_IF_ERROR(
      state->op.reshape(pool.get(), self.sizes(), "xnn_resize_bilinear2d_nhwc_f32", [&](xnn_operator_t op) {
        const auto c = static_cast<size_t>(self.size(1));
        return xnn_reshape_resize_bilinear2d_nhwc_f32(
            op, static_cast<size_t>(self.size(0)), static_cast<size_t>(self.size(2)), static_cast<size_t>(self.size(3)),
            c, c, c, &state->op.workspace_size, &state->op.workspace_alignment, pool.get());
      }));
  ET_TRY(const float* const x, channels_innermost<float>(context, self, pool.get()));
  ET_TRY(const ImageOutput y, ImageOutput::make(context, out));
  ET_TRY(void* const workspace, state->op.workspace(context));
  ET_RETURN_IF_ERROR(check(xnn_setup_resize_bilinear2d_nhwc_f32(state->op.get(), workspace, x, y.data<float>()),
                           "xnn_setup_resize_bilinear2d_nhwc_f32"));
  ET_RETURN_IF_ERROR(state->op.run(context, pool.get()));
  return y.finish(pool.get());
}

}  // namespace

const runtime::Kernel kResizeKernels[2] = {
    library_kernel<&prepare, &run, &destroy_state<ResizeState>>(signature::upsample_bilinear2d_out),
    library_kernel<&prepare_vec, &run, &destroy_state<ResizeState>>(signature::upsample_bilinear2d_vec_out),
};

}  // namespace et::backends::xnnpack
