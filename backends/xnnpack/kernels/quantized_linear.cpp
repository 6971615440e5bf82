// et::quantized_linear.out with a constant weight of 8 or packed 4 bits, packed anew at load, on
// xnn_fully_connected_nc_qs8_qc8w.

#include "backends/xnnpack/costs/costs.h"
#include "backends/xnnpack/kernels/integer_copy.h"
#include "backends/xnnpack/kernels/kernels.h"
#include "backends/xnnpack/kernels/packed_linear.h"
#include "backends/xnnpack/kernels/quantized.h"
#include "numerics/nibbles.h"
#include "ops/signatures/quantized/op_linear.h"
#include "runtime/host/kernel_costs.h"
#include "runtime/shared_cache.h"

namespace et::backends::xnnpack {
namespace {

enum { kInput, kInputScale, kInputZeroPoint, kWeight, kWeightScales, kBias, kOutputScale };

constexpr LinearLibrary kLibrary = {"et::quantized_linear", "xnn_fully_connected_nc_qs8_qc8w", kIntegerPs,
                                    &xnn_reshape_fully_connected_nc_qs8_qc8w,
                                    &setup_linear<int8_t, int8_t, &xnn_setup_fully_connected_nc_qs8_qc8w>};

Error prepare(PrepareContext& context, Span<EValue* const> args, void** state) {
  if (!is_int8_tensor(*args[kInput]) || !is_integer_weight(*args[kWeight])) {
    return Error::NotSupported;
  }
  const Tensor input = args[kInput]->to_tensor();
  const Tensor weight = args[kWeight]->to_tensor();
  const bool is_packed = weight.scalar_type() == ScalarType::Byte;
  if (weight.dim() != 2 || weight.numel() == 0 || input.dim() < 1 ||
      weight.size(1) != (is_packed ? packed_count(input.size(-1)) : input.size(-1)) || !is_row_major(input) ||
      !is_row_major(weight) || !is_row_major(args[args.size() - 1]->to_tensor())) {
    return Error::NotSupported;
  }
  ProductParameters parameters;
  ET_RETURN_IF_ERROR(parameters.read(context, args, kOutputScale, weight.size(0)));
  const auto depth = static_cast<double>(input.size(-1));
  ops::Work work =
      ops::work_of_product(static_cast<double>(input.numel()) / depth, static_cast<double>(weight.size(0)), depth);
  work.numbers = ops::WorkNumbers::int8;
  ET_RETURN_IF_ERROR(runtime::offer_work(state, work, kCosts));
  ET_RETURN_IF_ERROR(start_library());
  ET_TRY(PackedLinear* const made, make_linear(context, kLibrary, input.size(-1), weight.size(0)));
  IntegerCopy bytes;
  if (is_packed) {
    ET_RETURN_IF_ERROR(bytes.unpack_matrix(kLibrary.op, weight, input.size(-1)));
  }
  const auto k = static_cast<size_t>(made->in_features);
  const auto n = static_cast<size_t>(made->out_features);
  const int64_t sizes[] = {made->out_features, made->in_features};
  const PackedWeightsScope scope(context.shared(), weight.const_data_ptr(), sizes, parameters.bias, 5,
                                 {parameters.hash()});
  const xnn_status status = xnn_create_fully_connected_nc_qs8_qc8w(
      k, n, k, n, parameters.input_zero_point, parameters.input_scale, parameters.weight_scales,
      is_packed ? bytes.data() : weight.const_data_ptr<int8_t>(), parameters.bias, parameters.output_zero_point,
      parameters.output_scale, parameters.output_min, parameters.output_max, 0, nullptr, scope.cache(),
      made->op.receive());
  if (status == xnn_status_success) {
    runtime::release(context.shared(), weight.const_data_ptr());
  }
  return keep_state(made, status, state);
}

Error run(KernelContext& context, Span<EValue* const> args, void* state) {
  return run_linear(context, args[kInput]->to_tensor(), args[args.size() - 1]->to_tensor(), state);
}

}  // namespace

const runtime::Kernel kQuantizedLinearKernels[1] = {
    library_kernel<&prepare, &run, &destroy_state<PackedLinear>>(signature::quantized_linear_out),
};

}  // namespace et::backends::xnnpack
