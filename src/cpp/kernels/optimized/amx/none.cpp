// A build without tiles (ET_BUILD_AMX=OFF, or a processor or a compiler that has none): vectors do everything.
#include "kernels/optimized/amx/direct_tiles.h"
#include "kernels/optimized/amx/gemm_tiles.h"
#include "kernels/optimized/amx/quad_tiles.h"
#include "kernels/optimized/amx/tiles.h"

namespace et::kernels::optimized::amx {

bool has_integer_tiles() { return false; }
bool has_bfloat16_tiles() { return false; }

// Nothing below is called then.
void multiply_tile_block(const GemmBlock<float, BFloat16>&) {}
void multiply_planes(const PlaneBlock&) {}
void configure_quad_tiles(size_t) {}
void release_quad_tiles() {}
size_t multiply_quad_tiles(const QuadTiles&, size_t first, QuadSums&) { return first; }

}  // namespace et::kernels::optimized::amx
