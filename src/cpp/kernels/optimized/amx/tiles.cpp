#include "kernels/optimized/amx/tiles.h"

#include "runtime/host/tiles.h"

namespace et::kernels::optimized::amx {

bool has_integer_tiles() { return runtime::granted_tiles().int8; }
bool has_bfloat16_tiles() { return runtime::granted_tiles().bfloat16; }

}  // namespace et::kernels::optimized::amx
