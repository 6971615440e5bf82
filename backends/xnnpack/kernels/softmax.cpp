// aten::_softmax.out along the dimension that is innermost in memory, on xnn_softmax_nc_f32.

#include "backends/xnnpack/costs/costs.h"
#include "backends/xnnpack/kernels/kernels.h"
#include "backends/xnnpack/kernels/library.h"
#include "ops/signatures/portable/op_softmax.h"
#include "runtime/host/kernel_costs.h"

namespace et::backends::xnnpack {
namespace {

struct SoftmaxState {
  Operator op;
};

// _softmax(self, dim, half_to_float, out)
Error prepare(PrepareContext& context, Span<EValue* const> args, void** state) {
  if (!is_float_tensor(*args[0]) || !is_float_tensor(*args[3]) || args[0]->to_tensor().dim() == 0) {
    return Error::NotSupported;
  }
  const Tensor self = args[0]->to_tensor();
  const auto order = runtime::dim_order(self);
  const int64_t dim = args[1]->number_as_int();
  if (!context.is_constant(*args[1]) || dim < -self.dim() || dim >= self.dim() ||
      order.back() != (dim < 0 ? dim + self.dim() : dim) || !equal(order, runtime::dim_order(args[3]->to_tensor()))) {
    return Error::NotSupported;
  }
  const ops::Work work{ops::WorkKind::softmax, ops::WorkNumbers::floating, static_cast<double>(self.numel())};
  ET_RETURN_IF_ERROR(runtime::offer_work(state, work, kCosts));
  ET_RETURN_IF_ERROR(start_library());
  ET_TRY(SoftmaxState* const made, make_state<SoftmaxState>(context));
  return keep_state(made, xnn_create_softmax_nc_f32(0, made->op.receive()), state);
}

Error run(KernelContext& context, Span<EValue* const> args, void* opaque) {
  auto* const state = static_cast<SoftmaxState*>(opaque);
  const Tensor self = args[0]->to_tensor();
  const Tensor out = args[3]->to_tensor();
  ET_RETURN_IF_ERROR(runtime::resize_tensor(context, out, self.sizes()));
  if (self.numel() == 0) {
    return Error::Ok;
  }
  const int64_t channels = self.size(runtime::dim_order(self).back());
  const int64_t rows = self.numel() / channels;
  const threads::NativePool pool(pool_for(context, self.numel(), kExponentialPs));
  ET_RETURN_IF_ERROR(state->op.reshape(pool.get(), {rows, channels}, "xnn_softmax_nc_f32", [&](xnn_operator_t op) {
    const auto c = static_cast<size_t>(channels);
    return xnn_reshape_softmax_nc_f32(op, c, c, c, static_cast<size_t>(rows), pool.get());
  }));
  ET_RETURN_IF_ERROR(
      check(xnn_setup_softmax_nc_f32(state->op.get(), self.const_data_ptr<float>(), out.mutable_data_ptr<float>()),
            "xnn_setup_softmax_nc_f32"));
  return state->op.run(context, pool.get());
}

}  // namespace

const runtime::Kernel kSoftmaxKernels[1] = {
    library_kernel<&prepare, &run, &destroy_state<SoftmaxState>>(signature::softmax_out),
};

}  // namespace et::backends::xnnpack
