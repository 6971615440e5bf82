/// Tiles of x86-64 servers (AMX), which the system lets a process use or not.
///
/// For: kernels that multiply tiles, and what depends on their being used: costs, packed files. Not for: the
/// instructions
///      (kernels/optimized/amx).
#pragma once

namespace et::runtime {

/// What this process multiplies by tiles: int8, BFloat16. Nothing where the processor has no tiles or no AVX-512,
/// ET_MAX_ISA leaves them out, or the system refuses them, as it does where a thread's signal stack is too small.
struct Tiles {
  bool int8 = false, bfloat16 = false;
};

/// The system is asked at the first call, once a process.
const Tiles& granted_tiles();

}  // namespace et::runtime
