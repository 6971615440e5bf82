// et::quantized_convolution.out with constant weights of 8 or packed 4 bits: 1-D to 3-D, grouped, depthwise, dilated
// and transposed, on xnn_convolution2d_nhwc_qs8_qc8w and xnn_deconvolution2d_nhwc_qs8_qc8w.

#include "backends/xnnpack/kernels/gather.h"
#include "backends/xnnpack/kernels/integer_copy.h"
#include "backends/xnnpack/kernels/kernels.h"
#include "backends/xnnpack/kernels/layout.h"
#include "backends/xnnpack/kernels/packed_convolution.h"
#include "backends/xnnpack/kernels/quantized.h"
#include "ops/arguments.h"
#include "ops/signatures/quantized/op_convolution.h"
#include "runtime/shared_cache.h"

namespace et::backends::xnnpack {
namespace {

using namespace ops::arguments::et_quantized_convolution;

constexpr const char* kOp = "et::quantized_convolution";

constexpr ConvolutionLibrary kPlain = {"xnn_convolution2d_nhwc_qs8_qc8w", kIntegerPs,
                                       &reshape_convolution<&xnn_reshape_convolution2d_nhwc_qs8_qc8w>,
                                       &setup_convolution<int8_t, &xnn_setup_convolution2d_nhwc_qs8_qc8w>};
constexpr ConvolutionLibrary kDeconvolution = {"xnn_deconvolution2d_nhwc_qs8_qc8w", kIntegerPs,
                                               &reshape_deconvolution<&xnn_reshape_deconvolution2d_nhwc_qs8_qc8w>,
                                               &setup_deconvolution<int8_t, &xnn_setup_deconvolution2d_nhwc_qs8_qc8w>};

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
  const Tensor input = args[kInput]->to_tensor();
  const Tensor stored = args[kWeight]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  if (!has_constant_numbers(context, args) || !is_int8_tensor(*args[kInput]) || !is_integer_weight(*args[kWeight]) ||
      !context.is_constant(*args[kWeight]) || !has_image_layout(input) || !has_image_layout(stored) ||
      !has_image_layout(out)) {
    return Error::NotSupported;
  }
  IntegerCopy bytes;
  const bool is_packed = stored.scalar_type() == ScalarType::Byte;
  if (is_packed) {
    const Tensor& rows =
        args[kTransposed]->number_as_bool() ? input : out;  // the image on the side of the filter's rows
    ET_RETURN_IF_ERROR(bytes.unpack_filter(kOp, stored, rows.size(1)));
  }
  const EValue filter(is_packed ? bytes.tensor() : stored);
  ET_TRY(const Geometry geometry, read_geometry({args[kInput], &filter, args[kStride], args[kPadding], args[kDilation],
                                                 args[kTransposed], args[kOutputPadding], args[kGroups]}));
  ProductParameters parameters;
  ET_RETURN_IF_ERROR(parameters.read(context, args, kOutputScale, static_cast<int64_t>(geometry.out_channels)));
  const Tensor weight = filter.to_tensor();
  ET_RETURN_IF_ERROR(offer_convolution(geometry, input, weight, out, ops::WorkNumbers::int8, state));
  ET_RETURN_IF_ERROR(start_library());
  ET_TRY(PackedConvolution* const made, make_state<PackedConvolution>(context));
  made->geometry = geometry;
  made->library = geometry.transposed ? &kDeconvolution : &kPlain;
  LibraryWeight library_weight;
  ET_RETURN_IF_ERROR(library_weight.make(weight, geometry));
  made->gathers = is_worth_gathering(geometry);
  made->padding = static_cast<uint8_t>(parameters.input_zero_point);
  // A transposed convolution is packed for its strides, too: not shared.
  const uint64_t kind = (uint64_t{geometry.groups} << 32) | (made->gathers ? 9 : 6);
  const PackedWeightsScope scope(geometry.transposed ? nullptr : context.shared(), stored.const_data_ptr(),
                                 weight.sizes(), parameters.bias, kind, {parameters.hash()});
  const xnn_status status = create(made->gathers ? gathered(geometry) : geometry, parameters,
                                   library_weight.data<int8_t>(), scope.cache(), made->op.receive());
  if (status == xnn_status_success) {
    runtime::release(context.shared(), stored.const_data_ptr());
  }
  return keep_state(made, status, state);
}

}  // namespace

const runtime::Kernel kQuantizedConvolutionKernels[1] = {
    library_kernel<&prepare, &run_convolution, &destroy_state<PackedConvolution>>(signature::quantized_convolution_out),
};

}  // namespace et::backends::xnnpack
