// aten::linear and et::linear_clamp of several rows with a constant weight.
#include <algorithm>

#include "kernels/optimized/conv/pixel_product.h"
#include "kernels/optimized/matmul/constant_linear.h"

namespace et::kernels::optimized::conv {
namespace {

using runtime::PrepareContext;

bool fits(const PrepareContext& context, Arguments args) {
  return context.shared() != nullptr && matmul::has_constant_weight(context, args) &&
         (args[2]->is_none() || context.is_constant(*args[2])) && is_row_major(*args[0]) &&
         is_row_major(*args[args.size() - 1]);
}

Error prepare(PrepareContext& context, Arguments args, const EValue* min, const EValue* max, void** state) {
  if (!fits(context, args)) {
    return Error::NotSupported;
  }
  const Tensor weight = args[1]->to_tensor();
  const int64_t rows = args[0]->to_tensor().numel() / weight.size(1);
  if (rows == 1) {
    return Error::NotSupported;  // for row_product.cpp
  }
  ET_RETURN_IF_ERROR(matmul::offer_rows(state, rows, weight));
  ET_TRY(const Range range, read_range(context, min, max));
  ET_TRY(const PixelProduct product, pack_pixel_product(context, weight, *args[2], range));
  return keep_state(context, product, state);
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

}  // namespace

ET_KERNEL_TABLE(pixel_linear, matmul::LinearKernels<&prepare, &run, kPriorityPixels>::kTable)

}  // namespace et::kernels::optimized::conv
