#include "builtin/builtin.h"

#include <cstdlib>
#include <cstring>

#include "kernels/optimized/register.h"
#include "kernels/portable/register.h"
#include "kernels/prim/register.h"
#include "kernels/quantized/register.h"

#define ET_BACKEND_RUNTIME(name)                        \
  namespace et::backends::name {                        \
  Error register_runtime(runtime::BackendRegistry& to); \
  }
#include "backends/runtime_table.inc"
#undef ET_BACKEND_RUNTIME
#define ET_BACKEND_KERNELS(name)                       \
  namespace et::backends::name {                       \
  Error register_kernels(runtime::KernelRegistry& to); \
  }
#include "backends/kernels_table.inc"
#undef ET_BACKEND_KERNELS

namespace et::builtin {

Error register_all(runtime::KernelRegistry& kernels, runtime::BackendRegistry& backends) {
  ET_RETURN_IF_ERROR(kernels::prim::register_prim_kernels(kernels));
  ET_RETURN_IF_ERROR(kernels::portable::register_portable_kernels(kernels));
  ET_RETURN_IF_ERROR(kernels::quantized::register_quantized_kernels(kernels));
  ET_RETURN_IF_ERROR(kernels::optimized::register_optimized_kernels(kernels));
  // ET_LIBRARY_KERNELS=off: ours alone, which is how their costs are measured (benchmarks/operator_costs.py).
  const char* const libraries = std::getenv("ET_LIBRARY_KERNELS");
  const bool has_libraries = libraries == nullptr || std::strcmp(libraries, "off") != 0;
#define ET_BACKEND_KERNELS(name) \
  ET_RETURN_IF_ERROR(has_libraries ? backends::name::register_kernels(kernels) : Error::Ok);
#include "backends/kernels_table.inc"
#undef ET_BACKEND_KERNELS
#define ET_BACKEND_RUNTIME(name) ET_RETURN_IF_ERROR(backends::name::register_runtime(backends));
#include "backends/runtime_table.inc"
#undef ET_BACKEND_RUNTIME
  static_cast<void>(backends), static_cast<void>(has_libraries);
  return Error::Ok;
}

}  // namespace et::builtin
