#include "kernels/optimized/amx/tiles.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/host/instruction_set.h"

namespace et::kernels::optimized::amx {

namespace {

struct Tiles {
  bool has_integers = false, has_bfloat16 = false;

  Tiles() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kBFloat16 = 1u << 22, kTiles = 1u << 24, kIntegers = 1u << 25;  // CPUID.(7, 0).EDX
    if (runtime::instruction_limit() < runtime::InstructionSet::kAmx) {
      return;
    }
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl") ||
        !__builtin_cpu_supports("avx512bw")) {
      return;
    }
#ifdef ET_EMULATE_TILES
    has_integers = has_bfloat16 = true;
    return;
#endif
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTiles) == 0) {
      return;
    }
    constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    if (syscall(SYS_arch_prctl, kRequest, kTileData) == 0) {
      has_integers = (d & kIntegers) != 0;
      has_bfloat16 = (d & kBFloat16) != 0;
    }
  }
};

const Tiles& tiles() {
  static const Tiles tiles;
  return tiles;
}

}  // namespace

bool has_integer_tiles() { return tiles().has_integers; }
bool has_bfloat16_tiles() { return tiles().has_bfloat16; }

}  // namespace et::kernels::optimized::amx
