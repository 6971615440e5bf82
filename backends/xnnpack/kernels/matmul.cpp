// Matrix products of two computed tensors: aten::bmm.out and aten::mm.out, on xnn_batch_matrix_multiply_nc_f32. The
// right side is packed in each call; products with a constant right side are linear.cpp's.

#include <cstring>

#include "backends/xnnpack/costs/costs.h"
#include "backends/xnnpack/kernels/kernels.h"
#include "backends/xnnpack/kernels/library.h"
#include "base/tensor_text.h"
#include "ops/signatures/portable/op_matmul.h"
#include "runtime/host/kernel_costs.h"

namespace et::backends::xnnpack {
namespace {

struct MatmulState {
  Operator op;
};

bool is_row_major_float(const EValue& value, int64_t rank) {
  return is_float_tensor(value) && value.to_tensor().dim() == rank && is_row_major(value.to_tensor());
}

Error prepare(PrepareContext& context, Span<EValue* const> args, int64_t rank, void** state) {
  for (const size_t i : {0, 1, 2}) {
    if (!is_row_major_float(*args[i], rank)) {
      return Error::NotSupported;
    }
  }
  if (rank == 2 && context.is_constant(*args[1])) {
    return Error::NotSupported;  // linear.cpp packs it once
  }
  const Tensor left = args[0]->to_tensor();
  const Tensor out = args[2]->to_tensor();
  ET_RETURN_IF_ERROR(runtime::offer_work(
      state,
      ops::work_of_matmul({rank == 3 ? static_cast<double>(out.size(0)) : 1, static_cast<double>(out.size(-2)),
                           static_cast<double>(out.size(-1)), static_cast<double>(left.size(-1))}),
      kCosts));
  ET_RETURN_IF_ERROR(start_library());
  ET_TRY(MatmulState* const made, make_state<MatmulState>(context));
  return keep_state(made, xnn_create_batch_matrix_multiply_nc_f32(0, made->op.receive()), state);
}

Error prepare_bmm(PrepareContext& context, Span<EValue* const> args, void** state) {
  return prepare(context, args, 3, state);
}
Error prepare_mm(PrepareContext& context, Span<EValue* const> args, void** state) {
  return prepare(context, args, 2, state);
}

Error run(KernelContext& context, Span<EValue* const> args, void* opaque) {
  auto* const state = static_cast<MatmulState*>(opaque);
  const Tensor a = args[0]->to_tensor();
  const Tensor b = args[1]->to_tensor();
  const Tensor out = args[2]->to_tensor();
  const bool batched = a.dim() == 3;
  const int64_t batch = batched ? a.size(0) : 1;
  const int64_t m = a.size(-2);
  const int64_t k = a.size(-1);
  const int64_t n = b.size(-1);
  ET_CHECK_OR_RETURN(b.size(-2) == k && (!batched || b.size(0) == batch), InvalidArgument,
                     "matrix product: %s and %s do not fit together", ShapeText(a.sizes()).text,
                     ShapeText(b.sizes()).text);
  const int64_t sizes[3] = {batch, m, n};
  ET_RETURN_IF_ERROR(runtime::resize_tensor(context, out, batched ? IntArrayRef(sizes, 3) : IntArrayRef(sizes + 1, 2)));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  if (k == 0) {
    std::memset(out.mutable_data_ptr(), 0, out.nbytes());
    return Error::Ok;
  }
  const threads::NativePool pool(pool_for(context, batch * m * k * n));
  ET_RETURN_IF_ERROR(
      state->op.reshape(pool.get(), {batch, m, k, n}, "xnn_batch_matrix_multiply_nc_f32", [&](xnn_operator_t op) {
        const size_t batches[1] = {static_cast<size_t>(batch)};
        return xnn_reshape_batch_matrix_multiply_nc_f32(
            op, 1, batches, batches, static_cast<size_t>(m), static_cast<size_t>(k), static_cast<size_t>(n),
            &state->op.workspace_size, &state->op.workspace_alignment, pool.get());
      }));
  ET_TRY(void* const workspace, state->op.workspace(context));
  ET_RETURN_IF_ERROR(
      check(xnn_setup_batch_matrix_multiply_nc_f32(state->op.get(), workspace, a.const_data_ptr<float>(),
                                                   b.const_data_ptr<float>(), out.mutable_data_ptr<float>()),
            "xnn_setup_batch_matrix_multiply_nc_f32"));
  return state->op.run(context, pool.get());
}

}  // namespace

const runtime::Kernel kMatmulKernels[2] = {
    library_kernel<&prepare_bmm, &run, &destroy_state<MatmulState>>(signature::bmm_out),
    library_kernel<&prepare_mm, &run, &destroy_state<MatmulState>>(signature::mm_out),
};

}  // namespace et::backends::xnnpack
