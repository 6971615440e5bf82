// aten::convolution.out, et::convolution_clamp.out and et::sparse_convolution.out with constant weights: 1-D and 2-D,
// grouped, depthwise, dilated and transposed, on xnn_convolution2d_nhwc_f32 and xnn_deconvolution2d_nhwc_f32. 1-D is 2-D
// with one row.

#include "backends/xnnpack/kernels/dense_weight.h"
#include "backends/xnnpack/kernels/geometry.h"
#include "backends/xnnpack/kernels/kernels.h"
#include "backends/xnnpack/kernels/layout.h"

namespace et::backends::xnnpack {
namespace {

// Arguments by position; the two dense operators differ in what follows kGroups.
enum { kInput, kWeight, kBias, kStride, kPadding, kDilation, kTransposed, kOutputPadding, kGroups, kMin, kMax };

struct ConvolutionState {
  Operator op;
  Geometry geometry;
};

xnn_status create(const Geometry& g, const float* weight, const float* bias, ClampRange range,
                  xnn_weights_cache_t cache, xnn_operator_t* op) {
  const size_t group_in = g.in_channels / g.groups;
  const size_t group_out = g.out_channels / g.groups;
  if (g.transposed) {
    return xnn_create_deconvolution2d_nhwc_f32(g.padding.h, g.padding.w, g.padding.h, g.padding.w, g.kernel.h,
                                               g.kernel.w, g.stride.h, g.stride.w, g.dilation.h, g.dilation.w, g.groups,
                                               group_in, group_out, g.in_channels, g.out_channels, weight, bias,
                                               range.min, range.max, 0, nullptr, cache, op);
  }
  return xnn_create_convolution2d_nhwc_f32(g.padding.h, g.padding.w, g.padding.h, g.padding.w, g.kernel.h, g.kernel.w,
                                           g.stride.h, g.stride.w, g.dilation.h, g.dilation.w, g.groups, group_in,
                                           group_out, g.in_channels, g.out_channels, weight, bias, range.min, range.max,
                                           0, nullptr, cache, op);
}

/// Nothing, or a constant with a number for each output channel, which the library copies.
bool is_packable_bias(const PrepareContext& context, const EValue& bias, const Geometry& geometry) {
  return bias.is_none() ||
         (is_constant_float(context, bias) && static_cast<size_t>(bias.to_tensor().numel()) == geometry.out_channels);
}

bool are_float_images(const EValue& input, const EValue& out) {
  return is_float_tensor(input) && is_float_tensor(out) && has_image_layout(input.to_tensor()) &&
         has_image_layout(out.to_tensor());
}

Error make_convolution(PrepareContext& context, const Geometry& geometry, const Tensor& weight, const float* bias,
                       ClampRange range, xnn_weights_cache_t cache, void** state) {
  LibraryWeight library_weight;
  ET_RETURN_IF_ERROR(library_weight.make(weight, geometry));
  ET_TRY(ConvolutionState* const made, make_state<ConvolutionState>(context));
  made->geometry = geometry;
  if (create(geometry, library_weight.data<float>(), bias, range, cache, made->op.receive()) != xnn_status_success) {
    made->~ConvolutionState();
    return Error::NotSupported;
  }
  *state = made;
  return Error::Ok;
}

Error prepare(PrepareContext& context, Span<EValue* const> args, ClampRange range, void** state) {
  const EValue& bias = *args[kBias];
  if (!is_constant_float(context, *args[kWeight]) || !are_float_images(*args[kInput], *args[args.size() - 1]) ||
      !has_image_layout(args[kWeight]->to_tensor())) {
    return Error::NotSupported;
  }
  ET_TRY(const Geometry geometry,
         read_geometry({args[kInput], args[kWeight], args[kStride], args[kPadding], args[kDilation], args[kTransposed],
                        args[kOutputPadding], args[kGroups]}));
  if (!is_packable_bias(context, bias, geometry)) {
    return Error::NotSupported;
  }
  ET_RETURN_IF_ERROR(start_library());
  const Tensor weight = args[kWeight]->to_tensor();
  const float* const bias_data = bias.is_none() ? nullptr : bias.to_tensor().const_data_ptr<float>();
  const uint64_t variant = (uint64_t{geometry.groups} << 32) | (geometry.transposed ? 2 : 1);
  const PackedWeightsScope scope(context.shared(), weight.const_data_ptr(), bias_data, variant);
  return make_convolution(context, geometry, weight, bias_data, range, scope.cache(), state);
}

// sparse_convolution(input, values, mask, bias, weight_size, stride, padding, dilation, groups, min, max, out): the weight
// is unpacked once, here.
Error prepare_sparse_convolution(PrepareContext& context, Span<EValue* const> args, void** state) {
  ET_TRY(const ClampRange range, clamp_range(*args[9], *args[10]));
  const EValue& bias = *args[3];
  if (!are_float_images(*args[kInput], *args[args.size() - 1])) {
    return Error::NotSupported;
  }
  DenseWeight dense;
  ET_RETURN_IF_ERROR(dense.unpack("et::sparse_convolution", context, *args[1], *args[2], *args[4]));
  const EValue weight(dense.tensor());
  const EValue transposed(false);
  ET_TRY(const Geometry geometry,
         read_geometry({args[kInput], &weight, args[5], args[6], args[7], &transposed, nullptr, args[8]}));
  if (!is_packable_bias(context, bias, geometry)) {
    return Error::NotSupported;
  }
  ET_RETURN_IF_ERROR(start_library());
  const float* const bias_data = bias.is_none() ? nullptr : bias.to_tensor().const_data_ptr<float>();
  return make_convolution(context, geometry, dense.tensor(), bias_data, range, nullptr, state);
}

Error prepare_convolution(PrepareContext& context, Span<EValue* const> args, void** state) {
  return prepare(context, args, ClampRange(), state);
}

Error prepare_convolution_clamp(PrepareContext& context, Span<EValue* const> args, void** state) {
  ET_TRY(const ClampRange range, clamp_range(*args[kMin], *args[kMax]));
  return prepare(context, args, range, state);
}

Error reshape(ConvolutionState* state, size_t batch, size_t height, size_t width, pthreadpool* pool) {
  const Geometry& g = state->geometry;
  if (g.transposed) {
    return check(xnn_reshape_deconvolution2d_nhwc_f32(state->op.get(), batch, height, width, g.output_padding.h,
                                                      g.output_padding.w, nullptr, nullptr, pool),
                 "xnn_reshape_deconvolution2d_nhwc_f32");
  }
  return check(xnn_reshape_convolution2d_nhwc_f32(state->op.get(), batch, height, width, &state->op.workspace_size,
                                                  &state->op.workspace_alignment, nullptr, nullptr, pool),
               "xnn_reshape_convolution2d_nhwc_f32");
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
      pool_for(context, (g.transposed ? input : out).numel() * taps * depth, depth == 1 ? kDepthwisePs : kDensePs));
  if (state->op.needs_reshape(pool.get(), {input.size(0), in_h, in_w})) {
    const Error error = reshape(state, static_cast<size_t>(input.size(0)), static_cast<size_t>(in_h),
                                static_cast<size_t>(in_w), pool.get());
    if (error != Error::Ok) {
      state->op.forget_shape();
      return error;
    }
  }
  ET_TRY(const float* const x, channels_innermost<float>(context, input, pool.get()));
  ET_TRY(const ImageOutput y, ImageOutput::make(context, out));
  if (g.transposed) {
    ET_RETURN_IF_ERROR(check(xnn_setup_deconvolution2d_nhwc_f32(state->op.get(), x, y.data<float>()),
                             "xnn_setup_deconvolution2d_nhwc_f32"));
  } else {
    ET_TRY(void* const workspace, state->op.workspace(context));
    ET_RETURN_IF_ERROR(check(xnn_setup_convolution2d_nhwc_f32(state->op.get(), workspace, x, y.data<float>()),
                             "xnn_setup_convolution2d_nhwc_f32"));
  }
  ET_RETURN_IF_ERROR(check(xnn_run_operator(state->op.get(), pool.get()), "xnn_run_operator"));
  return y.finish(pool.get());
}

}  // namespace

const runtime::Kernel kConvolutionKernels[3] = {
    {"aten::convolution.out", "TTtlllblio", &run, &prepare_convolution, &destroy_state<ConvolutionState>,
     runtime::kPriorityLibrary},
    {"et::convolution_clamp.out", "TTtlllbliNNo", &run, &prepare_convolution_clamp, &destroy_state<ConvolutionState>,
     runtime::kPriorityLibrary},
    {"et::sparse_convolution.out", "TTTtlllliNNo", &run, &prepare_sparse_convolution, &destroy_state<ConvolutionState>,
     runtime::kPriorityLibrary},
};

}  // namespace et::backends::xnnpack
