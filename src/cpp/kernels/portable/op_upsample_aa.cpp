// Resizing with anti-aliasing: a filter as wide as the input pixels that fall on an output pixel.
// Source: the filters of Pillow's resize, which torch's interpolate(antialias=True) follows.
#include "kernels/portable/op_upsample_aa.h"

#include <algorithm>
#include <cmath>

#include "kernels/portable/convert.h"
#include "kernels/portable/resize_taps.h"

namespace et::kernels::portable {
namespace {

// A filter is 0 from kSupport on; `x` is a distance from its middle, in output pixels.
struct Triangle {
  static constexpr const char* kOp = "aten::_upsample_bilinear2d_aa";
  static constexpr double kSupport = 1;
  static double at(double x) { return 1 - x; }
};

// Cubic convolution with a = -0.5. Source: Keys, "Cubic convolution interpolation", 1981.
struct Cubic {
  static constexpr const char* kOp = "aten::_upsample_bicubic2d_aa";
  static constexpr double kSupport = 2;
  static double at(double x) { return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : ((-0.5 * x + 2.5) * x - 4) * x + 2; }
};

struct Lanczos {
  static constexpr const char* kOp = "aten::_upsample_lanczos2d_aa";
  static constexpr double kSupport = 3;
  static double at(double x) { return sinc(x) * sinc(x / kSupport); }

 private:
  static double sinc(double x) {
    constexpr double kPi = 3.14159265358979323846;
    return x == 0 ? 1 : std::sin(x * kPi) / (x * kPi);
  }
};

// The filter along one dimension: output o reads inputs [first[o], first[o] + count[o]).
template <typename C>
struct Filter {
  int64_t* first;  // [out]
  int64_t* count;  // [out]
  C* weights;      // [out, widest]
  int64_t widest;
};

template <typename Shape, typename C>
Error make_filter(KernelContext& context, int64_t in, int64_t out, bool align_corners, std::optional<double> factor,
                  Filter<C>* filter) {
  // A dimension that keeps its length is left alone, whatever the factor says.
  const double scale = in == out ? 1.0 : resize_scale(in, out, factor.value_or(0.0), align_corners);
  const double support = in == out ? 0.5 : Shape::kSupport * std::max(scale, 1.0);
  const double inverse = scale >= 1 ? 1.0 / scale : 1.0;
  // A scale may be any number: no window is wider than the input, and its ends are cut while they are doubles.
  const auto length = static_cast<double>(in);
  const auto place = [&](double at) { return at > 0 ? static_cast<int64_t>(at < length ? at : length) : 0; };
  filter->widest = std::min(place(std::ceil(support)) * 2 + 1, in);
  const auto rows = static_cast<size_t>(out);
  ET_TRY(void* first, context.allocate_temp(rows * sizeof(int64_t)));
  ET_TRY(void* count, context.allocate_temp(rows * sizeof(int64_t)));
  ET_TRY(void* weights, context.allocate_temp(rows * static_cast<size_t>(filter->widest) * sizeof(C)));
  filter->first = static_cast<int64_t*>(first);
  filter->count = static_cast<int64_t*>(count);
  filter->weights = static_cast<C*>(weights);
  for (int64_t o = 0; o < out; ++o) {
    const double center = scale * (static_cast<double>(o) + 0.5);
    const int64_t low = place(center - support + 0.5);
    const int64_t high = place(center + support + 0.5);
    const auto weight = [&](int64_t i) {
      const double distance = std::fabs((static_cast<double>(i) - center + 0.5) * inverse);
      return distance < Shape::kSupport ? Shape::at(distance) : 0.0;
    };
    double total = 0;
    for (int64_t i = low; i < high; ++i) {
      total += weight(i);
    }
    for (int64_t i = low; i < high; ++i) {
      filter->weights[o * filter->widest + i - low] = static_cast<C>(total != 0 ? weight(i) / total : 0.0);
    }
    filter->first[o] = low;
    filter->count[o] = high > low ? high - low : 0;
  }
  return Error::Ok;
}

// One plane of `self` to one of `out`: along the rows into `rows` [height, out_width], then down the columns. A row
// that is not of type C is converted first, into `line` [max(width, out_width)].
template <typename C>
void resize_plane(const KernelContext& context, const Filter<C>& across, const Filter<C>& down, ScalarType dtype,
                  const char* from, int64_t height, int64_t width, C* line, C* rows, char* to, int64_t out_height,
                  int64_t out_width) {
  const auto size = static_cast<int64_t>(element_size(dtype));
  const bool is_direct = dtype == dtype_of<C>;
  for (int64_t h = 0; h < height && !context.cancelled(); ++h) {
    const C* row = reinterpret_cast<const C*>(from + h * width * size);
    if (!is_direct) {
      load(dtype, from + h * width * size, 1, width, line);
      row = line;
    }
    for (int64_t o = 0; o < out_width; ++o) {
      const C* const weights = across.weights + o * across.widest;
      const C* const values = row + across.first[o];
      C sum = 0;
      for (int64_t i = 0; i < across.count[o]; ++i) {
        sum += weights[i] * values[i];
      }
      rows[h * out_width + o] = sum;
    }
  }
  for (int64_t o = 0; o < out_height && !context.cancelled(); ++o, to += out_width * size) {
    C* const sums = is_direct ? reinterpret_cast<C*>(to) : line;
    const C* const weights = down.weights + o * down.widest;
    const C* const first = rows + down.first[o] * out_width;
    for (int64_t w = 0; w < out_width; ++w) {
      sums[w] = down.count[o] > 0 ? weights[0] * first[w] : C(0);
    }
    for (int64_t i = 1; i < down.count[o]; ++i) {
      const C weight = weights[i];
      const C* const values = first + i * out_width;
      for (int64_t w = 0; w < out_width; ++w) {
        sums[w] += weight * values[w];
      }
    }
    if (!is_direct) {
      store(dtype, sums, out_width, to, 1);
    }
  }
}

// A filter in fixed point, and its bits after the point.
struct ByteFilter {
  Filter<int32_t> filter;
  int bits;

  static Result<ByteFilter> make(KernelContext& context, const Filter<double>& exact, int64_t out) {
    ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(out * exact.widest) * sizeof(int32_t)));
    const Filter<int32_t> filter{exact.first, exact.count, static_cast<int32_t*>(memory), exact.widest};
    const auto each = [&](auto f) {
      for (int64_t o = 0; o < out; ++o) {
        for (int64_t i = 0; i < exact.count[o]; ++i) {
          f(o * exact.widest + i);
        }
      }
    };
    double largest = 0;
    each([&](int64_t i) { largest = std::fmax(largest, exact.weights[i]); });
    const int bits = fixed_point_bits(largest);
    each([&](int64_t i) { filter.weights[i] = fixed_point(exact.weights[i], bits); });
    return ByteFilter{filter, bits};
  }
  // Of inputs `step` bytes apart.
  uint8_t at(int64_t o, const uint8_t* from, int64_t step) const {
    const int32_t* const weights = filter.weights + o * filter.widest;
    int32_t sum = fixed_point_half(bits);
    for (int64_t i = 0; i < filter.count[o]; ++i) {
      sum += weights[i] * from[(filter.first[o] + i) * step];
    }
    return byte_of(sum, bits);
  }
};

// A plane of bytes, as ATen resizes it: along the rows into `rows` [height, out_width], which are bytes, then down.
void resize_byte_plane(const KernelContext& context, const ByteFilter& across, const ByteFilter& down,
                       const uint8_t* from, int64_t height, int64_t width, uint8_t* rows, uint8_t* to,
                       int64_t out_height, int64_t out_width) {
  for (int64_t h = 0; h < height && !context.cancelled(); ++h) {
    for (int64_t o = 0; o < out_width; ++o) {
      rows[h * out_width + o] = across.at(o, from + h * width, 1);
    }
  }
  for (int64_t o = 0; o < out_height && !context.cancelled(); ++o) {
    for (int64_t w = 0; w < out_width; ++w) {
      to[o * out_width + w] = down.at(o, rows + w, out_width);
    }
  }
}

template <typename Shape>
Error resize(KernelContext& context, const Tensor& self, IntArrayRef output_size, bool align_corners,
             std::optional<double> scales_h, std::optional<double> scales_w, Tensor& out) {
  constexpr const char* kOp = Shape::kOp;
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 4, 4));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  ET_CHECK_OR_RETURN(is_floating(self.scalar_type()) || self.scalar_type() == ScalarType::Byte, InvalidType,
                     "%s: self is %s, must be floating or torch.uint8", kOp, to_string(self.scalar_type()));
  ET_CHECK_OR_RETURN(
      output_size.size() == 2 && output_size[0] > 0 && output_size[1] > 0 && self.size(2) > 0 && self.size(3) > 0,
      InvalidArgument, "%s: cannot resize %s to %s", kOp, ShapeText(self.sizes()).text, ShapeText(output_size).text);
  const int64_t height = self.size(2);
  const int64_t width = self.size(3);
  const int64_t out_height = output_size[0];
  const int64_t out_width = output_size[1];
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {self.size(0), self.size(1), out_height, out_width}));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&self, &out}));
  if (out.numel() == 0) {  // rows may be longer than any memory
    return Error::Ok;
  }
  constexpr int64_t kMost = int64_t{1} << 30;  // no allocation wraps around
  ET_CHECK_OR_RETURN(std::max({height, width, out_height, out_width}) <= kMost, NotSupported,
                     "%s: %s to %s: a size is above 2^30", kOp, ShapeText(self.sizes()).text,
                     ShapeText(output_size).text);
  const ScalarType dtype = self.scalar_type();
  const auto resize_all = [&](auto zero) {
    using C = decltype(zero);
    Filter<C> across;
    Filter<C> down;
    ET_RETURN_IF_ERROR(make_filter<Shape>(context, width, out_width, align_corners, scales_w, &across));
    ET_RETURN_IF_ERROR(make_filter<Shape>(context, height, out_height, align_corners, scales_h, &down));
    const int64_t longest = width > out_width ? width : out_width;
    ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(height * out_width + longest) * sizeof(C)));
    C* const line = static_cast<C*>(memory);
    const auto size = static_cast<int64_t>(self.element_size());
    const char* from = static_cast<const char*>(self.const_data_ptr());
    char* to = static_cast<char*>(out.mutable_data_ptr());
    if constexpr (std::is_same_v<C, double>) {
      if (dtype == ScalarType::Byte) {
        ET_TRY(const ByteFilter along_rows, ByteFilter::make(context, across, out_width));
        ET_TRY(const ByteFilter along_columns, ByteFilter::make(context, down, out_height));
        for (int64_t plane = 0; plane < self.size(0) * self.size(1); ++plane) {
          resize_byte_plane(context, along_rows, along_columns, reinterpret_cast<const uint8_t*>(from), height, width,
                            reinterpret_cast<uint8_t*>(line), reinterpret_cast<uint8_t*>(to), out_height, out_width);
          from += height * width;
          to += out_height * out_width;
        }
        return Error::Ok;
      }
    }
    for (int64_t plane = 0; plane < self.size(0) * self.size(1); ++plane) {
      resize_plane(context, across, down, dtype, from, height, width, line, line + longest, to, out_height, out_width);
      from += height * width * size;
      to += out_height * out_width * size;
    }
    return Error::Ok;
  };
  // Weights of bytes are made as doubles.
  return is_floating(dtype) && dtype != ScalarType::Double ? resize_all(float{}) : resize_all(double{});
}

}  // namespace

#define ET_RESIZE_AA(name, Shape)                                                                           \
  Error name##_out(KernelContext& context, const Tensor& self, IntArrayRef output_size, bool align_corners, \
                   std::optional<double> scales_h, std::optional<double> scales_w, Tensor& out) {           \
    return resize<Shape>(context, self, output_size, align_corners, scales_h, scales_w, out);               \
  }

ET_RESIZE_AA(upsample_bilinear2d_aa, Triangle)
ET_RESIZE_AA(upsample_bicubic2d_aa, Cubic)
ET_RESIZE_AA(upsample_lanczos2d_aa, Lanczos)

}  // namespace et::kernels::portable
