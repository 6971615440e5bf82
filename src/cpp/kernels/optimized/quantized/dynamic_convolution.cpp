// et::dynamic_convolution with a constant int8 filter, in groups or not, on channels-last images of floats. The image
// becomes bytes, and each window is a row of a product (integer_product.h). Sums are exact, and what they become is the
// plain kernel's formula (docs/reference/numerics.md).
#include "kernels/optimized/quantized/integer_loops.h"
#include "kernels/optimized/quantized/quantize_rows.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/quantized/op_convolution.h"

namespace et::kernels::optimized::quantized {
namespace {

using namespace ops::arguments::et_dynamic_convolution;

constexpr const char* kOp = "et::dynamic_convolution";

struct DynamicConvolution {
  IntegerProduct product;
  RunTimeQuantization choice;
};

/// False for a call of another kind.
bool read(const runtime::PrepareContext& context, Arguments args, DynamicConvolution* c) {
  for (size_t i = kWeight; i < kOut; ++i) {
    if (!args[i]->is_none() && !context.is_constant(*args[i])) {
      return false;
    }
  }
  const EValue& bias = *args[kBias];
  if (!is_float(*args[kInput]) || !is_float(*args[kOut]) || !is_float_or_none(bias) ||
      !is_float(*args[kWeightScales]) || !is_row_major(*args[kWeightScales]) || args[kInput]->to_tensor().dim() != 4 ||
      args[kOut]->to_tensor().dim() != 4 || !is_channels_last(*args[kInput]) || !is_channels_last(*args[kOut])) {
    return false;
  }
  const Tensor weight = args[kWeight]->to_tensor(), scales = args[kWeightScales]->to_tensor();
  const int64_t groups = args[kGroups]->number_as_int(), channels = args[kInput]->to_tensor().size(1);
  IntegerProduct& p = c->product;
  if (weight.scalar_type() != ScalarType::Char || weight.dim() != 4 || weight.numel() == 0 ||
      !(is_row_major(*args[kWeight]) || is_channels_last(*args[kWeight])) || groups < 1 ||
      channels != weight.size(1) * groups || weight.size(0) % groups != 0 ||
      (scales.numel() != 1 && scales.numel() != weight.size(0)) ||
      (!bias.is_none() && bias.to_tensor().numel() != weight.size(0)) ||
      !read_pair(*args[kStride], 1, &p.stride_h, &p.stride_w) || !read_pair(*args[kPadding], 0, &p.pad_h, &p.pad_w) ||
      !read_pair(*args[kDilation], 1, &p.dilation_h, &p.dilation_w)) {
    return false;
  }
  p.kernel_h = weight.size(2);
  p.kernel_w = weight.size(3);
  p.taps = static_cast<size_t>(p.kernel_h * p.kernel_w);
  p.channels = static_cast<size_t>(channels);
  p.groups = static_cast<size_t>(groups);
  p.columns = static_cast<size_t>(weight.size(0) / groups);
  p.weight_scales = scales.const_data_ptr<float>();
  p.has_one_scale = scales.numel() == 1;
  p.input_scale = p.output_scale = 1;
  p.gives_floats = true;
  c->choice = {false, args[kSymmetric]->number_as_bool(), args[kQuantMin]->number_as_int(),
               args[kQuantMax]->number_as_int(), static_cast<float>(args[kEps]->number_as_double())};
  return c->choice.is_valid();
}

Error prepare(runtime::PrepareContext& context, Arguments args, void** state) {
  DynamicConvolution c{};
  if (context.shared() == nullptr || !read(context, args, &c)) {
    return Error::NotSupported;
  }
  ET_TRY(const Range range, read_range(context, args[kMin], args[kMax]));
  c.product.floats.low = range.min;
  c.product.floats.high = range.max;
  const Tensor weight = args[kWeight]->to_tensor(), out = args[kOut]->to_tensor();
  ops::Work work = runtime::work_of({args[kInput]->to_tensor(), weight.sizes(), args[kStride], args[kDilation],
                                     args[kGroups]->number_as_int(), false, out});
  work.numbers = ops::WorkNumbers::dynamic;
  choose_form(out, &c.product, &work);
  ET_RETURN_IF_ERROR(runtime::offer_work(state, work, ops::kKernelCosts));
  ET_RETURN_IF_ERROR(pack_integer_product(
      context, {weight.const_data_ptr(), false, is_row_major(*args[kWeight]) && !is_channels_last(*args[kWeight])},
      &c.product));
  ET_TRY(void* const memory, context.allocate(sizeof(c), alignof(DynamicConvolution)));
  *state = new (memory) DynamicConvolution(c);
  return Error::Ok;
}

Error run(KernelContext& context, Arguments args, void* state) {
  const auto& c = *static_cast<const DynamicConvolution*>(state);
  IntegerProduct p = c.product;
  const Tensor input = args[kInput]->to_tensor(), out = args[kOut]->to_tensor();
  ET_RETURN_IF_ERROR(conv::plan_call(context, kOp, input, p.channels, p.groups * p.columns, out, &p));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const auto row = static_cast<size_t>(p.in_w) * p.channels;
  QuantizedRows image{static_cast<size_t>(input.size(0) * p.in_h), 1, row, row};
  ET_RETURN_IF_ERROR(image.allocate(context));
  image.sums = nullptr;
  ET_RETURN_IF_ERROR(quantize_rows(context, kOp, c.choice, input.const_data_ptr<float>(), image));
  ET_TRY(void* const beside, context.allocate_temp(p.channels));
  std::memset(beside, *image.zeros, p.channels);
  p.in = image.integers;
  p.beside = static_cast<const int8_t*>(beside);
  p.input_zero_point = *image.zeros;
  p.floats.out = out.mutable_data_ptr<float>();
  p.floats.zeros = image.zeros;
  p.floats.scales = image.scales;
  p.floats.step = 0;
  p.floats.bias = args[kBias]->is_none() ? nullptr : args[kBias]->to_tensor().const_data_ptr<float>();
  return multiply_windows(context, p, static_cast<size_t>(out.numel() / out.size(1)));
}

constexpr Kernel kKernels[] = {
    make_stateful_kernel<&prepare, &run>(signature::dynamic_convolution_out, kPriorityWindows),
};

}  // namespace

ET_KERNEL_TABLE(dynamic_convolution, kKernels)

}  // namespace et::kernels::optimized::quantized
