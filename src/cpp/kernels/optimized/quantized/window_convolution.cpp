// et::quantized_convolution with a constant int8 filter, in groups or not, on channels-last images and lines of int8:
// each window is a row of a product (integer_product.h). Sums, scales and rounding are those of the plain kernel
// (docs/reference/numerics.md), bit for bit.
#include <algorithm>

#include "kernels/optimized/quantized/integer_loops.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/quantized/op_convolution.h"

namespace et::kernels::optimized::quantized {
namespace {

using namespace ops::arguments::et_quantized_convolution;

/// What it takes to make a row of so many taps and channels.
double ns_of_row(double taps, double channels) {
  // Fitted to 1x1, 3x3 and 5x5 with 16 to 128 channels in and 8 to 128 out (docs/lab/kernels.md).
  constexpr double kNsOfTap = 1.2, kNsOfByte = 0.022, kNsOfWideByte = 0.09;
  const double bytes = taps * channels;
  return multiplies_quads() ? (taps == 1 ? 0 : taps * kNsOfTap) + bytes * kNsOfByte : bytes * kNsOfWideByte;
}

/// Nanoseconds that rows take to be made beyond what the costs of their kind have for it, or less. Those were measured
/// with one number of taps and channels: few columns share a row among them, and few channels share a tap.
double ns_of_rows(const IntegerProduct& p, const ops::Work& work) {
  double taps = 1, channels = 0;  // of the large example of benchmarks/operator_costs.py
  switch (work.kind) {
    case ops::WorkKind::convolution_3x3: taps = 9, channels = 64; break;
    case ops::WorkKind::convolution_1x1: channels = 128; break;
    case ops::WorkKind::convolution: taps = 25, channels = 32; break;
    default: return 0;
  }
  if (p.form == IntegerForm::kPatches || unit_of_quads() > 1) {
    return 0;  // the transforms were measured with the product; the costs are those of tiles
  }
  const double windows = work.rows * static_cast<double>(p.groups);
  const double measured = work.units * ns_of_row(taps, channels) / (taps * channels * channels);
  if (!QuadLines::fit(p)) {
    return windows * ns_of_row(static_cast<double>(p.taps), static_cast<double>(p.group_channels())) - measured;
  }
  // Each pixel is made once; what the table has for a call goes with the rows. What rows are padded by is multiplied,
  // and a lone vector of columns waits for its rows, an eighth more.
  constexpr double kNsOfCall = 500;
  ops::Work none = work;
  none.units = 0;
  const double of_call = runtime::cost_here(none, ops::kKernelCosts);
  const double more = static_cast<double>(4 * p.quads()) / static_cast<double>(p.depth()) - 1 +
                      (p.columns <= integer_lanes() ? 0.125 : 0);
  return windows * ns_of_row(1, static_cast<double>(p.channels) * static_cast<double>(p.stride_h)) - measured +
         kNsOfCall - of_call + more * (runtime::cost_here(work, ops::kKernelCosts) - of_call);
}

Error prepare(runtime::PrepareContext& context, Arguments args, void** state) {
  IntegerProduct p{};
  if (context.shared() == nullptr || !read_quantized_convolution(context, args, &p)) {
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
  const Tensor out = args[kOut]->to_tensor();
  p.out_h = out.dim() == 3 ? 1 : out.size(2), p.out_w = out.size(out.dim() - 1);  // at most, for the choice
  p.padded_run = QuadLines::padded_run(p);
  choose_form(out, &p, &work);
  const double cost = runtime::cost_here(work, ops::kKernelCosts) + ns_of_rows(p, work);
  ET_RETURN_IF_ERROR(runtime::offer(state, std::max(cost, 0.0)));
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
