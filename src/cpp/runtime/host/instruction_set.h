/// The most that kernels may use of this processor: the switch ET_MAX_ISA.
///
/// For: whoever picks code by the processor, own kernels and backends alike. A machine with more then runs and measures
///      the code of smaller ones. Not for: what the processor has; of that it knows AVX-VNNI alone, for which Highway
///      has no target.
///
///     ET_MAX_ISA=avx2 python …      no AVX-512, AVX-VNNI or AMX, in any library
#pragma once

#include "base/result.h"

namespace et::runtime {

/// Of x86, each with all before it; processors with kAvx512 may have byte products in longer vectors alone. Other
/// processors ignore the limit.
enum class InstructionSet { kSse41, kAvx2, kAvxVnni, kAvx512, kAmx };

/// The limit that the environment gives, kAmx without one. Callers read it once, at their start.
/// Errors: InvalidArgument, naming the words.
Result<InstructionSet> max_instruction_set();

/// The same, kAmx where the word is wrong: for code behind a caller that has told the user.
inline InstructionSet instruction_limit() {
  const Result<InstructionSet> limit = max_instruction_set();
  return limit.ok() ? *limit : InstructionSet::kAmx;
}

/// Whether the processor multiplies four bytes at a time in vectors of AVX2, and the limit leaves that.
bool has_avx_vnni();
/// For tests of the code that AVX2 takes without it.
void leave_avx_vnni_out(bool is_out);

}  // namespace et::runtime
