#include "kernels/portable/op_grid_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/portable/convert.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/grid_positions.h"
#include "kernels/portable/shape.h"

// Sampling at positions that a grid gives, in [-1, 1] over the input. Semantics: torch.nn.functional.grid_sample.

namespace et::kernels::portable {
namespace {

using Interpolation = GridInterpolation;
using Padding = GridPadding;

// Keys' cubic convolution kernel with A = -0.75, at the four neighbours of a position `t` past the second one.
template <typename T>
void cubic_weights(T t, T* w) {
  constexpr T A = T(-0.75);
  const auto near = [](T x) { return ((A + 2) * x - (A + 3)) * x * x + 1; };
  const auto far = [](T x) { return ((A * x - 5 * A) * x + 8 * A) * x - 4 * A; };
  w[0] = far(t + 1);
  w[1] = near(t);
  w[2] = near(1 - t);
  w[3] = far(2 - t);
}

// One image plane [height, width] with the rule for positions outside, for bicubic samples.
template <typename E, typename T>
struct Plane {
  const E* data;
  int64_t height;
  int64_t width;
  Padding padding;
  bool align_corners;

  T at(int64_t y, int64_t x) const {
    return y >= 0 && y < height && x >= 0 && x < width ? portable::convert<T>(data[y * width + x]) : T(0);
  }
  // A neighbour of a bicubic sample: padded one by one.
  T padded(T y, T x) const {
    return at(static_cast<int64_t>(pad_position(y, height, padding, align_corners)),
              static_cast<int64_t>(pad_position(x, width, padding, align_corners)));
  }

  T bicubic(T y, T x) const {
    if (!std::isfinite(x) || !std::isfinite(y)) {
      return std::numeric_limits<T>::quiet_NaN();
    }
    const T y0 = std::floor(y);
    const T x0 = std::floor(x);
    T wy[4];
    T wx[4];
    cubic_weights(y - y0, wy);
    cubic_weights(x - x0, wx);
    T sum = 0;
    for (int i = 0; i < 4; ++i) {
      T row = 0;
      for (int j = 0; j < 4; ++j) {
        row += padded(y0 + static_cast<T>(i - 1), x0 + static_cast<T>(j - 1)) * wx[j];
      }
      sum += row * wy[i];
    }
    return sum;
  }
};

// Which elements of a volume [depth, height, width] make a sample, and how much of each: the same for every channel.
template <typename T>
struct Corners {
  int64_t depth;
  int64_t height;
  int64_t width;
  int count = 0;
  int64_t offsets[8] = {};
  T weights[8] = {};

  // Positions are padded already.
  void trilinear(T z, T y, T x) {
    const T z0 = std::floor(z), y0 = std::floor(y), x0 = std::floor(x);
    const T wz[] = {1 - (z - z0), z - z0}, wy[] = {1 - (y - y0), y - y0}, wx[] = {1 - (x - x0), x - x0};
    count = 0;
    for (int i = 0; i < 8; ++i) {
      const int dz = i >> 2, dy = i >> 1 & 1, dx = i & 1;
      add(static_cast<int64_t>(z0) + dz, static_cast<int64_t>(y0) + dy, static_cast<int64_t>(x0) + dx,
          wz[dz] * wy[dy] * wx[dx]);
    }
  }
  // Of one plane: a volume of depth 1.
  void bilinear(T y, T x) {
    const T y0 = std::floor(y), x0 = std::floor(x);
    const T wy[] = {1 - (y - y0), y - y0}, wx[] = {1 - (x - x0), x - x0};
    count = 0;
    for (int i = 0; i < 4; ++i) {
      const int dy = i >> 1, dx = i & 1;
      add(0, static_cast<int64_t>(y0) + dy, static_cast<int64_t>(x0) + dx, wy[dy] * wx[dx]);
    }
  }
  void nearest(T z, T y, T x) {
    count = 0;
    add(static_cast<int64_t>(std::nearbyint(z)), static_cast<int64_t>(std::nearbyint(y)),
        static_cast<int64_t>(std::nearbyint(x)), 1);
  }
  // A sample that is not a number.
  void nowhere() {
    count = 1;
    offsets[0] = 0;
    weights[0] = std::numeric_limits<T>::quiet_NaN();
  }
  template <typename E>
  T sample(const E* data) const {
    if (count == 4) {
      return portable::convert<T>(data[offsets[0]]) * weights[0] + portable::convert<T>(data[offsets[1]]) * weights[1] +
             portable::convert<T>(data[offsets[2]]) * weights[2] + portable::convert<T>(data[offsets[3]]) * weights[3];
    }
    T sum = 0;
    for (int i = 0; i < count; ++i) {
      sum += portable::convert<T>(data[offsets[i]]) * weights[i];
    }
    return sum;
  }

 private:
  void add(int64_t z, int64_t y, int64_t x, T weight) {
    if (z >= 0 && z < depth && y >= 0 && y < height && x >= 0 && x < width) {
      offsets[count] = (z * height + y) * width + x;
      weights[count++] = weight;
    }
  }
};

}  // namespace

Error check_grid_sampler(KernelContext& context, const char* op, const Tensor& input, const Tensor& grid,
                         int64_t spatial_dims, int64_t interpolation_mode, int64_t last_interpolation,
                         int64_t padding_mode, Tensor& out) {
  ET_RETURN_IF_ERROR(check_rank(op, "input", input, 2 + spatial_dims, 2 + spatial_dims));
  ET_RETURN_IF_ERROR(check_rank(op, "grid", grid, 2 + spatial_dims, 2 + spatial_dims));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "grid", grid, input));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, input));
  ET_CHECK_OR_RETURN(grid.size(0) == input.size(0) && grid.size(-1) == spatial_dims, InvalidArgument,
                     "%s: grid is %s, input is %s; grid must begin with the input's N and end with %" PRId64, op,
                     ShapeText(grid.sizes()).text, ShapeText(input.sizes()).text, spatial_dims);
  Sizes sizes(input.sizes());
  for (int64_t d = 2; d < input.dim(); ++d) {
    ET_CHECK_OR_RETURN(input.size(d) > 0, InvalidArgument, "%s: input is %s, has no pixels", op,
                       ShapeText(input.sizes()).text);
    sizes[d] = grid.size(d - 1);
  }
  ET_CHECK_OR_RETURN(
      interpolation_mode >= 0 && interpolation_mode <= last_interpolation && padding_mode >= 0 && padding_mode <= 2,
      InvalidArgument,
      "%s: interpolation mode %" PRId64 " must be in [0, %" PRId64 "], padding mode %" PRId64 " in [0, 2]", op,
      interpolation_mode, last_interpolation, padding_mode);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  return check_row_major(op, {&input, &grid, &out});
}

Error grid_sampler_3d_out(KernelContext& context, const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                          int64_t padding_mode, bool align_corners, Tensor& out) {
  const char* op = "aten::grid_sampler_3d";
  ET_RETURN_IF_ERROR(check_grid_sampler(context, op, input, grid, 3, interpolation_mode, 1, padding_mode, out));
  const int64_t batch = input.size(0), channels = input.size(1);
  const int64_t depth = input.size(2), height = input.size(3), width = input.size(4);
  const int64_t points = grid.size(1) * grid.size(2) * grid.size(3);
  const bool is_linear = static_cast<Interpolation>(interpolation_mode) == Interpolation::kBilinear;
  const auto padding = static_cast<Padding>(padding_mode);

  return dispatch<FloatTypes>(input.scalar_type(), op, [&](auto tag) {
    using E = typename decltype(tag)::type;
    using T = std::conditional_t<std::is_same_v<E, double>, double, float>;
    const auto place = [&](E position, int64_t size) {
      return pad_position(unnormalize(portable::convert<T>(position), size, align_corners), size, padding,
                          align_corners);
    };
    Corners<T> corners{depth, height, width};
    for (int64_t n = 0; n < batch; ++n) {
      const E* const volumes = input.const_data_ptr<E>() + n * channels * depth * height * width;
      const E* position = grid.const_data_ptr<E>() + n * points * 3;
      E* const to = out.mutable_data_ptr<E>() + n * channels * points;
      for (int64_t i = 0; i < points && !context.cancelled(); ++i, position += 3) {
        const T x = place(position[0], width), y = place(position[1], height), z = place(position[2], depth);
        if (is_linear) {
          corners.trilinear(z, y, x);
        } else {
          corners.nearest(z, y, x);
        }
        for (int64_t c = 0; c < channels; ++c) {
          to[c * points + i] = portable::convert<E>(corners.sample(volumes + c * depth * height * width));
        }
      }
    }
    return Error::Ok;
  });
}

Error grid_sampler_2d_out(KernelContext& context, const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                          int64_t padding_mode, bool align_corners, Tensor& out) {
  const char* op = "aten::grid_sampler_2d";
  ET_RETURN_IF_ERROR(check_grid_sampler(context, op, input, grid, 2, interpolation_mode, 2, padding_mode, out));
  const int64_t batch = input.size(0), channels = input.size(1), height = input.size(2), width = input.size(3);
  const int64_t rows = grid.size(1), columns = grid.size(2);
  const auto interpolation = static_cast<Interpolation>(interpolation_mode);
  const auto padding = static_cast<Padding>(padding_mode);

  return dispatch<FloatTypes>(input.scalar_type(), op, [&](auto tag) {
    using E = typename decltype(tag)::type;
    using T = std::conditional_t<std::is_same_v<E, double>, double, float>;
    const int64_t points = rows * columns;
    const int64_t pixels = height * width;
    constexpr int64_t kChunk = 16;  // positions that are worked out once for all channels
    Corners<T> corners[kChunk];
    std::fill_n(corners, kChunk, Corners<T>{1, height, width});
    for (int64_t n = 0; n < batch; ++n) {
      const E* const position = grid.const_data_ptr<E>() + n * points * 2;
      const E* const planes = input.const_data_ptr<E>() + n * channels * pixels;
      E* const to = out.mutable_data_ptr<E>() + n * channels * points;
      const auto x_of = [&](int64_t i) {
        return unnormalize(portable::convert<T>(position[2 * i]), width, align_corners);
      };
      const auto y_of = [&](int64_t i) {
        return unnormalize(portable::convert<T>(position[2 * i + 1]), height, align_corners);
      };
      const bool is_bicubic = interpolation == Interpolation::kBicubic;
      for (int64_t first = 0; !is_bicubic && first < points && !context.cancelled(); first += kChunk) {
        const int64_t count = std::min(kChunk, points - first);
        for (int64_t i = 0; i < count; ++i) {
          const T x = pad_position_2d(x_of(first + i), width, padding, align_corners);
          const T y = pad_position_2d(y_of(first + i), height, padding, align_corners);
          if (interpolation != Interpolation::kBilinear) {
            corners[i].nearest(0, y, x);
          } else if (padding == Padding::kZeros &&
                     !(std::isfinite(x_of(first + i)) && std::isfinite(y_of(first + i)))) {
            corners[i].nowhere();
          } else {
            corners[i].bilinear(y, x);
          }
        }
        for (int64_t c = 0; c < channels; ++c) {
          for (int64_t i = 0; i < count; ++i) {
            to[c * points + first + i] = portable::convert<E>(corners[i].sample(planes + c * pixels));
          }
        }
      }
      for (int64_t c = 0; is_bicubic && c < channels; ++c) {
        const Plane<E, T> plane{planes + c * pixels, height, width, padding, align_corners};
        for (int64_t i = 0; i < points && !context.cancelled(); ++i) {
          to[c * points + i] = portable::convert<E>(plane.bicubic(y_of(i), x_of(i)));
        }
      }
    }
    return Error::Ok;
  });
}

}  // namespace et::kernels::portable
