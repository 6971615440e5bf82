/// Blocked decompositions for the linear algebra kernels of kernels/portable (register.cpp calls it once).
#pragma once

namespace et::kernels::optimized {

/// From now on kernels/portable/matrix.h computes large matrices with the functions of dense.h.
void use_large_matrices();

}  // namespace et::kernels::optimized
