/// CRC-32 (ISO 3309, as zip and Ethernet have it): whether bytes in flash are those that were written.
///
/// For: firmware that checks its model, and what it keeps over a reset. Not for: bytes that an attacker may forge.
///
///     if (crc32(model, nbytes) != kModelChecksum) …
///
/// A table of 64 bytes, two steps a byte: some 10 instructions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace et {

/// The checksum of [data, data + nbytes); `before`: that of the bytes that come before these.
inline uint32_t crc32(const void* data, size_t nbytes, uint32_t before = 0) {
  static constexpr uint32_t kSteps[16] = {0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4,
                                          0x4DB26158, 0x5005713C, 0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
                                          0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};
  uint32_t crc = ~before;
  const auto* const bytes = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < nbytes; ++i) {
    crc ^= bytes[i];
    crc = kSteps[crc & 15] ^ (crc >> 4);
    crc = kSteps[crc & 15] ^ (crc >> 4);
  }
  return ~crc;
}

}  // namespace et
