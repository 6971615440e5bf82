// et::dynamic_linear.out with a constant weight of 8 or packed 4 bits and a scale a row, packed at load, on
// xnn_fully_connected_nc_qd8_f32_{qc8w,qc4w}. The input is quantized here, as the plain kernel does it.

#include "backends/xnnpack/costs/costs.h"
#include "backends/xnnpack/kernels/integer_copy.h"
#include "backends/xnnpack/kernels/kernels.h"
#include "backends/xnnpack/kernels/packed_linear.h"
#include "numerics/nibbles.h"
#include "numerics/run_time_quantization.h"
#include "ops/signatures/quantized/op_weight_only.h"
#include "runtime/host/kernel_costs.h"
#include "runtime/shared_cache.h"

namespace et::backends::xnnpack {
namespace {

enum { kInput, kWeight, kScales, kBias, kGroupSize, kPerToken, kSymmetric, kQuantMin, kQuantMax, kEps };

constexpr LinearLibrary kInt8Library = {"et::dynamic_linear", "xnn_fully_connected_nc_qd8_f32_qc8w", kIntegerPs,
                                        &xnn_reshape_fully_connected_nc_qd8_f32_qc8w,
                                        &setup_dynamic_linear<&xnn_setup_fully_connected_nc_qd8_f32_qc8w>};
constexpr LinearLibrary kInt4Library = {"et::dynamic_linear", "xnn_fully_connected_nc_qd8_f32_qc4w", kIntegerPs,
                                        &xnn_reshape_fully_connected_nc_qd8_f32_qc4w,
                                        &setup_dynamic_linear<&xnn_setup_fully_connected_nc_qd8_f32_qc4w>};

Error prepare(PrepareContext& context, Span<EValue* const> args, void** state) {
  const EValue& bias = *args[kBias];
  const Tensor input = args[kInput]->to_tensor();
  const Tensor weight = args[kWeight]->to_tensor();
  const bool is_packed = weight.scalar_type() == ScalarType::Byte;
  const EValue& out = *args[args.size() - 1];
  if (!is_float_tensor(*args[kInput]) || !is_float_tensor(out) || !context.is_constant(*args[kWeight]) ||
      !is_constant_float(context, *args[kScales]) || !(bias.is_none() || is_constant_float(context, bias)) ||
      !(is_packed || weight.scalar_type() == ScalarType::Char) || weight.dim() != 2 || weight.numel() == 0 ||
      args[kGroupSize]->number_as_int() != 0 || args[kQuantMin]->number_as_int() < -128 ||
      args[kQuantMax]->number_as_int() > 127 || !is_row_major(input) || input.dim() < 1 || !is_row_major(weight) ||
      !is_row_major(out.to_tensor())) {
    return Error::NotSupported;
  }
  const Tensor scales = args[kScales]->to_tensor();
  const int64_t rows = weight.size(0);
  const int64_t columns = input.size(-1);
  if (scales.numel() != rows || weight.size(1) != (is_packed ? packed_count(columns) : columns) ||
      !(bias.is_none() || bias.to_tensor().numel() == rows)) {
    return Error::NotSupported;
  }
  const auto depth = static_cast<double>(columns);
  ops::Work work = ops::work_of_product(static_cast<double>(input.numel()) / depth, static_cast<double>(rows), depth);
  work.numbers = ops::WorkNumbers::dynamic;
  // The table has the delegate's, whose loop over the input is one of vectors.
  constexpr double kNsOfNumber = 1;
  if (*state != nullptr) {
    return runtime::offer(state, runtime::cost_here(work, kCosts) + kNsOfNumber * static_cast<double>(input.numel()));
  }
  ET_RETURN_IF_ERROR(start_library());
  // The library has rows of an even number of halves only; others become bytes.
  const bool keeps_halves = is_packed && columns % 2 == 0;
  IntegerCopy bytes;
  if (is_packed && !keeps_halves) {
    ET_RETURN_IF_ERROR(bytes.unpack_matrix("et::dynamic_linear", weight, columns));
  }
  ET_TRY(PackedLinear* const made, make_linear(context, keeps_halves ? kInt4Library : kInt8Library, columns, rows));
  const auto k = static_cast<size_t>(columns);
  const auto n = static_cast<size_t>(rows);
  const ClampRange all;
  const float* const bias_data = bias.is_none() ? nullptr : bias.to_tensor().const_data_ptr<float>();
  const float* const scale_data = scales.const_data_ptr<float>();
  // Not shared: entries are named by weight and bias, and another scale is another entry.
  const xnn_status status =
      keeps_halves
          ? xnn_create_fully_connected_nc_qd8_f32_qc4w(k, n, k, n, 8, scale_data, weight.const_data_ptr(), bias_data,
                                                       all.min, all.max, 0, nullptr, nullptr, made->op.receive())
          : xnn_create_fully_connected_nc_qd8_f32_qc8w(
                k, n, k, n, scale_data, is_packed ? bytes.data() : weight.const_data_ptr<int8_t>(), bias_data, all.min,
                all.max, 0, nullptr, nullptr, made->op.receive());
  if (status == xnn_status_success) {
    runtime::release(context.shared(), weight.const_data_ptr());
  }
  return keep_state(made, status, state);
}

Error run(KernelContext& context, Span<EValue* const> args, void* opaque) {
  auto* const state = static_cast<PackedLinear*>(opaque);
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  const int64_t columns = state->in_features;
  const float eps = static_cast<float>(args[kEps]->number_as_double());
  const RunTimeQuantization choice{args[kPerToken]->number_as_bool(), args[kSymmetric]->number_as_bool(),
                                   args[kQuantMin]->number_as_int(), args[kQuantMax]->number_as_int(), eps};
  ET_CHECK_OR_RETURN(choice.is_valid(), InvalidArgument, "et::dynamic_linear: eps %g or the range of integers is none",
                     static_cast<double>(eps));
  ET_TRY(const int64_t rows, state->resize(context, input, out));
  if (rows == 0) {
    return Error::Ok;
  }
  const auto count = static_cast<size_t>(rows);
  ET_TRY(void* const integers, context.allocate_temp(static_cast<size_t>(input.numel()) + XNN_EXTRA_BYTES));
  ET_TRY(void* const wide, context.allocate_temp(static_cast<size_t>(columns) * sizeof(int16_t)));
  ET_TRY(void* const memory,
         context.allocate_temp((count + XNN_EXTRA_QUANTIZATION_PARAMS) * sizeof(xnn_quantization_params)));
  auto* const to = static_cast<int8_t*>(integers);
  auto* const parameters = static_cast<xnn_quantization_params*>(memory);
  const auto take = [&](int64_t m, const int16_t* row, const RowParameters& chosen) {
    for (int64_t i = 0; i < columns; ++i) {
      to[m * columns + i] = static_cast<int8_t>(row[i] + chosen.zero_point);
    }
    parameters[m] = {chosen.zero_point, static_cast<float>(chosen.scale)};
  };
  ET_CHECK_OR_RETURN(
      choice.for_each_row(input.const_data_ptr<float>(), rows, columns, static_cast<int16_t*>(wide), take),
      InvalidArgument, "et::dynamic_linear: the input is not finite, so it has no integers");
  for (size_t i = 0; i < XNN_EXTRA_QUANTIZATION_PARAMS; ++i) {
    parameters[count + i] = parameters[count - 1];
  }
  return state->run(context, rows, to, out.mutable_data_ptr(), parameters);
}

}  // namespace

const runtime::Kernel kDynamicLinearKernels[1] = {
    library_kernel<&prepare, &run, &destroy_state<PackedLinear>>(signature::dynamic_linear_out),
};

}  // namespace et::backends::xnnpack
