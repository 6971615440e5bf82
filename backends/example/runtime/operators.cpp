#include "backends/example/runtime/operators.h"

namespace et::backends::example {
namespace {

float clamped(float value) { return value < 0.0f ? 0.0f : value; }

}  // namespace

void conv2d(const ConvShape& s, const float* input, const float* weight, const float* bias, bool relu, float* output) {
  const int64_t group_in = s.in_channels / s.groups;
  const int64_t group_out = s.out_channels / s.groups;
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t o = 0; o < s.out_channels; ++o) {
      const int64_t first_channel = o / group_out * group_in;
      for (int64_t y = 0; y < s.out_height; ++y) {
        for (int64_t x = 0; x < s.out_width; ++x) {
          float sum = bias != nullptr ? bias[o] : 0.0f;
          for (int64_t c = 0; c < group_in; ++c) {
            const float* plane = input + (n * s.in_channels + first_channel + c) * s.in_height * s.in_width;
            const float* filter = weight + (o * group_in + c) * s.kernel_height * s.kernel_width;
            for (int64_t i = 0; i < s.kernel_height; ++i) {
              const int64_t row = y * s.stride[0] - s.padding[0] + i * s.dilation[0];
              if (row < 0 || row >= s.in_height) {
                continue;
              }
              for (int64_t j = 0; j < s.kernel_width; ++j) {
                const int64_t column = x * s.stride[1] - s.padding[1] + j * s.dilation[1];
                if (column >= 0 && column < s.in_width) {
                  sum += plane[row * s.in_width + column] * filter[i * s.kernel_width + j];
                }
              }
            }
          }
          *output++ = relu ? clamped(sum) : sum;
        }
      }
    }
  }
}

void relu(const float* input, int64_t count, float* output) {
  for (int64_t i = 0; i < count; ++i) {
    output[i] = clamped(input[i]);
  }
}

void add(const float* a, const float* b, int64_t count, float* output) {
  for (int64_t i = 0; i < count; ++i) {
    output[i] = a[i] + b[i];
  }
}

}  // namespace et::backends::example
