// aten::convolution and et::convolution_clamp with a constant 1x1 filter on channels-last images and lines.
#include "kernels/optimized/conv/clamped_convolution.h"
#include "kernels/optimized/conv/pixel_product.h"
#include "kernels/optimized/vec/table.h"

namespace et::kernels::optimized::conv {
namespace {

using runtime::PrepareContext;

// Arguments by position; the two operators differ in what follows kGroups.
using namespace ops::arguments::et_convolution_clamp;

bool fits(const PrepareContext& context, Arguments args) {
  if (context.shared() == nullptr || !has_constant_filter(context, args, image_rank(args))) {
    return false;
  }
  const Tensor input = args[kInput]->to_tensor();
  const Tensor weight = args[kWeight]->to_tensor();
  return weight.size(2) == 1 && weight.size(-1) == 1 && weight.numel() > 0 && is_pair(*args[kStride], 1, 1) &&
         is_pair(*args[kPadding], 0, 0) && !args[kTransposed]->number_as_bool() &&
         args[kGroups]->number_as_int() == 1 && weight.size(1) == input.size(1);
}

Error prepare(PrepareContext& context, Arguments args, const EValue* min, const EValue* max, void** state) {
  if (!fits(context, args)) {
    return Error::NotSupported;
  }
  const Tensor weight = args[kWeight]->to_tensor();
  ET_RETURN_IF_ERROR(runtime::offer_work(state, work_of(args), ops::kKernelCosts));
  ET_TRY(const Range range, read_range(context, min, max));
  ET_TRY(const PixelProduct product, pack_pixel_product(context, weight, *args[kBias], range));
  return keep_state(context, product, state);
}

// convolution(input, weight, bias, stride, …, groups, [min, max,] out)
Error run(KernelContext& context, Arguments args, void* state) {
  const auto& product = *static_cast<const PixelProduct*>(state);
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  ET_RETURN_IF_ERROR(check_channels(input, product.in_channels));
  const int64_t sizes[] = {input.size(0), static_cast<int64_t>(product.out_channels), input.size(2), input.size(-1)};
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes, static_cast<size_t>(input.dim())}));
  const auto pixels = static_cast<size_t>(out.numel()) / product.out_channels;
  multiply_pixels_on(context.pool(), product, input.const_data_ptr<float>(), out.mutable_data_ptr<float>(), pixels);
  return Error::Ok;
}

}  // namespace

ET_KERNEL_TABLE(pixel_convolution, ConvolutionKernels<&prepare, &run, kPriorityPixels>::kTable)

}  // namespace et::kernels::optimized::conv
