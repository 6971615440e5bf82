#include "spectrum.h"

namespace application {
namespace {

constexpr size_t kQuarter = kTransformSize / 4;
constexpr double kPi = 3.14159265358979323846;

struct SineTable {
  int16_t values[kQuarter + 1];  // of a quarter of a period, 32767 for 1
};

/// sin(x) for x in [0, π/2] by its series: at compile time, where there is no library.
constexpr double sine(double x) {
  double term = x;
  double sum = x;
  for (int n = 1; n < 10; ++n) {
    term *= -x * x / ((2 * n) * (2 * n + 1));
    sum += term;
  }
  return sum;
}

constexpr SineTable make_table() {
  SineTable table{};
  for (size_t i = 0; i <= kQuarter; ++i) {
    table.values[i] = static_cast<int16_t>(32767 * sine(kPi / 2 * static_cast<double>(i) / kQuarter) + 0.5);
  }
  return table;
}

constexpr SineTable kSine = make_table();

/// sin(2π · step / kTransformSize), step in the first half of the period.
int32_t sine_at(size_t step) { return kSine.values[step <= kQuarter ? step : 2 * kQuarter - step]; }

/// The cosine of the same.
int32_t cosine_at(size_t step) {
  return step <= kQuarter ? kSine.values[kQuarter - step] : -int32_t{kSine.values[step - kQuarter]};
}

/// Of 32-bit factors: one instruction multiplies them on every core but the smallest.
int32_t rounded(int64_t product) { return static_cast<int32_t>((product + (1 << 14)) >> 15); }

/// sin²(π i / count), 32768 for 1; between the table's entries on a line.
int32_t window_at(size_t i, size_t count) {
  const size_t phase = i * (kTransformSize / 2 * 256) / count;
  const int32_t low = sine_at(phase / 256);
  const int32_t high = sine_at(phase / 256 + 1);
  const int32_t s = low + ((high - low) * static_cast<int32_t>(phase % 256) + 128) / 256;
  return rounded(int64_t{s} * s);
}

// Even samples are the real parts, odd ones the imaginary parts of a transform of half the size.
constexpr size_t kHalf = kTransformSize / 2;
int32_t g_real[kHalf];
int32_t g_imaginary[kHalf];

/// Samples under a Hann window, in the order in which the transform takes them.
void load(const int16_t* samples, size_t count) {
  size_t to = 0;
  for (size_t i = 0; i < kTransformSize; i += 2) {
    g_real[to] = i < count ? rounded(int64_t{samples[i]} * window_at(i, count)) : 0;
    g_imaginary[to] = i + 1 < count ? rounded(int64_t{samples[i + 1]} * window_at(i + 1, count)) : 0;
    size_t bit = kHalf / 2;  // the next index with its bits reversed
    for (; (to & bit) != 0; bit >>= 1) {
      to ^= bit;
    }
    to ^= bit;
  }
}

/// Radix 2, in place. A value of 16 bits grows by ten bits at most: no stage has to scale.
void transform() {
  for (size_t half = 1; half < kHalf; half *= 2) {
    const size_t stride = kTransformSize / 2 / half;
    for (size_t k = 0; k < half; ++k) {
      const int32_t c = cosine_at(k * stride);
      const int32_t s = sine_at(k * stride);
      for (size_t a = k; a < kHalf; a += 2 * half) {
        const size_t b = a + half;
        const int32_t real = rounded(int64_t{c} * g_real[b] + int64_t{s} * g_imaginary[b]);
        const int32_t imaginary = rounded(int64_t{c} * g_imaginary[b] - int64_t{s} * g_real[b]);
        g_real[b] = g_real[a] - real;
        g_imaginary[b] = g_imaginary[a] - imaginary;
        g_real[a] += real;
        g_imaginary[a] += imaginary;
      }
    }
  }
}

/// Power of a bin between 1 and kHalf - 1; the sum of all bins fits beside a weight of 8 bits.
uint64_t power(size_t bin) {
  const size_t other = kHalf - bin;
  const int32_t c = cosine_at(bin);
  const int32_t s = sine_at(bin);
  // Twice the transforms of the even and of the odd samples.
  const int32_t odd_real = g_imaginary[bin] + g_imaginary[other];
  const int32_t odd_imaginary = g_real[other] - g_real[bin];
  const int32_t real = g_real[bin] + g_real[other] + rounded(int64_t{c} * odd_real + int64_t{s} * odd_imaginary);
  const int32_t imaginary =
      g_imaginary[bin] - g_imaginary[other] + rounded(int64_t{c} * odd_imaginary - int64_t{s} * odd_real);
  return static_cast<uint64_t>(int64_t{real} * real + int64_t{imaginary} * imaginary) >> 8;
}

/// 4 · log2(value) − 128, rounded.
int8_t log_of(uint64_t value) {
  int32_t exponent = 0;
  uint64_t mantissa = value == 0 ? 1 : value;
  while (mantissa >= uint64_t{1} << 16) {
    mantissa >>= 1;
    ++exponent;
  }
  while (mantissa < uint64_t{1} << 15) {
    mantissa <<= 1;
    --exponent;
  }
  constexpr uint32_t kBounds[] = {35734, 42495, 50535, 60097};  // 2^15 · 2^(1/8, 3/8, 5/8, 7/8)
  int32_t result = 4 * (exponent + 15) - 128;
  for (const uint32_t bound : kBounds) {
    result += mantissa >= bound ? 1 : 0;
  }
  return static_cast<int8_t>(result > 127 ? 127 : result);
}

}  // namespace

void log_bands(const int16_t* samples, size_t count, const uint16_t* edges, size_t num_bands, int8_t* bands) {
  load(samples, count);
  transform();
  uint64_t falling = 0;  // of the band whose middle is edge i
  for (size_t i = 0; i <= num_bands; ++i) {
    uint64_t rising = 0;
    const uint32_t width = edges[i + 1] - edges[i];
    for (uint32_t step = 1; step <= width; ++step) {
      const uint64_t here = power(edges[i] + step);
      const uint32_t weight = step * 256 / width;
      rising += here * weight;
      falling += here * (256 - weight);
    }
    if (i > 0) {
      bands[i - 1] = log_of(falling >> 8);
    }
    falling = rising;
  }
}

}  // namespace application
