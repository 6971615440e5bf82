/// The most that kernels may use of this processor: the switch ET_MAX_ISA.
///
/// For: whoever picks code by the processor, own kernels and backends alike. A machine with more then runs and measures
///      the code of smaller ones. Not for: what the processor has; the limit says nothing of that.
///
///     ET_MAX_ISA=avx2 python …      no AVX-512, AVX-VNNI or AMX, in any library
#pragma once

#include "base/result.h"

namespace et::runtime {

/// Of x86, each with all before it. Other processors ignore the limit.
enum class InstructionSet { kSse41, kAvx2, kAvx512, kAmx };

/// The limit that the environment gives, kAmx without one. Callers read it once, at their start.
/// Errors: InvalidArgument, naming the words.
Result<InstructionSet> max_instruction_set();

/// The same, kAmx where the word is wrong: for code behind a caller that has told the user.
inline InstructionSet instruction_limit() {
  const Result<InstructionSet> limit = max_instruction_set();
  return limit.ok() ? *limit : InstructionSet::kAmx;
}

}  // namespace et::runtime
