/// Plug-ins: kernels and backends in a shared library that is loaded at run time.
///
/// For: vendors and users who add operators or a backend without rebuilding anything. Not for: what is built with us;
///      that is registered by the generated tables.
///
///     namespace {
///     const et::runtime::Kernel kKernels[] = {
///         et::runtime::make_kernel<&relu6_out>("my::relu6.out", et::runtime::kPriorityUser)};
///     const et::runtime::PluginBackend kBackends[] = {{"MyBackend", &backend}};
///     const et::runtime::Plugin kPlugin = {"my_ops", kKernels, std::size(kKernels), kBackends, std::size(kBackends)};
///     }  // namespace
///     ET_EXPORT_PLUGIN(kPlugin)
///
/// The CMake function executorch_py_add_kernel_library writes all of this from a table of operators
/// (docs/how-to/custom_operators.md).
///
/// The library links the few functions that a kernel calls (resize_tensor, allocate_temp, log_message) statically and
/// hidden; registries, programs and methods are the host's alone, and nothing of the host is resolved by name. The one
/// exported function is called first with the host's version, before anything else of the library is touched. A library
/// that was built against other headers is refused with both versions in the message and never misread.
///
/// A loaded plug-in stays until the process ends: methods hold pointers into it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/log.h"
#include "runtime/backend.h"
#include "runtime/kernel.h"

namespace et::runtime {

/// Version of everything a plug-in shares with its host: the types in runtime/ and base/. Raised with each change of
/// their layout or meaning; host and plug-in must have the same.
inline constexpr uint32_t kPluginAbiVersion = 3;

struct PluginBackend {
  const char* name;  ///< as partitioners write it into programs
  const BackendInterface* backend;
};

/// What a plug-in brings. Plain data that lives as long as the library.
struct Plugin {
  const char* name;       ///< for messages
  const Kernel* kernels;  ///< [num_kernels]
  size_t num_kernels;
  const PluginBackend* backends;  ///< [num_backends]
  size_t num_backends;
  const char* const* variants = nullptr;  ///< [num_kernels] or nullptr: see KernelTable
};

/// The exported function. Writes the version that the plug-in was built for to `version`, and returns nullptr when it
/// is not the host's; otherwise takes the host's log hook for its own messages and returns its table.
using PluginEntry = const Plugin* (*)(uint32_t host_version, LogHook host_log, uint32_t* version);
inline constexpr char kPluginEntryName[] = "et_plugin_entry";

}  // namespace et::runtime

/// Defines the exported function of a plug-in whose table is `plugin`.
#define ET_EXPORT_PLUGIN(plugin)                                                                  \
  extern "C" __attribute__((visibility("default"))) const ::et::runtime::Plugin* et_plugin_entry( \
      uint32_t host_version, ::et::LogHook host_log, uint32_t* version) {                         \
    *version = ::et::runtime::kPluginAbiVersion;                                                  \
    if (host_version != ::et::runtime::kPluginAbiVersion) {                                       \
      return nullptr;                                                                             \
    }                                                                                             \
    ::et::set_log_hook(host_log);                                                                 \
    return &(plugin);                                                                             \
  }
