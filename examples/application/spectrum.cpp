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

int32_t rounded(int64_t product) { return static_cast<int32_t>((product + (1 << 14)) >> 15); }

int32_t g_real[kTransformSize];
int32_t g_imaginary[kTransformSize];

size_t reversed(size_t index) {
  size_t result = 0;
  for (size_t bit = 1; bit < kTransformSize; bit <<= 1) {
    result = result << 1 | (index & 1);
    index >>= 1;
  }
  return result;
}

/// Samples under a Hann window, in the order in which the transform takes them.
void load(const int16_t* samples, size_t count) {
  for (size_t i = 0; i < kTransformSize; ++i) {
    const size_t to = reversed(i);
    g_imaginary[to] = 0;
    g_real[to] = 0;
    if (i < count) {
      const int32_t s = sine_at(i * (kTransformSize / 2) / count);  // sin²(π i / count)
      g_real[to] = rounded(int64_t{samples[i]} * rounded(int64_t{s} * s));
    }
  }
}

/// Radix 2, in place. A value of 16 bits grows by ten bits at most: no stage has to scale.
void transform() {
  for (size_t half = 1; half < kTransformSize; half *= 2) {
    const size_t stride = kTransformSize / 2 / half;
    for (size_t k = 0; k < half; ++k) {
      const int64_t c = cosine_at(k * stride);
      const int64_t s = sine_at(k * stride);
      for (size_t a = k; a < kTransformSize; a += 2 * half) {
        const size_t b = a + half;
        const int32_t real = rounded(c * g_real[b] + s * g_imaginary[b]);
        const int32_t imaginary = rounded(c * g_imaginary[b] - s * g_real[b]);
        g_real[b] = g_real[a] - real;
        g_imaginary[b] = g_imaginary[a] - imaginary;
        g_real[a] += real;
        g_imaginary[a] += imaginary;
      }
    }
  }
}

/// Power of a bin; what a sample of ±1 makes is a few hundred, and the sum of all bins fits beside an 8-bit weight.
uint64_t power(size_t bin) {
  const int64_t real = g_real[bin];
  const int64_t imaginary = g_imaginary[bin];
  return static_cast<uint64_t>(real * real + imaginary * imaginary) >> 6;
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
  for (size_t b = 0; b < num_bands; ++b) {
    const size_t first = edges[b];
    const size_t middle = edges[b + 1];
    const size_t last = edges[b + 2];
    uint64_t sum = 0;
    for (size_t bin = first + 1; bin <= middle; ++bin) {
      sum += power(bin) * ((bin - first) * 256 / (middle - first));
    }
    for (size_t bin = middle + 1; bin < last; ++bin) {
      sum += power(bin) * ((last - bin) * 256 / (last - middle));
    }
    bands[b] = log_of(sum >> 8);
  }
}

}  // namespace application
