// Matrix products with a constant right side, packed at load: aten::linear.out, aten::addmm.out, aten::mm.out, the
// clamped et:: forms of the first two, and et::sparse_linear.out, on xnn_fully_connected_nc_f32.

#include "backends/xnnpack/costs/costs.h"
#include "backends/xnnpack/kernels/dense_weight.h"
#include "backends/xnnpack/kernels/kernels.h"
#include "backends/xnnpack/kernels/packed_linear.h"
#include "ops/signatures/portable/op_matmul.h"
#include "ops/signatures/portable/op_sparse.h"
#include "runtime/host/kernel_costs.h"

namespace et::backends::xnnpack {
namespace {

constexpr LinearLibrary kLibrary = {"matrix product", "xnn_fully_connected_nc_f32", kDensePs,
                                    &xnn_reshape_fully_connected_nc_f32,
                                    &setup_linear<float, float, &xnn_setup_fully_connected_nc_f32>};

/// A state for weights of K x N in memory order k_first or not; `cache` keeps what the library packs.
Error create(PrepareContext& context, const float* weight, int64_t in_features, int64_t out_features, bool k_first,
             const float* bias, ClampRange range, xnn_weights_cache_t cache, void** state) {
  ET_TRY(PackedLinear* const made, make_linear(context, kLibrary, in_features, out_features));
  const auto k = static_cast<size_t>(in_features);
  const auto n = static_cast<size_t>(out_features);
  const xnn_status status =
      xnn_create_fully_connected_nc_f32(k, n, k, n, weight, bias, range.min, range.max,
                                        k_first ? XNN_FLAG_TRANSPOSE_WEIGHTS : 0, nullptr, cache, made->op.receive());
  return keep_state(made, status, state);
}

/// Where the operands of one product stand among its arguments.
struct Operands {
  size_t input;        // [..., K]
  size_t weight;       // [N, K], or [K, N] when k_first
  const EValue* bias;  // [N]; nullptr = none
  bool k_first;
};

/// True when `bias` can be packed with the weight: nothing, or a constant of N elements in one row.
bool is_packable_bias(const PrepareContext& context, const EValue* bias, int64_t out_features) {
  if (bias == nullptr || bias->is_none()) {
    return true;
  }
  if (!is_constant_float(context, *bias)) {
    return false;
  }
  const Tensor tensor = bias->to_tensor();
  return tensor.numel() == out_features && tensor.dim() >= 1 && tensor.size(-1) == out_features;
}

/// Fewer columns than a tile are a kernel of two columns in the library, which reads the rows again for each pair.
Error offer_rows(const Tensor& input, int64_t in_features, int64_t out_features, void** state) {
  const double rows = static_cast<double>(input.numel()) / static_cast<double>(in_features);
  const auto columns = static_cast<double>(out_features);
  const double factor = rows > 1 && columns < kCosts.tiles[static_cast<size_t>(runtime::this_isa())].columns ? 1.5 : 1;
  return runtime::offer_work(state, ops::work_of_product(rows, columns, static_cast<double>(in_features)), kCosts,
                             factor);
}

Error prepare(PrepareContext& context, Span<EValue* const> args, const Operands& operands, ClampRange range,
              void** state) {
  const EValue& input = *args[operands.input];
  const EValue& weight_value = *args[operands.weight];
  const EValue& out = *args[args.size() - 1];
  if (!has_constant_numbers(context, args) || !is_float_tensor(input) || !is_float_tensor(out) ||
      !is_constant_float(context, weight_value) || !is_row_major(input.to_tensor()) || !is_row_major(out.to_tensor())) {
    return Error::NotSupported;
  }
  const Tensor weight = weight_value.to_tensor();
  if (weight.dim() != 2 || weight.numel() == 0 || input.to_tensor().dim() < 1) {
    return Error::NotSupported;
  }
  const int64_t in_features = weight.size(operands.k_first ? 0 : 1);
  const int64_t out_features = weight.size(operands.k_first ? 1 : 0);
  if (input.to_tensor().size(-1) != in_features || !is_packable_bias(context, operands.bias, out_features)) {
    return Error::NotSupported;
  }
  ET_RETURN_IF_ERROR(offer_rows(input.to_tensor(), in_features, out_features, state));
  ET_RETURN_IF_ERROR(start_library());

  // In memory, k comes first when the schema says so and the weight is row-major, or the other way round.
  const bool k_first = operands.k_first == is_row_major(weight);
  const auto* const bias = operands.bias == nullptr || operands.bias->is_none()
                               ? nullptr
                               : operands.bias->to_tensor().const_data_ptr<float>();
  const PackedWeightsScope scope(context.shared(), weight.const_data_ptr(), weight.sizes(), bias, k_first ? 4 : 3);
  return create(context, weight.const_data_ptr<float>(), in_features, out_features, k_first, bias, range, scope.cache(),
                state);
}

// linear(input, weight, bias, [min, max,] out)
Error prepare_linear(PrepareContext& context, Span<EValue* const> args, void** state) {
  return prepare(context, args, {0, 1, args[2], false}, ClampRange(), state);
}
Error prepare_linear_clamp(PrepareContext& context, Span<EValue* const> args, void** state) {
  ET_TRY(const ClampRange range, clamp_range(*args[3], *args[4]));
  return prepare(context, args, {0, 1, args[2], false}, range, state);
}
// sparse_linear(input, values, mask, bias, weight_size, min, max, out): unpacked once, here.
Error prepare_sparse_linear(PrepareContext& context, Span<EValue* const> args, void** state) {
  if (!has_constant_numbers(context, args)) {
    return Error::NotSupported;
  }
  ET_TRY(const ClampRange range, clamp_range(*args[5], *args[6]));
  const EValue& out = *args[args.size() - 1];
  if (!is_float_tensor(*args[0]) || !is_float_tensor(out) || !is_row_major(args[0]->to_tensor()) ||
      !is_row_major(out.to_tensor()) || args[0]->to_tensor().dim() < 1) {
    return Error::NotSupported;
  }
  DenseWeight weight;
  ET_RETURN_IF_ERROR(weight.make("et::sparse_linear", context, *args[1], *args[2], *args[4]));
  const auto in_features = static_cast<int64_t>(weight.sparse().columns);
  const auto out_features = static_cast<int64_t>(weight.sparse().rows);
  if (args[4]->to_int_list().size() != 2 || args[0]->to_tensor().size(-1) != in_features ||
      !is_packable_bias(context, args[3], out_features)) {
    return Error::NotSupported;
  }
  ET_RETURN_IF_ERROR(offer_rows(args[0]->to_tensor(), in_features, out_features, state));
  ET_RETURN_IF_ERROR(start_library());
  weight.fill();
  const auto* const bias = args[3]->is_none() ? nullptr : args[3]->to_tensor().const_data_ptr<float>();
  return create(context, weight.data(), in_features, out_features, false, bias, range, nullptr, state);
}
Error run_first(KernelContext& context, Span<EValue* const> args, void* state) {
  return run_linear(context, args[0]->to_tensor(), args[args.size() - 1]->to_tensor(), state);
}

// addmm(self, mat1, mat2, beta, alpha, [min, max,] out)
bool is_one(const EValue& scalar) { return scalar.number_as_double() == 1.0; }

Error prepare_addmm(PrepareContext& context, Span<EValue* const> args, ClampRange range, void** state) {
  if (!is_one(*args[3]) || !is_one(*args[4]) || !args[1]->is_tensor() || args[1]->to_tensor().dim() != 2) {
    return Error::NotSupported;
  }
  return prepare(context, args, {1, 2, args[0], true}, range, state);
}
Error prepare_plain_addmm(PrepareContext& context, Span<EValue* const> args, void** state) {
  return prepare_addmm(context, args, ClampRange(), state);
}
Error prepare_addmm_clamp(PrepareContext& context, Span<EValue* const> args, void** state) {
  ET_TRY(const ClampRange range, clamp_range(*args[5], *args[6]));
  return prepare_addmm(context, args, range, state);
}
Error run_second(KernelContext& context, Span<EValue* const> args, void* state) {
  return run_linear(context, args[1]->to_tensor(), args[args.size() - 1]->to_tensor(), state);
}

// mm(self, mat2, out)
Error prepare_mm(PrepareContext& context, Span<EValue* const> args, void** state) {
  if (!args[0]->is_tensor() || args[0]->to_tensor().dim() != 2) {
    return Error::NotSupported;
  }
  return prepare(context, args, {0, 1, nullptr, true}, ClampRange(), state);
}

}  // namespace

const runtime::Kernel kLinearKernels[6] = {
    library_kernel<&prepare_linear, &run_first, &destroy_state<PackedLinear>>(signature::linear_out),
    library_kernel<&prepare_linear_clamp, &run_first, &destroy_state<PackedLinear>>(signature::linear_clamp_out),
    library_kernel<&prepare_plain_addmm, &run_second, &destroy_state<PackedLinear>>(signature::addmm_out),
    library_kernel<&prepare_addmm_clamp, &run_second, &destroy_state<PackedLinear>>(signature::addmm_clamp_out),
    library_kernel<&prepare_sparse_linear, &run_first, &destroy_state<PackedLinear>>(signature::sparse_linear_out),
    // Before matmul.cpp's, which packs in each call.
    library_kernel<&prepare_mm, &run_first, &destroy_state<PackedLinear>>(signature::mm_out,
                                                                          runtime::kPriorityLibrary + 1),
};

}  // namespace et::backends::xnnpack
