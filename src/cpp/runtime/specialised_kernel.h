/// Kernels for certain element types and memory orders, chosen at load.
///
/// For: libraries that have several kernels of one operator: a fast one for float in channels-last order beside one
/// that takes everything. Table rows of this kind are generated from `specialised:` lines of operator tables
/// (codegen/kernel_library.py). Not for: other conditions (a constant weight, a window of 3x3); a kernel with those
/// writes its own `prepare` (kernel.h).
///
///     inline constexpr TensorDemand kNhwc[] = {{0, MemoryOrder::kChannelsLast, 1u << 6}};  // argument 0: float
///     constexpr Kernel kKernels[] = {make_kernel<&blur_out>("my::blur.out", kPriorityUser),
///                                    make_specialised_kernel<&blur_nhwc_out, kNhwc>("my::blur.out", kPriorityUser)};
///
/// The order is the registry's: of equal priority the last row is tried first, so the kernel that takes everything
/// stands before the specialised ones.
#pragma once

#include "runtime/kernel.h"

namespace et::runtime {

/// Order of a tensor's dimensions in memory, as a demand.
enum class MemoryOrder : uint8_t {
  kAny,
  kContiguous,    ///< row-major
  kChannelsLast,  ///< channels innermost; rank 3, 4 or 5
};

/// What a kernel requires of one argument. Tensors that are None and numbers meet every demand; of a list each tensor
/// counts, and one of more than 256 meets none.
struct TensorDemand {
  uint8_t argument;  ///< index in the kernel's parameters
  MemoryOrder order = MemoryOrder::kAny;
  uint32_t dtypes = 0;  ///< bit = ScalarType's value; 0 = any
};

/// True when every demand is met. Looks at dtypes and dim orders only, which never change after load.
bool meets(Span<EValue* const> args, Span<const TensorDemand> demands);

template <const auto& Demands>
Error prepare_if_met(PrepareContext&, Span<EValue* const> args, void** state) {
  *state = nullptr;
  return meets(args, Demands) ? Error::Ok : Error::NotSupported;
}

/// The table entry of `Function` (see make_kernel) for calls that meet `Demands`, an array of TensorDemand.
template <auto Function, const auto& Demands, uint32_t InPlace = 0>
constexpr Kernel make_specialised_kernel(const char* name, uint8_t priority) {
  Kernel kernel = make_kernel<Function, InPlace>(name, priority);
  kernel.prepare = &prepare_if_met<Demands>;
  return kernel;
}

}  // namespace et::runtime
