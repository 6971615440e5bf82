/// Opening a file to read it. Internal to runtime/host.
#pragma once

#include <string>

#include <sys/stat.h>

#include "base/result.h"

namespace et::runtime {

struct OpenFile {
  int descriptor;
  size_t size;  // bytes
};

/// Errors: AccessFailed, naming the path and the system's reason. The caller closes the descriptor.
Result<OpenFile> open_file(const std::string& path);

}  // namespace et::runtime
