#include "backends/xnnpack/kernels/quantized.h"

#include <cmath>
#include <cstring>

namespace et::backends::xnnpack {
namespace {

bool read_int8(const EValue& value, int8_t* out) {
  const int64_t number = value.number_as_int();
  *out = static_cast<int8_t>(number);
  return number >= -128 && number <= 127;
}

bool read_scale(const EValue& value, float* out) {
  *out = static_cast<float>(value.number_as_double());
  return *out > 0 && std::isnormal(*out);
}

}  // namespace

Error ProductParameters::read(const PrepareContext& context, Span<EValue* const> args, size_t output, int64_t count) {
  const EValue& scales = *args[4];
  const EValue& given_bias = *args[5];
  const bool is_known = is_int8_tensor(*args[0]) && is_integer_weight(*args[3]) && is_int8_tensor(*args[output + 4]) &&
                        is_constant_float(context, scales) && context.is_constant(*args[3]) &&
                        read_scale(*args[1], &input_scale) && read_int8(*args[2], &input_zero_point) &&
                        read_scale(*args[output], &output_scale) && read_int8(*args[output + 1], &output_zero_point) &&
                        read_int8(*args[output + 2], &output_min) && read_int8(*args[output + 3], &output_max) &&
                        output_min <= output_max;
  if (!is_known) {
    return Error::NotSupported;
  }
  if (!given_bias.is_none()) {
    const Tensor tensor = given_bias.to_tensor();
    if (!context.is_constant(given_bias) || tensor.scalar_type() != ScalarType::Int || tensor.numel() != count) {
      return Error::NotSupported;
    }
    bias = tensor.const_data_ptr<int32_t>();
  }
  const Tensor tensor = scales.to_tensor();
  const auto* const data = tensor.const_data_ptr<float>();
  if (tensor.numel() != count && tensor.numel() != 1) {
    return Error::NotSupported;
  }
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const float scale = input_scale * data[i] / output_scale;
    if (!(data[i] > 0) || !std::isnormal(data[i]) || !(scale < 256.0f)) {
      return Error::NotSupported;
    }
  }
  channels = count;
  weight_scales = data;
  if (tensor.numel() != count) {
    copy = new (std::nothrow) float[static_cast<size_t>(count)];
    ET_CHECK_OR_RETURN(copy != nullptr, MemoryAllocationFailed, "no memory for %zu bytes of scales",
                       static_cast<size_t>(count) * sizeof(float));
    for (int64_t i = 0; i < count; ++i) {
      copy[i] = data[0];
    }
    weight_scales = copy;
  }
  return Error::Ok;
}

uint64_t ProductParameters::hash() const {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  const auto add = [&hash](const void* data, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211u;
    }
  };
  add(&input_zero_point, sizeof(input_zero_point));
  for (int64_t i = 0; i < channels; ++i) {
    const float scale = input_scale * weight_scales[i] / output_scale;
    add(&scale, sizeof(scale));
  }
  return hash;
}

}  // namespace et::backends::xnnpack
