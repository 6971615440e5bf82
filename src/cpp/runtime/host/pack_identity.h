/// What a file of packed weights was made from and by: is it still the same model, the same code, the same processor?
/// Internal to runtime/host, for pack_cache.h.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace et::runtime {

/// What tells a file from others and from what it was before, without reading it: device, number, size, and the times
/// of its last change of content and of status, in nanoseconds. Zeros: not known.
using FileStamp = std::array<uint64_t, 5>;
FileStamp stamp_of(const std::string& path);
/// False where the file could still change without changing its stamp, since clocks of file systems are coarse.
bool is_settled(const FileStamp& stamp);

/// The code that packs: the library or program that this function is in.
struct PackingCode {
  uintptr_t begin = 0, end = 0;  ///< where it lies in this process
  uint64_t identity = 0;         ///< of its contents (the linker's build id); 0: not known, so nothing can be kept
};
const PackingCode& packing_code();

/// Of what kernels choose by: the processor's features and the switch ET_MAX_ISA. 0: not known.
uint64_t processor_identity();

}  // namespace et::runtime
