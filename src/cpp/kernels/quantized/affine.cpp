#include "kernels/quantized/affine.h"

namespace et::kernels::quantized {
namespace {

struct Bounds {
  int64_t low, high;
};

Result<Bounds> bounds_of(const char* op, const char* tensor, ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Char: return Bounds{-128, 127};
    case ScalarType::Byte: return Bounds{0, 255};
    case ScalarType::Short: return Bounds{-32768, 32767};
    default: break;
  }
  ET_LOG_ERROR("%s: %s is %s, must be torch.int8, torch.uint8 or torch.int16", op, tensor, to_string(dtype));
  return Error::InvalidType;
}

}  // namespace

Error check_scale(const char* op, const char* tensor, double scale, float* out) {
  *out = static_cast<float>(scale);
  ET_CHECK_OR_RETURN(is_positive_normal(*out), InvalidArgument,
                     "%s: %s_scale is %g, must be positive and a normal float", op, tensor, scale);
  return Error::Ok;
}

Error check_integer(const char* op, const char* tensor, const char* part, ScalarType dtype, int64_t value,
                    int32_t* out) {
  ET_TRY(const Bounds bounds, bounds_of(op, tensor, dtype));
  ET_CHECK_OR_RETURN(value >= bounds.low && value <= bounds.high, InvalidArgument,
                     "%s: %s_%s is %" PRId64 ", which is no %s", op, tensor, part, value, to_string(dtype));
  *out = static_cast<int32_t>(value);
  return Error::Ok;
}

Result<Affine> Affine::make(const char* op, const char* tensor, ScalarType dtype, double scale, int64_t zero_point) {
  Affine made;
  ET_RETURN_IF_ERROR(check_scale(op, tensor, scale, &made.scale));
  ET_RETURN_IF_ERROR(check_integer(op, tensor, "zero_point", dtype, zero_point, &made.zero_point));
  return made;
}

Error check_activation(const char* op, const char* name, const Tensor& tensor, const Tensor* like) {
  ET_TRY(const Bounds bounds, bounds_of(op, name, tensor.scalar_type()));
  static_cast<void>(bounds);
  ET_CHECK_OR_RETURN(like == nullptr || like->scalar_type() == tensor.scalar_type(), InvalidType,
                     "%s: %s is %s, must be %s", op, name, to_string(tensor.scalar_type()),
                     to_string(like->scalar_type()));
  return Error::Ok;
}

Error check_weight_scales(const char* op, const Tensor& scales, int64_t channels) {
  ET_CHECK_OR_RETURN(scales.scalar_type() == ScalarType::Float, InvalidType,
                     "%s: weight_scales are %s, must be torch.float32", op, to_string(scales.scalar_type()));
  ET_CHECK_OR_RETURN(scales.numel() == 1 || scales.numel() == channels, InvalidArgument,
                     "%s: %" PRId64 " weight_scales for %" PRId64 " output channels", op, scales.numel(), channels);
  return check_row_major(op, {&scales});
}

Error check_bias(const char* op, const OptionalTensor& bias, int64_t channels) {
  if (!bias.has_value()) {
    return Error::Ok;
  }
  ET_CHECK_OR_RETURN(bias->scalar_type() == ScalarType::Int, InvalidType, "%s: bias is %s, must be torch.int32", op,
                     to_string(bias->scalar_type()));
  ET_CHECK_OR_RETURN(bias->dim() == 1 && bias->size(0) == channels, InvalidArgument,
                     "%s: bias %s for %" PRId64 " output channels", op, ShapeText(bias->sizes()).text, channels);
  return Error::Ok;
}

Result<Requantizer> Requantizer::make(const char* op, const Tensor& out, const OutputParameters& result) {
  Requantizer made;
  const ScalarType dtype = out.scalar_type();
  ET_TRY(const Affine affine, Affine::make(op, "output", dtype, result.scale, result.zero_point));
  made.scale_ = affine.scale;
  made.zero_point_ = affine.zero_point;
  ET_RETURN_IF_ERROR(check_integer(op, "output", "min", dtype, result.min, &made.min_));
  ET_RETURN_IF_ERROR(check_integer(op, "output", "max", dtype, result.max, &made.max_));
  ET_CHECK_OR_RETURN(made.min_ <= made.max_, InvalidArgument, "%s: output_min %d is above output_max %d", op, made.min_,
                     made.max_);
  made.has_16_bits_ = out.element_size() == 2;
  made.low_ = as_float(made.min_ - made.zero_point_);
  made.high_ = as_float(made.max_ - made.zero_point_);
  return made;
}

Result<ProductScales> ProductScales::make(const char* op, float input_scale, const Tensor& weight_scales,
                                          float output_scale) {
  ProductScales made;
  made.weight_scales_ = weight_scales.const_data_ptr<float>();
  made.step_ = weight_scales.numel() == 1 ? 0 : 1;
  made.input_scale_ = input_scale;
  made.output_scale_ = output_scale;
  for (int64_t i = 0; i < weight_scales.numel(); ++i) {
    ET_CHECK_OR_RETURN(std::isfinite(made[i]), InvalidArgument,
                       "%s: input scale %g, weight scale %g and output scale %g have no finite ratio", op,
                       static_cast<double>(input_scale), static_cast<double>(made.weight_scales_[i]),
                       static_cast<double>(output_scale));
  }
  return made;
}

}  // namespace et::kernels::quantized
