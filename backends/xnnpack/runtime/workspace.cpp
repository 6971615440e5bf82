#include "backends/xnnpack/runtime/workspace.h"

#include <map>
#include <mutex>

namespace et::backends::xnnpack {

std::shared_ptr<xnn_workspace> workspace_of(const void* method) {
  static std::mutex mutex;
  static std::map<const void*, std::weak_ptr<xnn_workspace>> workspaces;  // of methods that are there, or were
  const std::lock_guard<std::mutex> lock(mutex);
  for (auto entry = workspaces.begin(); entry != workspaces.end();) {
    entry = entry->second.expired() ? workspaces.erase(entry) : std::next(entry);
  }
  const auto known = workspaces.find(method);
  if (method != nullptr && known != workspaces.end()) {
    return known->second.lock();
  }
  xnn_workspace_t made = nullptr;
  if (xnn_create_workspace(&made) != xnn_status_success) {
    return nullptr;
  }
  std::shared_ptr<xnn_workspace> workspace(made, &xnn_release_workspace);
  if (method != nullptr) {
    workspaces.emplace(method, workspace);
  }
  return workspace;
}

}  // namespace et::backends::xnnpack
