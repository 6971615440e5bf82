#include "kernels/cortex_m/register.h"

#include "kernels/cortex_m/kernels.h"
#include "runtime/overlapped_kernel.h"

namespace et::kernels::cortex_m {
namespace {

template <bool (*Fits)(Arguments)>
Error prepare_if_fitting(runtime::PrepareContext&, Arguments args, void** state) {
  *state = nullptr;
  return Fits(args) ? Error::Ok : Error::NotSupported;
}

template <auto Function, bool (*Fits)(Arguments), uint32_t InPlace, uint32_t Overlaps>
constexpr runtime::Kernel make_fitting_kernel(const char* name) {
  runtime::Kernel kernel =
      runtime::make_overlapped_kernel<Function, InPlace, Overlaps>(name, runtime::kPriorityOptimized);
  kernel.prepare = &prepare_if_fitting<Fits>;
  return kernel;
}

constexpr runtime::Kernel kKernels[] = {
#define ET_CORTEX_M_KERNEL(library, name, op, in_place, overlaps) \
  make_fitting_kernel<&name##_out, &fits_##name, in_place, overlaps>(op),
#include "kernels/cortex_m/rows.inc"
#undef ET_CORTEX_M_KERNEL
    {nullptr, nullptr, nullptr},  // a build may select none of them
};
constexpr size_t kCount = sizeof(kKernels) / sizeof(kKernels[0]) - 1;

}  // namespace

Span<const runtime::Kernel> cortex_m_kernels() { return {kKernels, kCount}; }

Error register_cortex_m_kernels(runtime::KernelRegistry& registry) {
  return kCount == 0 ? Error::Ok : registry.add(cortex_m_kernels(), "cortex_m");
}

}  // namespace et::kernels::cortex_m
