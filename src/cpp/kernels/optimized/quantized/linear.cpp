// et::quantized_linear with a constant weight of int8, or of packed 4 bits, on int8 (integer_product.h). Sums, scales
// and rounding are those of the plain kernel (docs/reference/numerics.md), bit for bit.
#include "kernels/optimized/quantized/integer_product.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/shape.h"
#include "numerics/nibbles.h"
#include "ops/signatures/quantized/op_linear.h"

namespace et::kernels::optimized::quantized {
namespace {

using namespace ops::arguments::et_quantized_linear;

/// False for a call of another kind.
bool read(const runtime::PrepareContext& context, Arguments args, IntegerProduct* p) {
  for (size_t i = 1; i < kOut; ++i) {
    if (!args[i]->is_none() && !context.is_constant(*args[i])) {
      return false;
    }
  }
  const Tensor input = args[kInput]->to_tensor(), weight = args[kWeight]->to_tensor();
  const bool is_packed = weight.scalar_type() == ScalarType::Byte;
  if (input.scalar_type() != ScalarType::Char || !(is_packed || weight.scalar_type() == ScalarType::Char) ||
      args[kOut]->to_tensor().scalar_type() != ScalarType::Char || input.dim() < 1 || weight.dim() != 2 ||
      weight.numel() == 0 || !is_row_major(*args[kInput]) || !is_row_major(*args[kWeight]) ||
      !is_row_major(*args[kOut])) {
    return false;
  }
  const int64_t depth = input.size(-1);
  if (depth < 1 || weight.size(1) != (is_packed ? packed_count(depth) : depth)) {
    return false;
  }
  *p = product_of_rows(static_cast<size_t>(depth), static_cast<size_t>(weight.size(0)));
  return read_affine(
      args,
      {kInputScale, kInputZeroPoint, kWeightScales, kBias, kOutputScale, kOutputZeroPoint, kOutputMin, kOutputMax},
      weight.size(0), p);
}

Error prepare(runtime::PrepareContext& context, Arguments args, void** state) {
  IntegerProduct p{};
  if (context.shared() == nullptr || !read(context, args, &p)) {
    return Error::NotSupported;
  }
  const Tensor weight = args[kWeight]->to_tensor();
  const auto depth = static_cast<double>(p.channels), columns = static_cast<double>(p.columns);
  ops::Work work = ops::work_of_product(static_cast<double>(args[kInput]->to_tensor().numel()) / depth, columns, depth);
  work.numbers = ops::WorkNumbers::int8;
  ET_RETURN_IF_ERROR(runtime::offer_work(state, work, ops::kKernelCosts));
  ET_RETURN_IF_ERROR(
      pack_integer_product(context, {weight.const_data_ptr(), weight.scalar_type() == ScalarType::Byte, false}, &p));
  ET_TRY(void* const memory, context.allocate(sizeof(p), alignof(IntegerProduct)));
  *state = new (memory) IntegerProduct(p);
  return Error::Ok;
}

Error run(KernelContext& context, Arguments args, void* state) {
  IntegerProduct p = *static_cast<const IntegerProduct*>(state);
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[kOut]->to_tensor();
  ET_CHECK_OR_RETURN(input.size(-1) == static_cast<int64_t>(p.channels), InvalidArgument,
                     "et::quantized_linear: rows of %" PRId64 " numbers meet a weight for %zu", input.size(-1),
                     p.channels);
  portable::Sizes sizes(input.sizes());
  sizes[input.dim() - 1] = static_cast<int64_t>(p.columns);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  p.in = input.const_data_ptr<int8_t>();
  p.out = out.mutable_data_ptr<int8_t>();
  p.in_w = p.out_w = input.numel() / input.size(-1);
  return multiply_windows(context, p, static_cast<size_t>(p.in_w));
}

constexpr Kernel kKernels[] = {
    make_stateful_kernel<&prepare, &run>(signature::quantized_linear_out, kPriorityPixels),
};

}  // namespace

ET_KERNEL_TABLE(linear, kKernels)

}  // namespace et::kernels::optimized::quantized
