// et::quantized_linear.out with a constant weight of int8, packed at load, on xnn_fully_connected_nc_qs8_qc8w.

#include "backends/xnnpack/kernels/kernels.h"
#include "backends/xnnpack/kernels/quantized.h"

namespace et::backends::xnnpack {
namespace {

enum { kInput, kInputScale, kInputZeroPoint, kWeight, kWeightScales, kBias, kOutputScale };

struct LinearState {
  Operator op;
  int64_t in_features;   // K
  int64_t out_features;  // N
};

bool is_row_major(const Tensor& tensor) { return runtime::is_contiguous_dim_order(runtime::dim_order(tensor)); }

Error prepare(PrepareContext& context, Span<EValue* const> args, void** state) {
  if (!is_int8_tensor(*args[kInput]) || !is_int8_tensor(*args[kWeight])) {
    return Error::NotSupported;
  }
  const Tensor input = args[kInput]->to_tensor();
  const Tensor weight = args[kWeight]->to_tensor();
  if (weight.dim() != 2 || weight.numel() == 0 || input.dim() < 1 || input.size(-1) != weight.size(1) ||
      !is_row_major(input) || !is_row_major(weight) || !is_row_major(args[args.size() - 1]->to_tensor())) {
    return Error::NotSupported;
  }
  ProductParameters parameters;
  ET_RETURN_IF_ERROR(parameters.read(context, args, kOutputScale, weight.size(0)));
  ET_RETURN_IF_ERROR(start_library());
  ET_TRY(LinearState* const made, make_state<LinearState>(context));
  made->in_features = weight.size(1);
  made->out_features = weight.size(0);
  const auto k = static_cast<size_t>(made->in_features);
  const auto n = static_cast<size_t>(made->out_features);
  xnn_status status;
  {
    const PackedWeightsScope scope(context.shared(), weight.const_data_ptr(), parameters.bias, parameters.variant(5));
    status = xnn_create_fully_connected_nc_qs8_qc8w(
        k, n, k, n, parameters.input_zero_point, parameters.input_scale, parameters.weight_scales,
        weight.const_data_ptr<int8_t>(), parameters.bias, parameters.output_zero_point, parameters.output_scale,
        parameters.output_min, parameters.output_max, 0, nullptr, scope.cache(), made->op.receive());
  }
  if (status != xnn_status_success) {
    made->~LinearState();
    return Error::NotSupported;
  }
  *state = made;
  return Error::Ok;
}

Error run(KernelContext& context, Span<EValue* const> args, void* opaque) {
  auto* const state = static_cast<LinearState*>(opaque);
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  ET_CHECK_OR_RETURN(input.size(-1) == state->in_features, InvalidArgument,
                     "et::quantized_linear: rows of %" PRId64 " elements meet a weight for %" PRId64, input.size(-1),
                     state->in_features);
  int64_t sizes[runtime::kMaxRank];
  const auto rank = static_cast<size_t>(input.dim());
  for (size_t d = 0; d < rank; ++d) {
    sizes[d] = input.sizes()[d];
  }
  sizes[rank - 1] = state->out_features;
  ET_RETURN_IF_ERROR(runtime::resize_tensor(context, out, {sizes, rank}));
  const int64_t rows = input.numel() / state->in_features;
  if (rows == 0) {
    return Error::Ok;
  }
  const threads::NativePool pool(pool_for(context, rows * state->in_features * state->out_features, kIntegerPs));
  if (state->op.needs_reshape(pool.get(), {rows})) {
    const Error error =
        check(xnn_reshape_fully_connected_nc_qs8_qc8w(state->op.get(), static_cast<size_t>(rows), pool.get()),
              "xnn_reshape_fully_connected_nc_qs8_qc8w");
    if (error != Error::Ok) {
      state->op.forget_shape();
      return error;
    }
  }
  ET_RETURN_IF_ERROR(check(xnn_setup_fully_connected_nc_qs8_qc8w(state->op.get(), input.const_data_ptr<int8_t>(),
                                                                 out.mutable_data_ptr<int8_t>()),
                           "xnn_setup_fully_connected_nc_qs8_qc8w"));
  return check(xnn_run_operator(state->op.get(), pool.get()), "xnn_run_operator");
}

}  // namespace

const runtime::Kernel kQuantizedLinearKernels[1] = {
    {"et::quantized_linear.out", "TdiTTtdiiio", &run, &prepare, &destroy_state<LinearState>, runtime::kPriorityLibrary},
};

}  // namespace et::backends::xnnpack
