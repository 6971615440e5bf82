// Plug-ins (runtime/plugin.h): opening one, and registering what it brings.
#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <fstream>
#include <set>

#include "extension/process.h"
#include "runtime/host/out_of_memory.h"
#include "runtime/plugin.h"

namespace et::extension {
namespace {

using runtime::Plugin;

/// What the plug-ins of this process log goes where our own messages go.
void forward_log(LogLevel level, const char* file, int line, const char* message, size_t length) {
  log_message(level, file, line, "%.*s", static_cast<int>(length), message);
}

Error register_plugin(const Plugin& plugin, Process& shared) {
  for (size_t i = 0; i < plugin.num_backends; ++i) {
    ET_CHECK_OR_RETURN(shared.backends.find(plugin.backends[i].name) == nullptr, RegistrationAlreadyRegistered,
                       "plug-in %s brings a backend '%s', and there is one of that name already", plugin.name,
                       plugin.backends[i].name);
  }
  if (plugin.num_kernels != 0) {
    ET_RETURN_IF_ERROR(shared.kernels.add({{plugin.kernels, plugin.num_kernels}, plugin.name, plugin.variants}));
  }
  for (size_t i = 0; i < plugin.num_backends; ++i) {
    ET_RETURN_IF_ERROR(shared.backends.add(plugin.backends[i].name, plugin.backends[i].backend));
  }
  return Error::Ok;
}

/// Refuses a library of which a part is missing (a copy that broke off). The loader maps its segments unseen, and the
/// first touch of a page beyond the end would end the process. What is no ELF file at all is left to the loader's own
/// message.
Error check_is_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff nbytes = file ? static_cast<std::streamoff>(file.tellg()) : 0;
  ElfW(Ehdr) header{};
  if (nbytes < static_cast<std::streamoff>(sizeof(header)) || !file.seekg(0) ||
      !file.read(reinterpret_cast<char*>(&header), sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(ElfW(Phdr))) {
    return Error::Ok;
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
  ET_CHECK_OR_RETURN(whole, AccessFailed,
                     "plug-in %s cannot be opened: it is cut off after %" PRId64 " bytes; copy or build it again",
                     path.c_str(), static_cast<int64_t>(nbytes));
  return Error::Ok;
}

/// An open library, which is closed unless it is kept.
class Library {
 public:
  explicit Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
  ~Library() {
    if (handle_ != nullptr) {
      dlclose(handle_);
    }
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void* handle() const { return handle_; }
  void keep() { handle_ = nullptr; }

 private:
  void* handle_;
};

}  // namespace

Result<std::string> load_plugin(const std::string& path) try {
  Process& shared = process();
  ET_RETURN_IF_ERROR(check_is_whole(path));
  Library library(path);
  if (library.handle() == nullptr) {
    const char* const reason = dlerror();
    return ET_ERROR_WITH_MESSAGE(AccessFailed, "plug-in %s cannot be opened: %s", path.c_str(),
                                 reason == nullptr ? "no reason given" : reason);
  }
  const auto entry = reinterpret_cast<runtime::PluginEntry>(dlsym(library.handle(), runtime::kPluginEntryName));
  ET_CHECK_OR_RETURN(entry != nullptr, InvalidArgument,
                     "%s is no plug-in: it has no function %s (ET_EXPORT_PLUGIN in runtime/plugin.h defines it)",
                     path.c_str(), runtime::kPluginEntryName);
  uint32_t version = 0;
  const Plugin* const plugin = entry(runtime::kPluginAbiVersion, &forward_log, &version);
  ET_CHECK_OR_RETURN(plugin != nullptr && version == runtime::kPluginAbiVersion, NotSupported,
                     "plug-in %s is built for plug-in version %u, this runtime has version %u; build it against this "
                     "version's headers",
                     path.c_str(), version, runtime::kPluginAbiVersion);
  static std::set<const Plugin*> loaded;  // guarded by the gate
  ET_RETURN_IF_ERROR(shared.gate.exclusively([&] {
    if (loaded.count(plugin) != 0) {
      return Error::Ok;  // the same library again: dlopen only counted
    }
    loaded.insert(plugin);
    const Error error = register_plugin(*plugin, shared);
    if (error != Error::Ok) {
      loaded.erase(plugin);
      return error;
    }
    library.keep();
    return Error::Ok;
  }));
  return std::string(plugin->name);
}
ET_NO_MEMORY("plug-in %s", path.c_str())

}  // namespace et::extension
