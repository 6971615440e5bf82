// CONV2D, DEPTHWISE_CONV2D, TRANSPOSE_CONV2D and MATMUL. Images are [N, H, W, C]; what lies outside counts nothing.
#include "backends/tosa/runtime/operation.h"
#include "backends/tosa/runtime/window.h"

namespace et::backends::tosa {
namespace {

using payload::DType;

/// What accumulates without undefined overflow, and what a result is stored as.
template <typename T>
struct Sums;
template <>
struct Sums<int8_t> {
  using Sum = uint32_t;
  using Out = int32_t;
};
template <>
struct Sums<int16_t> {
  using Sum = uint64_t;
  using Out = int64_t;
};
template <>
struct Sums<float> {
  using Sum = float;
  using Out = float;
};

/// Elements of an INT4 constant, low nibble first.
struct Nibbles {
  const uint8_t* bytes;
  int8_t operator[](int64_t i) const {
    const auto raw = static_cast<int8_t>(bytes[i / 2] >> (i % 2 * 4) & 15);
    return static_cast<int8_t>((raw ^ 8) - 8);
  }
};

/// An INT48 is held sign-extended in 64 bits.
inline int64_t stored(uint64_t sum, int64_t) { return static_cast<int64_t>(sum << 16) >> 16; }
inline int32_t stored(uint32_t sum, int32_t) { return static_cast<int32_t>(sum); }
inline float stored(float sum, float) { return sum; }

DType accumulator_of(DType input) {
  return input == payload::DType_INT8    ? payload::DType_INT32
         : input == payload::DType_INT16 ? payload::DType_INT48
                                         : input;
}

/// Zero points are constants of the operand's type, not zero for INT8 only.
Error check_zero_point(const Value& value, DType dtype) {
  ET_RETURN_IF_ERROR(require_parameter(value, dtype, 1));
  const bool zero =
      dtype == payload::DType_INT4 ? Nibbles{value.constant_as<uint8_t>()}[0] == 0 : scalar<float>(value) == 0.0f;
  ET_CHECK_OR_RETURN(dtype == payload::DType_INT8 || zero, InvalidProgram, "TOSA: a zero point of %s must be 0",
                     dtype_name(dtype));
  return Error::Ok;
}

/// Types and ranks of input, weight, bias and zero points.
Error check_operands(const Operation& operation, DType acc_type) {
  const Value& input = operation.in(0);
  const Value& weight = operation.in(1);
  ET_CHECK_OR_RETURN(
      input.dtype == payload::DType_INT8 || input.dtype == payload::DType_INT16 || input.dtype == payload::DType_FP32,
      NotSupported, "TOSA: the interpreter has no convolution of %s", dtype_name(input.dtype));
  const bool integers = input.dtype != payload::DType_FP32;
  ET_CHECK_OR_RETURN(integers ? weight.dtype == payload::DType_INT8 ||
                                    (weight.dtype == payload::DType_INT4 && input.dtype == payload::DType_INT8)
                              : weight.dtype == payload::DType_FP32,
                     InvalidProgram, "TOSA: a weight of %s for an input of %s", dtype_name(weight.dtype),
                     dtype_name(input.dtype));
  const DType sum = accumulator_of(input.dtype);
  ET_CHECK_OR_RETURN(acc_type == sum, InvalidProgram, "TOSA: a convolution of %s accumulates in %s",
                     dtype_name(input.dtype), dtype_name(sum));
  ET_CHECK_OR_RETURN(input.rank == 4 && weight.rank == 4, InvalidProgram, "TOSA: images and filters have rank 4");
  const Value& bias = operation.in(2);
  ET_RETURN_IF_ERROR(require_dtype(bias, sum));
  ET_CHECK_OR_RETURN(
      bias.rank == 1 && operation.out().rank == 4 && (bias.numel == 1 || bias.numel == operation.out().dims[3]),
      InvalidProgram, "TOSA: %" PRId32 " biases do not fit the output", bias.numel);
  ET_RETURN_IF_ERROR(check_zero_point(operation.in(3), input.dtype));
  return check_zero_point(operation.in(4), weight.dtype);
}

template <typename Attribute, bool kDepthwise>
Error check_convolution(const Operation& operation) {
  const auto& attribute = *operation.attribute_as<Attribute>();
  ET_RETURN_IF_ERROR(check_operands(operation, attribute.acc_type()));
  const Value& input = operation.in(0);
  const Value& weight = operation.in(1);  // [OC, KH, KW, IC]; depthwise [KH, KW, C, M]
  const size_t height = kDepthwise ? 0 : 1;
  ET_CHECK_OR_RETURN(weight.dims[kDepthwise ? 2 : 3] == input.dims[3], InvalidProgram,
                     "TOSA: the input has %" PRId32 " channels, the filter takes %" PRId32, input.dims[3],
                     weight.dims[kDepthwise ? 2 : 3]);
  ET_CHECK_OR_RETURN(attribute.dilation() != nullptr, InvalidProgram, "TOSA: a convolution has no dilation");
  Window window;
  ET_RETURN_IF_ERROR(make_window(attribute.pad(), attribute.stride(), attribute.dilation(), weight.dims[height],
                                 weight.dims[height + 1], window));
  const int64_t channels = kDepthwise ? weight.dim(2) * weight.dim(3) : weight.dim(0);
  return check_window(operation, window, channels, accumulator_of(input.dtype));
}

Window window_of(const flatbuffers::Vector<int32_t>& pad, const flatbuffers::Vector<int32_t>& stride,
                 const flatbuffers::Vector<int32_t>& dilation) {
  return {{0, 0}, {stride[0], stride[1]}, {dilation[0], dilation[1]}, {pad[0], pad[1], pad[2], pad[3]}};
}

/// The image of a convolution, [n, height, width, channels].
template <typename In>
struct Image {
  Image(const Operation& operation, const Memory& memory)
      : data(memory.data<const In>(operation.in(0))),
        zero(scalar<In>(operation.in(3))),
        height(operation.in(0).dims[1]),
        width(operation.in(0).dims[2]),
        channels(operation.in(0).dims[3]) {}

  /// A pixel's channels; nullptr beside the image.
  const In* pixel(int64_t n, int64_t row, int64_t column) const {
    const bool is_inside = row >= 0 && row < height && column >= 0 && column < width;
    return is_inside ? data + ((n * height + row) * width + column) * channels : nullptr;
  }

  const In* data;
  In zero;
  int64_t height, width, channels;
};

/// Each output of a convolution is its bias and what `add(sum, n, y, x, o)` adds.
template <typename In, typename Add>
void for_each_output(const Operation& operation, const Memory& memory, Add add) {
  using Out = typename Sums<In>::Out;
  const Value& output = operation.out();
  const Out* bias = memory.data<const Out>(operation.in(2));
  const bool is_one_bias = operation.in(2).numel == 1;
  Out* out = memory.data<Out>(output);
  for (int64_t n = 0; n < output.dims[0]; ++n) {
    for (int64_t y = 0; y < output.dims[1]; ++y) {
      for (int64_t x = 0; x < output.dims[2]; ++x) {
        for (int64_t o = 0; o < output.dims[3]; ++o) {
          auto sum = static_cast<typename Sums<In>::Sum>(bias[is_one_bias ? 0 : o]);
          add(sum, n, y, x, o);
          *out++ = stored(sum, Out{});
        }
      }
    }
  }
}

template <typename In, typename Weights>
void convolve(const Operation& operation, const Memory& memory, Weights weights) {
  using Sum = typename Sums<In>::Sum;
  const auto& attribute = *operation.attribute_as<payload::Conv2dAttribute>();
  const Window w = window_of(*attribute.pad(), *attribute.stride(), *attribute.dilation());
  const Image<In> image(operation, memory);
  const Value& weight = operation.in(1);
  const auto weight_zero = scalar<In>(operation.in(4));
  for_each_output<In>(operation, memory, [&](Sum& sum, int64_t n, int64_t y, int64_t x, int64_t o) {
    for (int64_t i = 0; i < weight.dims[1]; ++i) {
      const int64_t row = y * w.stride[0] - w.pad[0] + i * w.dilation[0];
      for (int64_t j = 0; j < weight.dims[2]; ++j) {
        const In* pixel = image.pixel(n, row, x * w.stride[1] - w.pad[2] + j * w.dilation[1]);
        const int64_t first = ((o * weight.dim(1) + i) * weight.dim(2) + j) * image.channels;
        for (int64_t c = 0; pixel != nullptr && c < image.channels; ++c) {
          sum += static_cast<Sum>(pixel[c] - image.zero) * static_cast<Sum>(weights[first + c] - weight_zero);
        }
      }
    }
  });
}

template <typename In, typename Weights>
void convolve_depthwise(const Operation& operation, const Memory& memory, Weights weights) {
  using Sum = typename Sums<In>::Sum;
  const auto& attribute = *operation.attribute_as<payload::DepthwiseConv2dAttribute>();
  const Window w = window_of(*attribute.pad(), *attribute.stride(), *attribute.dilation());
  const Image<In> image(operation, memory);
  const Value& weight = operation.in(1);
  const auto weight_zero = scalar<In>(operation.in(4));
  const int64_t multiplier = weight.dims[3], outputs = image.channels * multiplier;
  for_each_output<In>(operation, memory, [&](Sum& sum, int64_t n, int64_t y, int64_t x, int64_t o) {
    for (int64_t i = 0; i < weight.dims[0]; ++i) {
      const int64_t row = y * w.stride[0] - w.pad[0] + i * w.dilation[0];
      for (int64_t j = 0; j < weight.dims[1]; ++j) {
        if (const In* pixel = image.pixel(n, row, x * w.stride[1] - w.pad[2] + j * w.dilation[1])) {
          const auto factor = weights[(i * weight.dim(1) + j) * outputs + o];
          sum += static_cast<Sum>(pixel[o / multiplier] - image.zero) * static_cast<Sum>(factor - weight_zero);
        }
      }
    }
  });
}

Error check_transposed(const Operation& operation) {
  const auto& attribute = *operation.attribute_as<payload::TransposeConv2dAttribute>();
  ET_RETURN_IF_ERROR(check_operands(operation, attribute.acc_type()));
  const Value &input = operation.in(0), &weight = operation.in(1);
  const auto *pad = attribute.out_pad(), *stride = attribute.stride();
  ET_CHECK_OR_RETURN(
      pad != nullptr && pad->size() == 4 && stride != nullptr && stride->size() == 2 && weight.dims[3] == input.dims[3],
      InvalidProgram, "TOSA: out_pad, stride or channels do not fit");
  int32_t shape[] = {input.dims[0], 0, 0, weight.dims[0]};
  for (uint32_t i = 0; i < 2; ++i) {
    const int64_t kernel = weight.dim(i + 1u), step = stride->Get(i), low = pad->Get(2 * i), high = pad->Get(2 * i + 1);
    ET_CHECK_OR_RETURN(kernel <= kMaxKernel && step >= 1 && step <= kMaxKernel && low > -kernel && low <= kMaxKernel &&
                           high > -kernel && high <= kMaxKernel,
                       InvalidProgram, "TOSA: kernel %" PRId64 ", stride %" PRId64 " or out_pad is out of range",
                       kernel, step);
    const int64_t size = (input.dim(i + 1u) - 1) * step + low + high + kernel;
    ET_CHECK_OR_RETURN(size == operation.out().dim(i + 1u), InvalidProgram,
                       "TOSA: the output has %" PRId32 " rows or columns, the operands give %" PRId64,
                       operation.out().dims[i + 1u], size);
    shape[i + 1] = static_cast<int32_t>(size);
  }
  return require_output(operation, accumulator_of(input.dtype), shape);
}

template <typename In, typename Weights>
void convolve_transposed(const Operation& operation, const Memory& memory, Weights weights) {
  using Sum = typename Sums<In>::Sum;
  const auto& attribute = *operation.attribute_as<payload::TransposeConv2dAttribute>();
  const int64_t stride[] = {attribute.stride()->Get(0), attribute.stride()->Get(1)};
  const int64_t pad[] = {attribute.out_pad()->Get(0), attribute.out_pad()->Get(2)};
  const Image<In> image(operation, memory);
  const Value& weight = operation.in(1);
  const auto weight_zero = scalar<In>(operation.in(4));
  for_each_output<In>(operation, memory, [&](Sum& sum, int64_t n, int64_t y, int64_t x, int64_t o) {
    for (int64_t i = 0; i < weight.dims[1]; ++i) {
      const int64_t row = y - pad[0] - i;  // times the stride
      for (int64_t j = 0; row % stride[0] == 0 && j < weight.dims[2]; ++j) {
        const int64_t column = x - pad[1] - j;
        const bool is_between = column % stride[1] != 0;
        const In* pixel = is_between ? nullptr : image.pixel(n, row / stride[0], column / stride[1]);
        const int64_t first = ((o * weight.dim(1) + i) * weight.dim(2) + j) * image.channels;
        for (int64_t c = 0; pixel != nullptr && c < image.channels; ++c) {
          sum += static_cast<Sum>(pixel[c] - image.zero) * static_cast<Sum>(weights[first + c] - weight_zero);
        }
      }
    }
  });
}

Error check_matmul(const Operation& operation) {
  const Value &a = operation.in(0), &b = operation.in(1);
  ET_CHECK_OR_RETURN(
      a.dtype == payload::DType_INT8 || a.dtype == payload::DType_INT16 || a.dtype == payload::DType_FP32, NotSupported,
      "TOSA: the interpreter has no MATMUL of %s", dtype_name(a.dtype));
  ET_RETURN_IF_ERROR(require_dtype(b, a.dtype));
  ET_CHECK_OR_RETURN(a.rank == 3 && b.rank == 3 && a.dims[0] == b.dims[0] && a.dims[2] == b.dims[1], InvalidProgram,
                     "TOSA: factors that do not fit");
  ET_RETURN_IF_ERROR(check_zero_point(operation.in(2), a.dtype));
  ET_RETURN_IF_ERROR(check_zero_point(operation.in(3), b.dtype));
  return require_output(operation, accumulator_of(a.dtype), {a.dims[0], a.dims[1], b.dims[2]});
}

template <typename T>
Error multiply(const Operation& operation, const Memory& memory) {
  using Sum = typename Sums<T>::Sum;
  using Out = typename Sums<T>::Out;
  const Value &a = operation.in(0), &b = operation.in(1);
  const auto a_zero = scalar<T>(operation.in(2)), b_zero = scalar<T>(operation.in(3));
  Out* out = memory.data<Out>(operation.out());
  for (int64_t n = 0; n < a.dims[0]; ++n) {
    const T* left = memory.data<const T>(a) + n * a.dims[1] * a.dims[2];
    const T* right = memory.data<const T>(b) + n * b.dims[1] * b.dims[2];
    for (int64_t row = 0; row < a.dims[1]; ++row) {
      for (int64_t column = 0; column < b.dims[2]; ++column) {
        Sum sum{};
        for (int64_t k = 0; k < a.dims[2]; ++k) {
          sum += static_cast<Sum>(left[row * a.dims[2] + k] - a_zero) *
                 static_cast<Sum>(right[k * b.dims[2] + column] - b_zero);
        }
        *out++ = stored(sum, Out{});
      }
    }
  }
  return Error::Ok;
}

Error run_matmul(const Operation& operation, const Memory& memory) {
  switch (operation.in(0).dtype) {
    case payload::DType_INT8: return multiply<int8_t>(operation, memory);
    case payload::DType_INT16: return multiply<int16_t>(operation, memory);
    default: return multiply<float>(operation, memory);
  }
}

/// Runs `function`, a struct of a static template, for the types of input and weight.
template <typename Function>
Error run_typed(const Operation& operation, const Memory& memory) {
  const Value& weight = operation.in(1);
  const auto* bytes = memory.data<const int8_t>(weight);
  switch (operation.in(0).dtype) {
    case payload::DType_INT16: Function::template run<int16_t>(operation, memory, bytes); break;
    case payload::DType_FP32: Function::template run<float>(operation, memory, memory.data<const float>(weight)); break;
    default:
      if (weight.dtype == payload::DType_INT4) {
        Function::template run<int8_t>(operation, memory, Nibbles{memory.data<const uint8_t>(weight)});
      } else {
        Function::template run<int8_t>(operation, memory, bytes);
      }
  }
  return Error::Ok;
}

struct Convolution {
  template <typename In, typename Weights>
  static void run(const Operation& operation, const Memory& memory, Weights weights) {
    convolve<In>(operation, memory, weights);
  }
};
struct Depthwise {
  template <typename In, typename Weights>
  static void run(const Operation& operation, const Memory& memory, Weights weights) {
    convolve_depthwise<In>(operation, memory, weights);
  }
};
struct Transposed {
  template <typename In, typename Weights>
  static void run(const Operation& operation, const Memory& memory, Weights weights) {
    convolve_transposed<In>(operation, memory, weights);
  }
};

constexpr OperatorRow kRows[] = {
    {payload::Op_CONV2D, 5, false, true, check_convolution<payload::Conv2dAttribute, false>, run_typed<Convolution>},
    {payload::Op_DEPTHWISE_CONV2D, 5, false, true, check_convolution<payload::DepthwiseConv2dAttribute, true>,
     run_typed<Depthwise>},
    {payload::Op_TRANSPOSE_CONV2D, 5, false, true, check_transposed, run_typed<Transposed>},
    {payload::Op_MATMUL, 4, false, false, check_matmul, run_matmul},
};

}  // namespace

Span<const OperatorRow> convolution_operators() { return kKept<kRows>; }

}  // namespace et::backends::tosa
