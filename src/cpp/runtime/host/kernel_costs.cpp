#include "runtime/host/kernel_costs.h"

#include <algorithm>

#include "runtime/host/instruction_set.h"
#include "runtime/host/tiles.h"

namespace et::runtime {
namespace {

bool are_ones(const EValue& list) {
  const IntArrayRef items = list.to_int_list();
  return std::all_of(items.begin(), items.end(), [](int64_t item) { return item == 1; });
}

ops::TargetIsa find_isa() {
#if defined(__x86_64__) || defined(__i386__)
  const InstructionSet limit = instruction_limit();
  if (limit == InstructionSet::kSse41 || !__builtin_cpu_supports("avx2")) {
    return ops::TargetIsa::kSse41;
  }
  if (limit < InstructionSet::kAvx512 || !__builtin_cpu_supports("avx512bw")) {
    return has_avx_vnni() ? ops::TargetIsa::kAvxVnni : ops::TargetIsa::kAvx2;
  }
  return granted_tiles().int8 ? ops::TargetIsa::kAmx : ops::TargetIsa::kAvx512;
#else
  return ops::TargetIsa::kArm;
#endif
}

ProcessorKind kind_here() {
#if defined(__x86_64__) || defined(__i386__)
  return {__builtin_cpu_supports("avx512vnni") != 0, __builtin_cpu_is("intel") != 0};
#else
  return {};
#endif
}

}  // namespace

ops::TargetIsa this_isa() {
  static const ops::TargetIsa isa = find_isa();
  return isa;
}

ops::Work work_of(const ConvolutionWork& c) {
  return ops::work_of({c.weight, c.groups, c.is_transposed, are_ones(*c.stride) && are_ones(*c.dilation),
                       ops::windows_overlap(c.weight, c.stride->to_int_list()), static_cast<double>(c.input.numel()),
                       static_cast<double>(c.out.numel())});
}

double cost_here(const ops::Work& work, const ops::WorkCosts& costs) {
  return ops::cost_of(work, column_of(work, this_isa(), kind_here()), costs).value_or(0);
}

}  // namespace et::runtime
