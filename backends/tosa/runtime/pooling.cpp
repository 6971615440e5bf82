// AVG_POOL2D and MAX_POOL2D on [N, H, W, C]. Padding counts neither as a value nor as an element.
#include <limits>

#include "backends/tosa/runtime/broadcast.h"
#include "backends/tosa/runtime/rescale.h"
#include "backends/tosa/runtime/window.h"

namespace et::backends::tosa {
namespace {

using payload::DType;

template <typename Attribute>
Error check_pool(const Operation& operation) {
  const auto& attribute = *operation.attribute_as<Attribute>();
  const Value& input = operation.in(0);
  ET_RETURN_IF_ERROR(require_types(input, kInt8 | kInt16 | kFloat));
  const auto* kernel = attribute.kernel();
  ET_CHECK_OR_RETURN(input.rank == 4 && kernel != nullptr && kernel->size() == 2, InvalidProgram,
                     "TOSA: pooling takes rank 4 and a kernel of 2 sizes");
  Window window;
  ET_RETURN_IF_ERROR(make_window(attribute.pad(), attribute.stride(), nullptr, kernel->Get(0), kernel->Get(1), window));
  for (size_t i = 0; i < 4; ++i) {  // so that each window has an element
    ET_CHECK_OR_RETURN(window.pad[i] < window.kernel[i / 2], InvalidProgram,
                       "TOSA: padding %" PRId64 " for a kernel of %" PRId64, window.pad[i], window.kernel[i / 2]);
  }
  return check_window(operation, window, input.dims[3], input.dtype);
}

Error check_average(const Operation& operation) {
  const Value& input = operation.in(0);
  ET_RETURN_IF_ERROR(check_pool<payload::AvgPool2dAttribute>(operation));
  for (size_t i = 1; i < 3; ++i) {
    ET_RETURN_IF_ERROR(require_parameter(operation.in(i), input.dtype, 1));
    ET_CHECK_OR_RETURN(input.dtype == payload::DType_INT8 || scalar<float>(operation.in(i)) == 0.0f, InvalidProgram,
                       "TOSA: a zero point of %s must be 0", dtype_name(input.dtype));
  }
  const DType sum = input.dtype == payload::DType_FP32 ? payload::DType_FP32 : payload::DType_INT32;
  ET_CHECK_OR_RETURN(operation.attribute_as<payload::AvgPool2dAttribute>()->acc_type() == sum, InvalidProgram,
                     "TOSA: AVG_POOL2D of %s accumulates in %s", dtype_name(input.dtype), dtype_name(sum));
  return Error::Ok;
}

/// Rows or columns of the input that a window covers.
struct Extent {
  int64_t first, end;
};
Extent extent(int64_t at, int64_t stride, int64_t pad, int64_t kernel, int64_t size) {
  const int64_t first = at * stride - pad;
  return {first < 0 ? 0 : first, first + kernel > size ? size : first + kernel};
}

/// For each output element: `begin()`, `take(element)` for each element of its window, `end(count)`.
template <typename T, typename Attribute, typename Pool>
Error pool(const Operation& operation, const Memory& memory, Pool pool) {
  const auto& attribute = *operation.attribute_as<Attribute>();
  const int64_t kernel[] = {attribute.kernel()->Get(0), attribute.kernel()->Get(1)};
  const int64_t stride[] = {attribute.stride()->Get(0), attribute.stride()->Get(1)};
  const int64_t pad[] = {attribute.pad()->Get(0), attribute.pad()->Get(2)};
  const Value &input = operation.in(0), &output = operation.out();
  const T* in = memory.data<const T>(input);
  T* out = memory.data<T>(output);
  const int64_t height = input.dims[1], width = input.dims[2], channels = input.dims[3];
  for (int64_t n = 0; n < output.dims[0]; ++n) {
    for (int64_t y = 0; y < output.dims[1]; ++y) {
      const Extent rows = extent(y, stride[0], pad[0], kernel[0], height);
      for (int64_t x = 0; x < output.dims[2]; ++x) {
        const Extent columns = extent(x, stride[1], pad[1], kernel[1], width);
        for (int64_t c = 0; c < channels; ++c) {
          pool.begin();
          for (int64_t i = rows.first; i < rows.end; ++i) {
            for (int64_t j = columns.first; j < columns.end; ++j) {
              pool.take(in[((n * height + i) * width + j) * channels + c]);
            }
          }
          *out++ = pool.end((rows.end - rows.first) * (columns.end - columns.first));
        }
      }
    }
  }
  return Error::Ok;
}

template <typename T>
struct IntegerAverage {
  int32_t in_zero, out_zero;
  uint32_t sum = 0;

  void begin() { sum = 0; }
  void take(T x) { sum += static_cast<uint32_t>(x - in_zero); }
  T end(int64_t count) const {
    const Scale scale = reciprocal_scale(static_cast<uint32_t>(count));
    const int64_t mean = apply_scale(static_cast<int32_t>(sum), scale.multiplier, scale.shift);
    return static_cast<T>(clamped(mean + out_zero, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  }
};

struct FloatAverage {
  float sum = 0.0f;

  void begin() { sum = 0.0f; }
  void take(float x) { sum += x; }
  float end(int64_t count) const { return sum / static_cast<float>(count); }
};

template <typename T>
struct Largest {
  bool ignore_nan;
  T largest{};

  void begin() {
    largest =
        std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  }
  void take(T x) {
    if (x > largest || (x != x && !ignore_nan)) {
      largest = x;
    }
  }
  T end(int64_t) const { return largest; }
};

template <typename T>
Error average(const Operation& operation, const Memory& memory) {
  return pool<T, payload::AvgPool2dAttribute>(
      operation, memory, IntegerAverage<T>{scalar<int32_t>(operation.in(1)), scalar<int32_t>(operation.in(2))});
}

Error run_average(const Operation& operation, const Memory& memory) {
  switch (operation.in(0).dtype) {
    case payload::DType_INT8: return average<int8_t>(operation, memory);
    case payload::DType_INT16: return average<int16_t>(operation, memory);
    default: return pool<float, payload::AvgPool2dAttribute>(operation, memory, FloatAverage{});
  }
}

template <typename T>
Error maximum(const Operation& operation, const Memory& memory) {
  const bool ignore =
      operation.attribute_as<payload::MaxPool2dAttribute>()->nan_mode() == payload::NanPropagationMode_IGNORE;
  return pool<T, payload::MaxPool2dAttribute>(operation, memory, Largest<T>{ignore});
}

Error run_maximum(const Operation& operation, const Memory& memory) {
  switch (operation.in(0).dtype) {
    case payload::DType_INT8: return maximum<int8_t>(operation, memory);
    case payload::DType_INT16: return maximum<int16_t>(operation, memory);
    default: return maximum<float>(operation, memory);
  }
}

constexpr OperatorRow kRows[] = {
    {payload::Op_AVG_POOL2D, 3, false, true, check_average, run_average},
    {payload::Op_MAX_POOL2D, 1, false, true, check_pool<payload::MaxPool2dAttribute>, run_maximum},
};

}  // namespace

Span<const OperatorRow> pooling_operators() { return kKept<kRows>; }

}  // namespace et::backends::tosa
