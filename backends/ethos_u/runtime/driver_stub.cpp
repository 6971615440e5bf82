/// Stands in for a driver where a product has none of its own: checks a call and leaves zeros. Not run on silicon.
#include <cstring>

#include "backends/ethos_u/runtime/driver.h"

namespace et::backends::ethos_u {
namespace {

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

}  // namespace

/// In firmware only: a host says that it has no such device.
__attribute__((weak)) bool is_there() {
#ifdef ET_FEATURES
  return true;
#else
  return false;
#endif
}

__attribute__((weak)) Error invoke(const Invocation& call) {
  ET_CHECK_OR_RETURN(
      is_aligned(call.commands.data()) && is_aligned(call.weights.data()) && is_aligned(call.scratch.data()),
      InvalidArgument, "Ethos-U: commands, weights and scratch must begin at multiples of 16");
  ET_CHECK_OR_RETURN(call.commands.size() >= 4 && std::memcmp(call.commands.data(), "COP1", 4) == 0, InvalidProgram,
                     "Ethos-U: the commands do not begin with COP1");
  std::memset(call.scratch.data(), 0, call.scratch.size());
  return Error::Ok;
}

}  // namespace et::backends::ethos_u
