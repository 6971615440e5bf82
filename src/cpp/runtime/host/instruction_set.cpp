#include "runtime/host/instruction_set.h"

#include <cstdlib>
#include <iterator>
#include <string_view>

#include "base/log.h"

namespace et::runtime {
namespace {

Result<InstructionSet> parse_instruction_set(const char* word) {
  constexpr std::string_view kWords[] = {"sse4.1", "avx2", "avx512", "amx"};  // in the order of the enum
  for (size_t i = 0; i < std::size(kWords); ++i) {
    if (kWords[i] == word) {
      return static_cast<InstructionSet>(i);
    }
  }
  ET_LOG_ERROR("ET_MAX_ISA is '%s', must be sse4.1, avx2, avx512 or amx", word);
  return Error::InvalidArgument;
}

}  // namespace

Result<InstructionSet> max_instruction_set() {
  const char* const word = std::getenv("ET_MAX_ISA");
  return word == nullptr ? Result<InstructionSet>(InstructionSet::kAmx) : parse_instruction_set(word);
}

}  // namespace et::runtime
