/// Costs of kernels on this processor, from the tables of ops/costs.h: what `prepare` offers.
///
/// For: kernels of which several serve one operator. Arithmetic on sizes at their upper bounds; nothing is timed.
///
///     ET_RETURN_IF_ERROR(offer_work(state, work_of_product(...), ops::kKernelCosts));
#pragma once

#include "ops/costs.h"
#include "runtime/kernel.h"
#include "runtime/kernel_offer.h"

namespace et::runtime {

/// The column of the tables that this processor, within ET_MAX_ISA, is nearest to.
ops::TargetIsa this_isa();
/// What the name of an instruction set does not say of a processor.
struct ProcessorKind {
  bool has_byte_products;  ///< VNNI
  bool is_intel;
};
/// The column of a piece of work on such a processor. Integers of avx512 are measured with byte products. Without these
/// both sides multiply integers as they do on AVX2. Floats of avx512 are measured on an AMD. Intel's processors
/// multiply them as that of the column amx does.
constexpr ops::TargetIsa column_of(const ops::Work& work, ops::TargetIsa isa, ProcessorKind kind) {
  if (isa != ops::TargetIsa::kAvx512) {
    return isa;
  }
  if (work.numbers == ops::WorkNumbers::floating) {
    return kind.is_intel ? ops::TargetIsa::kAmx : isa;
  }
  return kind.has_byte_products ? isa : ops::TargetIsa::kAvx2;
}

/// The arguments that say what a convolution has to do: of aten::convolution, its clamped and its integer form.
struct ConvolutionWork {
  Tensor input;
  Span<const int64_t> weight;  ///< its sizes
  const EValue *stride, *dilation;
  int64_t groups;
  bool is_transposed;
  Tensor out;
};
ops::Work work_of(const ConvolutionWork& convolution);

/// The cost of `work` here.
double cost_here(const ops::Work& work, const ops::WorkCosts& costs);

/// Offers it. `factor`: for a kernel that takes more, or less, than the table says of its kind.
inline Error offer_work(void** state, const ops::Work& work, const ops::WorkCosts& costs, double factor = 1) {
  return *state == nullptr ? Error::Ok : offer(state, factor * cost_here(work, costs));
}

}  // namespace et::runtime
