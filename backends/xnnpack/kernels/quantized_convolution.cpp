// et::quantized_convolution.out with constant weights of int8: 1-D and 2-D, grouped, depthwise, dilated and transposed, on
// xnn_convolution2d_nhwc_qs8_qc8w and xnn_deconvolution2d_nhwc_qs8_qc8w.

#include "backends/xnnpack/kernels/geometry.h"
#include "backends/xnnpack/kernels/kernels.h"
#include "backends/xnnpack/kernels/layout.h"
#include "backends/xnnpack/kernels/quantized.h"

namespace et::backends::xnnpack {
namespace {

enum {
  kInput,
  kInputScale,
  kInputZeroPoint,
  kWeight,
  kWeightScales,
  kBias,
  kStride,
  kPadding,
  kDilation,
  kTransposed,
  kOutputPadding,
  kGroups,
  kOutputScale
};

struct ConvolutionState {
  Operator op;
  Geometry geometry;
};

xnn_status create(const Geometry& g, const ProductParameters& p, const int8_t* weight, xnn_weights_cache_t cache,
                  xnn_operator_t* op) {
  const size_t group_in = g.in_channels / g.groups;
  const size_t group_out = g.out_channels / g.groups;
  const auto make = g.transposed ? &xnn_create_deconvolution2d_nhwc_qs8_qc8w : &xnn_create_convolution2d_nhwc_qs8_qc8w;
  return make(g.padding.h, g.padding.w, g.padding.h, g.padding.w, g.kernel.h, g.kernel.w, g.stride.h, g.stride.w,
              g.dilation.h, g.dilation.w, g.groups, group_in, group_out, g.in_channels, g.out_channels,
              p.input_zero_point, p.input_scale, p.weight_scales, weight, p.bias, p.output_zero_point, p.output_scale,
              p.output_min, p.output_max, 0, nullptr, cache, op);
}

Error prepare(PrepareContext& context, Span<EValue* const> args, void** state) {
  if (!is_int8_tensor(*args[kInput]) || !is_int8_tensor(*args[kWeight]) ||
      !has_image_layout(args[kInput]->to_tensor()) || !has_image_layout(args[kWeight]->to_tensor()) ||
      !has_image_layout(args[args.size() - 1]->to_tensor())) {
    return Error::NotSupported;
  }
  ET_TRY(const Geometry geometry,
         read_geometry({args[kInput], args[kWeight], args[kStride], args[kPadding], args[kDilation], args[kTransposed],
                        args[kOutputPadding], args[kGroups]}));
  ProductParameters parameters;
  ET_RETURN_IF_ERROR(parameters.read(context, args, kOutputScale, static_cast<int64_t>(geometry.out_channels)));
  ET_RETURN_IF_ERROR(start_library());
  const Tensor weight = args[kWeight]->to_tensor();
  ET_TRY(ConvolutionState* const made, make_state<ConvolutionState>(context));
  made->geometry = geometry;
  xnn_status status;
  {
    LibraryWeight library_weight;
    ET_RETURN_IF_ERROR(library_weight.make(weight, geometry));
    const uint64_t kind = (uint64_t{geometry.groups} << 32) | (geometry.transposed ? 7 : 6);
    PackedWeightsScope scope(context.shared(), weight.const_data_ptr(), parameters.bias, parameters.variant(kind));
    status = create(geometry, parameters, library_weight.data<int8_t>(), scope.cache(), made->op.receive());
  }
  if (status != xnn_status_success) {
    made->~ConvolutionState();
    return Error::NotSupported;
  }
  *state = made;
  return Error::Ok;
}

Error reshape(ConvolutionState* state, size_t batch, size_t height, size_t width, pthreadpool* pool) {
  const Geometry& g = state->geometry;
  if (g.transposed) {
    return check(xnn_reshape_deconvolution2d_nhwc_qs8_qc8w(state->op.get(), batch, height, width, g.output_padding.h,
                                                           g.output_padding.w, nullptr, nullptr, pool),
                 "xnn_reshape_deconvolution2d_nhwc_qs8_qc8w");
  }
  return check(xnn_reshape_convolution2d_nhwc_qs8_qc8w(state->op.get(), batch, height, width, &state->op.workspace_size,
                                                       &state->op.workspace_alignment, nullptr, nullptr, pool),
               "xnn_reshape_convolution2d_nhwc_qs8_qc8w");
}

Error run(KernelContext& context, Span<EValue* const> args, void* opaque) {
  auto* const state = static_cast<ConvolutionState*>(opaque);
  const Geometry& g = state->geometry;
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  const bool rows = input.dim() == 4;
  const int64_t in_h = rows ? input.size(2) : 1;
  const int64_t in_w = input.size(-1);
  ET_TRY(const Extent extent, output_extent(g, in_h, in_w));
  int64_t sizes[4] = {input.size(0), static_cast<int64_t>(g.out_channels), extent.h, extent.w};
  if (!rows) {
    sizes[2] = extent.w;
  }
  ET_RETURN_IF_ERROR(runtime::resize_tensor(context, out, {sizes, static_cast<size_t>(input.dim())}));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const auto taps = static_cast<int64_t>(g.kernel.h) * g.kernel.w;
  const auto depth = static_cast<int64_t>((g.transposed ? g.out_channels : g.in_channels) / g.groups);
  const threads::NativePool pool(
      pool_for(context, (g.transposed ? input : out).numel() * taps * depth, depth == 1 ? kDepthwisePs : kIntegerPs));
  if (state->op.needs_reshape(pool.get(), {input.size(0), in_h, in_w})) {
    const Error error = reshape(state, static_cast<size_t>(input.size(0)), static_cast<size_t>(in_h),
                                static_cast<size_t>(in_w), pool.get());
    if (error != Error::Ok) {
      state->op.forget_shape();
      return error;
    }
  }
  ET_TRY(const int8_t* const x, channels_innermost<int8_t>(context, input, pool.get()));
  ET_TRY(const ImageOutput y, ImageOutput::make(context, out));
  if (g.transposed) {
    ET_RETURN_IF_ERROR(check(xnn_setup_deconvolution2d_nhwc_qs8_qc8w(state->op.get(), x, y.data<int8_t>()),
                             "xnn_setup_deconvolution2d_nhwc_qs8_qc8w"));
  } else {
    ET_TRY(void* const workspace, state->op.workspace(context));
    ET_RETURN_IF_ERROR(check(xnn_setup_convolution2d_nhwc_qs8_qc8w(state->op.get(), workspace, x, y.data<int8_t>()),
                             "xnn_setup_convolution2d_nhwc_qs8_qc8w"));
  }
  ET_RETURN_IF_ERROR(check(xnn_run_operator(state->op.get(), pool.get()), "xnn_run_operator"));
  return y.finish(pool.get());
}

}  // namespace

const runtime::Kernel kQuantizedConvolutionKernels[1] = {
    {"et::quantized_convolution.out", "TdiTTtlllblidiiio", &run, &prepare, &destroy_state<ConvolutionState>,
     runtime::kPriorityLibrary},
};

}  // namespace et::backends::xnnpack
