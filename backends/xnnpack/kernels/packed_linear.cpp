#include "backends/xnnpack/kernels/packed_linear.h"

namespace et::backends::xnnpack {

Result<PackedLinear*> make_linear(PrepareContext& context, const LinearLibrary& library, int64_t in_features,
                                  int64_t out_features) {
  ET_TRY(PackedLinear* const made, make_state<PackedLinear>(context));
  made->library = &library;
  made->in_features = in_features;
  made->out_features = out_features;
  return made;
}

Result<int64_t> PackedLinear::resize(KernelContext& context, const Tensor& input, const Tensor& out) const {
  ET_CHECK_OR_RETURN(input.size(-1) == in_features, InvalidArgument,
                     "%s: rows of %" PRId64 " elements meet a weight for %" PRId64, library->op, input.size(-1),
                     in_features);
  int64_t sizes[runtime::kMaxRank];
  const auto rank = static_cast<size_t>(input.dim());
  for (size_t d = 0; d < rank; ++d) {
    sizes[d] = input.sizes()[d];
  }
  sizes[rank - 1] = out_features;
  ET_RETURN_IF_ERROR(runtime::resize_tensor(context, out, {sizes, rank}));
  return input.numel() / in_features;
}

Error PackedLinear::run(KernelContext& context, int64_t rows, const void* input, void* out,
                        const xnn_quantization_params* parameters) {
  if (rows == 0) {
    return Error::Ok;
  }
  const threads::NativePool pool(pool_for(context, rows * in_features * out_features, library->picoseconds));
  ET_RETURN_IF_ERROR(op.reshape(pool.get(), {rows}, library->call, [&](xnn_operator_t handle) {
    return library->reshape(handle, static_cast<size_t>(rows), pool.get());
  }));
  ET_RETURN_IF_ERROR(check(library->setup(op.get(), input, out, parameters), "setup", library->call));
  return op.run(context, pool.get());
}

Error run_linear(KernelContext& context, const Tensor& input, const Tensor& out, void* state) {
  auto* const linear = static_cast<PackedLinear*>(state);
  ET_TRY(const int64_t rows, linear->resize(context, input, out));
  return linear->run(context, rows, input.const_data_ptr(), out.mutable_data_ptr());
}

}  // namespace et::backends::xnnpack
