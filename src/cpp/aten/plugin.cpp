// The portable kernels on at::Tensor, as a plug-in: loaded, they take the place of the runtime's own.
#include "runtime/plugin.h"

#include "kernels/portable/register.h"

namespace {

/// The table is made when the library is loaded: its size is known to register.cpp only.
const et::runtime::Plugin& plugin() {
  static const et::Span<const et::runtime::Kernel> kernels = et::kernels::portable::portable_kernels();
  static const et::runtime::Plugin instance = {"aten", kernels.data(), kernels.size(), nullptr, 0};
  return instance;
}

}  // namespace

ET_EXPORT_PLUGIN(plugin())
