// et::quantized_convolution with a constant int8 filter, in groups or not, on channels-last images and lines of int8:
// each window is a row of a product (integer_product.h). Sums, scales and rounding are those of the plain kernel
// (docs/reference/numerics.md), bit for bit.
#include "kernels/optimized/quantized/integer_loops.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/quantized/op_convolution.h"

namespace et::kernels::optimized::quantized {
namespace {

using namespace ops::arguments::et_quantized_convolution;

Error prepare(runtime::PrepareContext& context, Arguments args, void** state) {
  IntegerProduct p{};
  if (context.shared() == nullptr || !read_quantized_convolution(context, args, &p, true)) {
    return Error::NotSupported;
  }
  const Tensor weight = args[kWeight]->to_tensor();
  const int64_t groups = args[kGroups]->number_as_int(), channels = args[kInput]->to_tensor().size(1);
  if (groups < 1 || channels != weight.size(1) * groups || weight.size(0) % groups != 0) {
    return Error::NotSupported;
  }
  p.channels = static_cast<size_t>(channels);
  p.groups = static_cast<size_t>(groups);
  p.columns = static_cast<size_t>(weight.size(0) / groups);
  p.taps = static_cast<size_t>(p.kernel_h * p.kernel_w);
  if (groups > 1 && p.columns < 4) {
    return Error::NotSupported;  // depthwise.cpp
  }
  ops::Work work = work_of_integers(args);
  choose_form(args[kOut]->to_tensor(), &p, &work);
  ET_RETURN_IF_ERROR(runtime::offer_work(state, work, ops::kKernelCosts));
  ET_RETURN_IF_ERROR(add_pixel_beside(context, 0, &p));
  ET_RETURN_IF_ERROR(pack_integer_product(
      context, {weight.const_data_ptr(), false, is_row_major(*args[kWeight]) && !is_channels_last(*args[kWeight])},
      &p));
  return keep_plan(context, args, p, state);
}

Error run(KernelContext& context, Arguments args, void* state) {
  IntegerProduct p = *static_cast<const IntegerProduct*>(state);
  ET_RETURN_IF_ERROR(start_rows(context, args, &p, p.groups * p.columns));
  const Tensor out = args[kOut]->to_tensor();
  return out.numel() == 0 ? Error::Ok : multiply_windows(context, p, static_cast<size_t>(out.numel() / out.size(1)));
}

constexpr Kernel kKernels[] = {
    make_stateful_kernel<&prepare, &run>(signature::quantized_convolution_out, kPriorityWindows),
};

}  // namespace

ET_KERNEL_TABLE(window_convolution, kKernels)

}  // namespace et::kernels::optimized::quantized
