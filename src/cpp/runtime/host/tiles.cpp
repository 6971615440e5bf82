#include "runtime/host/tiles.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/host/instruction_set.h"
#endif

namespace et::runtime {
namespace {

#if defined(__x86_64__) && defined(__linux__)
Tiles ask() {
  if (instruction_limit() < InstructionSet::kAmx || !__builtin_cpu_supports("avx512f") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512bw")) {
    return {};
  }
#ifdef ET_EMULATE_TILES
  return {true, true};
#else
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBFloat16 = 1u << 22, kTiles = 1u << 24, kIntegers = 1u << 25;  // CPUID.(7, 0).EDX
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTiles) == 0) {
    return {};
  }
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  if (syscall(SYS_arch_prctl, kRequest, kTileData) != 0) {
    return {};
  }
  return {(d & kIntegers) != 0, (d & kBFloat16) != 0};
#endif
}
#else
Tiles ask() { return {}; }
#endif

}  // namespace

const Tiles& granted_tiles() {
  static const Tiles tiles = ask();
  return tiles;
}

}  // namespace et::runtime
