// Functions of numbers on bool tensors, which leave them what they are or are false for all of them.

#include "kernels/optimized/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/bools.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/pointwise-inl.h"
#include "kernels/optimized/tables.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {

// A bool is a byte that may hold anything.
void BoolSame(const PointwiseBlock& block) {
  map_elements<uint8_t, uint8_t>([](uint8_t x) HWY_ATTR { return static_cast<uint8_t>(x != 0); }, block);
}
void BoolFalse(const PointwiseBlock& block) {
  map_elements<uint8_t, uint8_t>([](uint8_t) HWY_ATTR { return uint8_t{0}; }, block);
}

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(BoolFalse);
HWY_EXPORT(BoolSame);

namespace {

BlockFunction false_loop() { return HWY_DYNAMIC_POINTER(BoolFalse); }
BlockFunction same_loop() { return HWY_DYNAMIC_POINTER(BoolSame); }

/// fn(self, …, out): bools in one dim order.
template <BlockFunction (*Loop)()>
Error choose(Arguments args, PointwiseOperation* operation) {
  const EValue& out = *args[args.size() - 1];
  if (args[0]->to_tensor().scalar_type() != ScalarType::Bool || out.to_tensor().scalar_type() != ScalarType::Bool ||
      !same_dim_order(*args[0], out)) {
    return Error::NotSupported;
  }
  operation->function = Loop();
  operation->add_tensor(args, 0);
  return Error::Ok;
}

constexpr Kernel kKernels[] = {
    make_pointwise_kernel<&choose<&false_loop>>("aten::isinf.out", "eo"),
    make_pointwise_kernel<&choose<&false_loop>>("aten::isnan.out", "eo"),
    make_pointwise_kernel<&choose<&same_loop>>("aten::nan_to_num.out", "eDDDo"),
    make_pointwise_kernel<&choose<&same_loop>>("aten::sign.out", "eo"),
    make_pointwise_kernel<&choose<&false_loop>>("aten::signbit.out", "eo"),
};

}  // namespace

Span<const Kernel> bools_kernels() { return kKernels; }

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
