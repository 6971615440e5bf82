#include "bindings/runtime_registry.h"

#include <dlfcn.h>
#include <link.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "bindings/errors.h"
#include "bindings/interrupt.h"
#include "bindings/python_backend.h"
#include "bindings/topics.h"
#include "builtin/builtin.h"
#include "runtime/plugin.h"
#include "threads/thread_pool.h"

namespace py = pybind11;

namespace et::bindings {
namespace {

using runtime::BackendRegistry;
using runtime::KernelRegistry;
using runtime::Plugin;

thread_local int t_load_depth = 0;

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  const BackendRegistry& registry = process_runtime().backends;
  for (size_t i = 0; i < registry.size(); ++i) {
    names.emplace_back(registry.name(i));
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_backend_available(const std::string& name) {
  const runtime::BackendInterface* const backend = process_runtime().backends.find(name);
  return backend != nullptr && backend->is_available();
}

/// What the plug-ins of this process log goes where our own messages go.
void forward_log(LogLevel level, const char* file, int line, const char* message, size_t length) {
  log_message(level, file, line, "%.*s", static_cast<int>(length), message);
}

Error register_plugin(const Plugin& plugin) {
  ProcessRuntime& process = process_runtime();
  return process.gate.exclusively([&] {
    for (size_t i = 0; i < plugin.num_backends; ++i) {
      ET_CHECK_OR_RETURN(process.backends.find(plugin.backends[i].name) == nullptr, RegistrationAlreadyRegistered,
                         "plug-in %s brings a backend '%s', and there is one of that name already", plugin.name,
                         plugin.backends[i].name);
    }
    if (plugin.num_kernels != 0) {
      ET_RETURN_IF_ERROR(process.kernels.add({{plugin.kernels, plugin.num_kernels}, plugin.name, plugin.variants}));
    }
    for (size_t i = 0; i < plugin.num_backends; ++i) {
      ET_RETURN_IF_ERROR(process.backends.add(plugin.backends[i].name, plugin.backends[i].backend));
    }
    return Error::Ok;
  });
}

/// Refuses a library of which a part is missing (a copy that broke off). The loader maps its segments unseen, and the
/// first touch of a page beyond the end would end the process. What is no ELF file at all is left to the loader's own
/// message.
void check_is_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff nbytes = file ? static_cast<std::streamoff>(file.tellg()) : 0;
  ElfW(Ehdr) header{};
  if (nbytes < static_cast<std::streamoff>(sizeof(header)) || !file.seekg(0) ||
      !file.read(reinterpret_cast<char*>(&header), sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(ElfW(Phdr))) {
    return;
  }
  const size_t sections_nbytes = static_cast<size_t>(header.e_shnum) * header.e_shentsize;  // linkers put these last
  bool whole = header.e_shoff <= static_cast<size_t>(nbytes) &&
               sections_nbytes <= static_cast<size_t>(nbytes) - header.e_shoff &&
               file.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (unsigned i = 0; whole && i < header.e_phnum; ++i) {
    ElfW(Phdr) segment{};
    whole = file.read(reinterpret_cast<char*>(&segment), sizeof(segment)) &&
            segment.p_offset <= static_cast<size_t>(nbytes) &&
            segment.p_filesz <= static_cast<size_t>(nbytes) - segment.p_offset;
  }
  if (!whole) {
    throw CoreError(Error::AccessFailed, "plug-in " + path + " cannot be opened: it is cut off after " +
                                             std::to_string(nbytes) + " bytes; copy or build it again");
  }
}

/// Opens a plug-in and registers what it brings; gives its name.
std::string load_plugin(const std::string& path) {
  static std::set<const Plugin*> loaded;  // guarded by the GIL
  check_is_whole(path);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    throw CoreError(Error::AccessFailed,
                    "plug-in " + path + " cannot be opened: " + (reason == nullptr ? "no reason given" : reason));
  }
  const auto entry = reinterpret_cast<runtime::PluginEntry>(dlsym(library, runtime::kPluginEntryName));
  if (entry == nullptr) {
    dlclose(library);
    throw CoreError(Error::InvalidArgument, path + " is no plug-in: it has no function " + runtime::kPluginEntryName +
                                                " (ET_EXPORT_PLUGIN in runtime/plugin.h defines it)");
  }
  uint32_t version = 0;
  const Plugin* const plugin = entry(runtime::kPluginAbiVersion, &forward_log, &version);
  if (plugin == nullptr || version != runtime::kPluginAbiVersion) {
    dlclose(library);
    throw CoreError(Error::NotSupported, "plug-in " + path + " is built for plug-in version " +
                                             std::to_string(version) + ", this runtime has version " +
                                             std::to_string(runtime::kPluginAbiVersion) +
                                             "; build it against this version's headers");
  }
  if (loaded.count(plugin) != 0) {
    dlclose(library);  // the same library again: dlopen only counted
    return plugin->name;
  }
  Error error;
  {
    const py::gil_scoped_release release;
    error = register_plugin(*plugin);
  }
  check(error);
  loaded.insert(plugin);
  return plugin->name;
}

void register_backend(const std::string& name, py::object implementation) {
  if (PythonBackend* const known = PythonBackend::find(name); known != nullptr) {
    known->replace(std::move(implementation));
    return;
  }
  PythonBackend* const made = PythonBackend::make(name, std::move(implementation));
  Error error;
  {
    const py::gil_scoped_release release;
    ProcessRuntime& process = process_runtime();
    error = process.gate.exclusively([&] { return process.backends.add(made->name(), made); });
  }
  if (error != Error::Ok) {
    PythonBackend::forget(made);
  }
  check(error);
}

}  // namespace

void LoadGate::enter() {
  if (t_load_depth++ != 0) {
    return;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !changing_; });
  ++loads_;
}

void LoadGate::leave() {
  if (--t_load_depth != 0) {
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  --loads_;
  changed_.notify_all();
}

Error LoadGate::lock() {
  ET_CHECK_OR_RETURN(t_load_depth == 0, InvalidState,
                     "kernels and backends cannot be registered while this thread loads a method");
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !changing_ && loads_ == 0; });
  changing_ = true;
  return Error::Ok;
}

void LoadGate::unlock() {
  const std::lock_guard<std::mutex> lock(mutex_);
  changing_ = false;
  changed_.notify_all();
}

runtime::HostOptions ProcessRuntime::options() {
  runtime::HostOptions options;
  options.kernels = &kernels;
  options.backends = &backends;
  options.pool = threads::default_pool();
  return options;
}

ProcessRuntime& process_runtime() {
  static ProcessRuntime* const instance = [] {
    auto made = std::make_unique<ProcessRuntime>();
    check(builtin::register_all(made->kernels, made->backends));
    return made.release();
  }();
  return *instance;
}

void init_runtime_registry(py::module_& module) {
  init_interrupt();
  module.def("set_num_threads", &threads::set_num_threads, py::arg("count"),
             "Threads of the process's pool, the calling one included; 0: all processors");
  module.def("num_threads", &threads::num_threads, "Threads of the process's pool");
  module.def("backend_names", &backend_names, "Names of all registered backends, sorted");
  module.def("is_backend_available", &is_backend_available, py::arg("name"),
             "False for a backend that is not registered or whose device is not there");
  module.def("load_plugin", &load_plugin, py::arg("path"), "Loads a plug-in (runtime/plugin.h); gives its name");
  module.def("register_backend", &register_backend, py::arg("name"), py::arg("implementation"),
             "Registers an object with init and execute as a backend, or replaces one written in Python");
}

}  // namespace et::bindings
