/// Constant weights of linear layers whose elements are integers of 8 or packed 4 bits with scales.
///
/// For: weight_only_linear.cpp, dynamic_linear.cpp. Not for: filters of convolutions (numerics/integer_filter.h).
///
///     ET_TRY(const IntegerWeight weight, read_integer_weight(context, {args[0], args[1], args[2], args[4], args[6]},
///     group_size)); … return run_product(context, kOp, kDynamicProduct, args, weight, state);
#pragma once

#include <cstring>

#include "kernels/optimized/quantized/float_products.h"
#include "kernels/portable/shape.h"
#include "numerics/nibbles.h"

namespace et::kernels::optimized::quantized {

/// A weight [n, k] as it lies in the file.
struct IntegerWeight {
  const void* integers;  // [n, k] of i8, or [n, ceil(k / 2)] of two columns a byte
  const void* scales;    // [n, groups] of f32 or bf16, or one
  size_t n, k;
  size_t group, groups;  // columns of a group, groups of a row
  bool is_packed, has_half_scales, has_one_scale;

  /// Of group i % groups of row i / groups.
  float scale(size_t i) const {
    i = has_one_scale ? 0 : i;
    if (!has_half_scales) {
      return static_cast<const float*>(scales)[i];
    }
    const uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(scales)[i]) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
};

/// The arguments that a layer's weight is read from and has to fit.
struct IntegerLayer {
  const EValue *input, *weight, *scales, *bias, *out;
};

/// `group_size` 0: one group a row. Errors: NotSupported, silently, unless input, bias and out are floats, weight and
/// scales constants and all of them go together.
inline Result<IntegerWeight> read_integer_weight(const runtime::PrepareContext& context, const IntegerLayer& layer,
                                                 int64_t group_size) {
  const EValue& bias = *layer.bias;
  if (!is_float(*layer.input) || !is_float(*layer.out) || !is_row_major(*layer.input) || !is_row_major(*layer.out) ||
      !context.is_constant(*layer.weight) || !is_row_major(*layer.weight) || !layer.scales->is_tensor() ||
      !context.is_constant(*layer.scales) || !is_row_major(*layer.scales) || !is_float_or_none(bias)) {
    return Error::NotSupported;
  }
  const Tensor input = layer.input->to_tensor();
  const Tensor weight = layer.weight->to_tensor();
  const Tensor scales = layer.scales->to_tensor();
  IntegerWeight w{};
  w.is_packed = weight.scalar_type() == ScalarType::Byte;
  w.has_half_scales = scales.scalar_type() == ScalarType::BFloat16;
  if (weight.dim() != 2 || weight.numel() == 0 || !(w.is_packed || weight.scalar_type() == ScalarType::Char) ||
      !(w.has_half_scales || scales.scalar_type() == ScalarType::Float) || input.dim() < 1 || group_size < 0) {
    return Error::NotSupported;
  }
  const int64_t n = weight.size(0);
  const int64_t k = input.size(-1);
  const int64_t group = group_size == 0 ? k : group_size;
  if (k < 1 || k % group != 0 || weight.size(1) != (w.is_packed ? packed_count(k) : k) ||
      (!bias.is_none() && (bias.to_tensor().dim() != 1 || bias.to_tensor().numel() != n))) {
    return Error::NotSupported;
  }
  w.has_one_scale = group_size == 0 && scales.numel() == 1;
  if (!w.has_one_scale && scales.numel() != n * (k / group)) {
    return Error::NotSupported;
  }
  w.integers = weight.const_data_ptr();
  w.scales = scales.const_data_ptr();
  w.n = static_cast<size_t>(n);
  w.k = static_cast<size_t>(k);
  w.group = static_cast<size_t>(group);
  w.groups = static_cast<size_t>(k / group);
  return w;
}

/// Errors: InvalidArgument, naming `op`, for rows, outputs or a bias of another length.
inline Error check_product(const char* op, const IntegerWeight& w, const ProductSize& size, const EValue& bias) {
  ET_CHECK_OR_RETURN(size.columns == w.k, InvalidArgument, "%s: rows of %zu elements meet a weight for %zu", op,
                     size.columns, w.k);
  ET_CHECK_OR_RETURN(size.outputs == w.n, InvalidArgument, "%s: a weight of %zu rows for %zu outputs", op, w.n,
                     size.outputs);
  ET_CHECK_OR_RETURN(bias.is_none() || bias.to_tensor().numel() == static_cast<int64_t>(w.n), InvalidArgument,
                     "%s: the bias must have %zu elements", op, w.n);
  return Error::Ok;
}

/// The kernel of the operator that has this product alone: input [..., k], out [..., n], the last argument.
inline Error run_product(KernelContext& context, const char* op, const FloatProduct& product, Arguments args,
                         const IntegerWeight& w, const void* state) {
  const Tensor input = args[0]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  const ProductSize size{static_cast<size_t>(input.numel()) / w.k, static_cast<size_t>(input.size(-1)), w.n};
  ET_TRY(void* const started, product.start(context, op, args, state, size));
  portable::Sizes sizes(input.sizes());
  sizes[input.dim() - 1] = static_cast<int64_t>(w.n);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  return size.rows == 0
             ? Error::Ok
             : product.multiply(context, started, input.const_data_ptr<float>(), out.mutable_data_ptr<float>());
}

}  // namespace et::kernels::optimized::quantized
