// From samples to decibels in whole numbers: window, Fourier transform, power in bands, logarithm.
//
// For: front ends of applications, which must give the same integers in training and on the device. Every table is made
// by the compiler, every step is integer arithmetic, so a host and a Cortex-M agree bit for bit.
//
//   int8_t bands[20];
//   application::log_bands(samples, 480, kEdges, 20, bands);   // kEdges: 22 ascending bins of a transform of 1024
#pragma once

#include <cstddef>
#include <cstdint>

namespace application {

inline constexpr size_t kTransformSize = 1024;

/// Writes the logarithm of the power in bands of a spectrum.
///
/// Band b rises from edge b to edge b + 1 and falls to edge b + 2, as triangles. A result is 4 · log2(power) − 128: a
/// step is 0.75 dB. Fewer samples than the transform has are followed by zeros.
///
/// **Shapes** samples [count], count at most kTransformSize; edges [num_bands + 2], ascending, below kTransformSize / 2
void log_bands(const int16_t* samples, size_t count, const uint16_t* edges, size_t num_bands, int8_t* bands);

}  // namespace application
