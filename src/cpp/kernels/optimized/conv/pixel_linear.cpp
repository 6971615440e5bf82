// aten::linear and et::linear_clamp of many rows with a constant weight, where our tiles are faster than a library's
// (is_faster_than_library). For fewer outputs than a tile the library takes a kernel of two columns, which is slower
// still.
#include <algorithm>
#include <new>

#include "kernels/optimized/conv/pixel_product.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_matmul.h"

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

/// At the bounds of the sizes.
bool is_worth_it(const Tensor& input, const Tensor& weight) {
  constexpr size_t kLeastRows = 2 * kTilePixels;
  const auto rows = static_cast<size_t>(input.numel() / weight.size(1));
  const auto outputs = static_cast<size_t>(weight.size(0));
  return is_faster_than_library(rows, outputs) || (rows >= kLeastRows && outputs < columns_of_a_tile());
}

Error prepare(PrepareContext& context, Arguments args, const EValue* min, const EValue* max, void** state) {
  if (!fits(context, args) || !is_worth_it(args[0]->to_tensor(), args[1]->to_tensor())) {
    return Error::NotSupported;
  }
  ET_TRY(const Range range, read_range(context, min, max));
  ET_TRY(const PixelProduct product, pack_pixel_product(context, args[1]->to_tensor(), *args[2], range));
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
