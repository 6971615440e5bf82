#include "runtime/host/instruction_set.h"

#include <atomic>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "base/log.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace et::runtime {
namespace {

Result<InstructionSet> parse_instruction_set(const char* word) {
  constexpr std::string_view kWords[] = {"sse4.1", "avx2", "avxvnni", "avx512", "amx"};  // in the order of the enum
  for (size_t i = 0; i < std::size(kWords); ++i) {
    if (kWords[i] == word) {
      return static_cast<InstructionSet>(i);
    }
  }
  ET_LOG_ERROR("ET_MAX_ISA is '%s', must be sse4.1, avx2, avxvnni, avx512 or amx", word);
  return Error::InvalidArgument;
}

std::atomic<bool> g_is_avx_vnni_out{false};

}  // namespace

Result<InstructionSet> max_instruction_set() {
  const char* const word = std::getenv("ET_MAX_ISA");
  return word == nullptr ? Result<InstructionSet>(InstructionSet::kAmx) : parse_instruction_set(word);
}

bool has_avx_vnni() {
#ifdef __x86_64__
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kAvxVnni = 1u << 4;  // CPUID.(7, 1).EAX
    return instruction_limit() >= InstructionSet::kAvxVnni && __builtin_cpu_supports("avx2") != 0 &&
           __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvxVnni) != 0;
  }();
  return has && !g_is_avx_vnni_out.load(std::memory_order_relaxed);
#else
  return false;
#endif
}

void leave_avx_vnni_out(bool is_out) { g_is_avx_vnni_out = is_out; }

}  // namespace et::runtime
