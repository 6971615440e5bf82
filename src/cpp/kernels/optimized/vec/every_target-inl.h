// Compiles the .cpp that includes it once for every instruction set (targets.h). The first include of a file with
// vector code, behind its own header; CMake gives the file's name (HWY_TARGET_INCLUDE). It has no guard, since
// highway.h looks at the target anew each time.

#include "kernels/optimized/vec/targets.h"
// In this order.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

namespace et::kernels::optimized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
}
