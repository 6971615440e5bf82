// aten::linear and et::linear_clamp of several rows with a constant weight.
#include <algorithm>
#include <new>

#include "kernels/optimized/conv/pixel_product.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_matmul.h"
#include "runtime/host/kernel_costs.h"

namespace et::kernels::optimized::conv {
namespace {

using runtime::PrepareContext;

bool fits(const PrepareContext& context, Arguments args) {
  const EValue& bias = *args[2];
  const EValue& out = *args[args.size() - 1];
  if (context.shared() == nullptr || !is_float(*args[0]) || !is_float(*args[1]) || !is_float_or_none(bias) ||
      !is_float(out) || !context.is_constant(*args[1]) || !(bias.is_none() || context.is_constant(bias))) {
    return false;
  }
  const Tensor input = args[0]->to_tensor();
  const Tensor weight = args[1]->to_tensor();
  return is_row_major(*args[0]) && is_row_major(*args[1]) && is_row_major(out) && input.dim() >= 1 &&
         out.to_tensor().dim() == input.dim() && weight.dim() == 2 && weight.numel() > 0 &&
         input.size(-1) == weight.size(1) &&
         (bias.is_none() || (bias.to_tensor().dim() == 1 && bias.to_tensor().numel() == weight.size(0)));
}

Error prepare(PrepareContext& context, Arguments args, const EValue* min, const EValue* max, void** state) {
  if (!fits(context, args)) {
    return Error::NotSupported;
  }
  const Tensor weight = args[1]->to_tensor();
  const auto depth = static_cast<double>(weight.size(1)), columns = static_cast<double>(weight.size(0));
  const double rows = static_cast<double>(args[0]->to_tensor().numel()) / depth;
  if (rows == 1) {
    return Error::NotSupported;  // for row_product.cpp
  }
  ET_RETURN_IF_ERROR(runtime::offer_work(state, ops::work_of_product(rows, columns, depth), ops::kKernelCosts));
  ET_TRY(const Range range, read_range(context, min, max));
  ET_TRY(const PixelProduct product, pack_pixel_product(context, weight, *args[2], range));
  ET_TRY(void* const memory, context.allocate(sizeof(PixelProduct), alignof(PixelProduct)));
  *state = new (memory) PixelProduct(product);
  return Error::Ok;
}

// linear(input, weight, bias, [min, max,] out)
Error prepare_linear(PrepareContext& context, Arguments args, void** state) {
  return prepare(context, args, nullptr, nullptr, state);
}
Error prepare_linear_clamp(PrepareContext& context, Arguments args, void** state) {
  return prepare(context, args, args[3], args[4], state);
}

Error run(KernelContext& context, Arguments args, void* state) {
  const auto& product = *static_cast<const PixelProduct*>(state);
  const Tensor input = args[0]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  ET_CHECK_OR_RETURN(input.size(-1) == static_cast<int64_t>(product.in_channels), InvalidArgument,
                     "linear: rows of %" PRId64 " numbers meet a weight for %zu", input.size(-1), product.in_channels);
  int64_t sizes[runtime::kMaxRank];
  const auto rank = static_cast<size_t>(input.dim());
  std::copy_n(input.sizes().data(), rank, sizes);
  sizes[rank - 1] = static_cast<int64_t>(product.out_channels);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes, rank}));
  multiply_pixels_on(context.pool(), product, input.const_data_ptr<float>(), out.mutable_data_ptr<float>(),
                     static_cast<size_t>(input.numel()) / product.in_channels);
  return Error::Ok;
}

constexpr Kernel kKernels[] = {
    make_stateful_kernel<&prepare_linear, &run>(signature::linear_out, kPriorityPixels),
    make_stateful_kernel<&prepare_linear_clamp, &run>(signature::linear_clamp_out, kPriorityPixels),
};

}  // namespace

ET_KERNEL_TABLE(pixel_linear, kKernels)

}  // namespace et::kernels::optimized::conv
