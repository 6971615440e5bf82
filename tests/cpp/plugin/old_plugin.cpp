// A plug-in that was built for version 0.
#include <cstdint>

extern "C" __attribute__((visibility("default"))) const void* et_plugin_entry(uint32_t host_version, void*,
                                                                              uint32_t* version) {
  *version = 0;
  static const char never_read = 0;
  return host_version == 0 ? &never_read : nullptr;
}
