// aten::convolution.out, et::convolution_clamp.out, et::sparse_convolution.out and et::weight_only_convolution.out with
// constant weights: 1-D to 3-D, grouped, depthwise, dilated and transposed, on xnn_convolution2d_nhwc_f32 and
// xnn_deconvolution2d_nhwc_f32. 1-D is 2-D with one row, 3-D is volume.h.

#include "backends/xnnpack/kernels/dense_weight.h"
#include "backends/xnnpack/kernels/dequantized_filter.h"
#include "backends/xnnpack/kernels/kernels.h"
#include "backends/xnnpack/kernels/layout.h"
#include "backends/xnnpack/kernels/packed_convolution.h"
#include "ops/arguments.h"
#include "ops/signatures/portable/op_convolution.h"

namespace et::backends::xnnpack {
namespace {

constexpr ConvolutionLibrary kPlain = {"xnn_convolution2d_nhwc_f32", kDensePs,
                                       &reshape_convolution<&xnn_reshape_convolution2d_nhwc_f32>,
                                       &setup_convolution<float, &xnn_setup_convolution2d_nhwc_f32>};
constexpr ConvolutionLibrary kDeconvolution = {"xnn_deconvolution2d_nhwc_f32", kDensePs,
                                               &reshape_deconvolution<&xnn_reshape_deconvolution2d_nhwc_f32>,
                                               &setup_deconvolution<float, &xnn_setup_deconvolution2d_nhwc_f32>};

xnn_status create(const Geometry& g, const float* weight, const float* bias, ClampRange range,
                  xnn_weights_cache_t cache, xnn_operator_t* op) {
  const size_t group_in = g.in_channels / g.groups;
  const size_t group_out = g.out_channels / g.groups;
  const auto make = g.transposed ? &xnn_create_deconvolution2d_nhwc_f32 : &xnn_create_convolution2d_nhwc_f32;
  return make(g.padding.h, g.padding.w, g.padding.h, g.padding.w, g.kernel.h, g.kernel.w, g.stride.h, g.stride.w,
              g.dilation.h, g.dilation.w, g.groups, group_in, group_out, g.in_channels, g.out_channels, weight, bias,
              range.min, range.max, 0, nullptr, cache, op);
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
  ET_TRY(PackedConvolution* const made, make_state<PackedConvolution>(context));
  made->geometry = geometry;
  made->library = geometry.transposed ? &kDeconvolution : &kPlain;
  return keep_state(made, create(geometry, library_weight.data<float>(), bias, range, cache, made->op.receive()),
                    state);
}

Error prepare(PrepareContext& context, Span<EValue* const> args, ClampRange range, void** state) {
  using namespace ops::arguments::et_convolution_clamp;
  const EValue& bias = *args[kBias];
  if (!has_constant_numbers(context, args) || !is_constant_float(context, *args[kWeight]) ||
      !are_float_images(*args[kInput], *args[args.size() - 1]) || !has_image_layout(args[kWeight]->to_tensor())) {
    return Error::NotSupported;
  }
  ET_TRY(const Geometry geometry,
         read_geometry({args[kInput], args[kWeight], args[kStride], args[kPadding], args[kDilation], args[kTransposed],
                        args[kOutputPadding], args[kGroups]}));
  if (!is_packable_bias(context, bias, geometry)) {
    return Error::NotSupported;
  }
  const Tensor weight = args[kWeight]->to_tensor();
  ET_RETURN_IF_ERROR(offer_convolution(geometry, args[kInput]->to_tensor(), weight, args[args.size() - 1]->to_tensor(),
                                       ops::WorkNumbers::floating, state));
  ET_RETURN_IF_ERROR(start_library());
  const float* const bias_data = bias.is_none() ? nullptr : bias.to_tensor().const_data_ptr<float>();
  // A transposed convolution is packed for its strides, too: not shared.
  const uint64_t kind = (uint64_t{geometry.groups} << 32) | 1;
  const PackedWeightsScope scope(geometry.transposed ? nullptr : context.shared(), weight.const_data_ptr(),
                                 weight.sizes(), bias_data, kind);
  return make_convolution(context, geometry, weight, bias_data, range, scope.cache(), state);
}

// sparse_convolution(input, values, mask, bias, weight_size, stride, padding, dilation, groups, min, max, out): the
// weight is unpacked once, here.
Error prepare_sparse_convolution(PrepareContext& context, Span<EValue* const> args, void** state) {
  ET_TRY(const ClampRange range, clamp_range(*args[9], *args[10]));
  const EValue& bias = *args[3];
  if (!has_constant_numbers(context, args) || !are_float_images(*args[0], *args[args.size() - 1])) {
    return Error::NotSupported;
  }
  DenseWeight dense;
  ET_RETURN_IF_ERROR(dense.make("et::sparse_convolution", context, *args[1], *args[2], *args[4]));
  const EValue weight(dense.tensor());
  const EValue transposed(false);
  ET_TRY(const Geometry geometry,
         read_geometry({args[0], &weight, args[5], args[6], args[7], &transposed, nullptr, args[8]}));
  if (!is_packable_bias(context, bias, geometry)) {
    return Error::NotSupported;
  }
  ET_RETURN_IF_ERROR(offer_convolution(geometry, args[0]->to_tensor(), dense.tensor(),
                                       args[args.size() - 1]->to_tensor(), ops::WorkNumbers::floating, state));
  ET_RETURN_IF_ERROR(start_library());
  dense.fill();
  const float* const bias_data = bias.is_none() ? nullptr : bias.to_tensor().const_data_ptr<float>();
  return make_convolution(context, geometry, dense.tensor(), bias_data, range, nullptr, state);
}

// The filter becomes floats once, here.
Error prepare_weight_only_convolution(PrepareContext& context, Span<EValue* const> args, void** state) {
  using namespace ops::arguments::et_weight_only_convolution;
  ET_TRY(const ClampRange range, clamp_range(*args[kMin], *args[kMax]));
  const EValue& bias = *args[kBias];
  if (!has_constant_numbers(context, args) || !are_float_images(*args[kInput], *args[args.size() - 1])) {
    return Error::NotSupported;
  }
  DequantizedFilter dense;
  ET_RETURN_IF_ERROR(dense.make("et::weight_only_convolution", context, args));
  const EValue weight(dense.tensor());
  ET_TRY(const Geometry geometry, read_geometry({args[kInput], &weight, args[kStride], args[kPadding], args[kDilation],
                                                 args[kTransposed], args[kOutputPadding], args[kGroups]}));
  if (!is_packable_bias(context, bias, geometry)) {
    return Error::NotSupported;
  }
  ET_RETURN_IF_ERROR(offer_convolution(geometry, args[kInput]->to_tensor(), dense.tensor(),
                                       args[args.size() - 1]->to_tensor(), ops::WorkNumbers::floating, state));
  ET_RETURN_IF_ERROR(start_library());
  dense.fill();
  const float* const bias_data = bias.is_none() ? nullptr : bias.to_tensor().const_data_ptr<float>();
  const uint64_t kind = (uint64_t{geometry.groups} << 32) | 10;
  const IntegerFilter& f = dense.integers();
  const PackedWeightsScope scope(geometry.transposed ? nullptr : context.shared(), f.data, dense.tensor().sizes(),
                                 bias_data, kind,
                                 {reinterpret_cast<uintptr_t>(f.scales), reinterpret_cast<uintptr_t>(f.zero_points)});
  return make_convolution(context, geometry, dense.tensor(), bias_data, range, scope.cache(), state);
}

Error prepare_convolution(PrepareContext& context, Span<EValue* const> args, void** state) {
  return prepare(context, args, ClampRange(), state);
}

Error prepare_convolution_clamp(PrepareContext& context, Span<EValue* const> args, void** state) {
  using namespace ops::arguments::et_convolution_clamp;
  ET_TRY(const ClampRange range, clamp_range(*args[kMin], *args[kMax]));
  return prepare(context, args, range, state);
}

}  // namespace

const runtime::Kernel kConvolutionKernels[4] = {
    library_kernel<&prepare_convolution, &run_convolution, &destroy_state<PackedConvolution>>(
        signature::convolution_out),
    library_kernel<&prepare_convolution_clamp, &run_convolution, &destroy_state<PackedConvolution>>(
        signature::convolution_clamp_out),
    library_kernel<&prepare_sparse_convolution, &run_convolution, &destroy_state<PackedConvolution>>(
        signature::sparse_convolution_out),
    library_kernel<&prepare_weight_only_convolution, &run_convolution, &destroy_state<PackedConvolution>>(
        signature::weight_only_convolution_out),
};

}  // namespace et::backends::xnnpack
