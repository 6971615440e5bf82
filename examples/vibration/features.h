// A window of vibration as 40 levels: four spectra, averaged band by band.
//
// For: the device and, through ctypes, training.
#pragma once

#include <cstddef>
#include <cstdint>

namespace application {

inline constexpr size_t kFrame = 1024;
inline constexpr size_t kFrames = 4;
inline constexpr size_t kWindow = kFrame * kFrames;  // 0.34 s at 12 kHz
inline constexpr size_t kBands = 40;

}  // namespace application

extern "C" {
/// Features of `count` windows. **Shapes** samples [count, kWindow]; features [count, kBands], steps of 0.75 dB
void window_features(const int16_t* samples, size_t count, int8_t* features);
}
