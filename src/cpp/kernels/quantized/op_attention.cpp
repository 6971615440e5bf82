// et::quantized_attention: scaled dot product attention of integers. Scores, weights and sums are floats here. Kernels
// that multiply integers round weights to 16 bits (docs/reference/numerics.md).
#include "kernels/quantized/op_attention.h"

#include "kernels/portable/attention.h"
#include "kernels/quantized/affine.h"

namespace et::kernels::quantized {

Error quantized_attention_out(KernelContext& context, const Tensor& query, double query_scale, int64_t query_zero_point,
                              const Tensor& key, double key_scale, int64_t key_zero_point, const Tensor& value,
                              double value_scale, int64_t value_zero_point, const OptionalTensor& attn_mask,
                              bool is_causal, std::optional<double> scale, bool enable_gqa, double output_scale,
                              int64_t output_zero_point, int64_t output_min, int64_t output_max, Tensor& out) {
  constexpr const char* kOp = "et::quantized_attention";
  ET_RETURN_IF_ERROR(check_activation(kOp, "query", query));
  ET_RETURN_IF_ERROR(check_activation(kOp, "out", out, &query));
  ET_CHECK_OR_RETURN(query.element_size() == 1, InvalidType, "%s: query is %s, must have 8 bits", kOp,
                     to_string(query.scalar_type()));
  const ScalarType dtype = query.scalar_type();
  ET_TRY(const Affine of_query, Affine::make(kOp, "query", dtype, query_scale, query_zero_point));
  ET_TRY(const Affine of_key, Affine::make(kOp, "key", dtype, key_scale, key_zero_point));
  ET_TRY(const Affine of_value, Affine::make(kOp, "value", dtype, value_scale, value_zero_point));
  const auto operand = [](const Tensor& tensor, const Affine& affine) {
    return portable::AttentionOperand{tensor, affine.scale, static_cast<float>(affine.zero_point)};
  };
  const portable::Attention call{
      kOp,       operand(query, of_query), operand(key, of_key), operand(value, of_value), attn_mask, is_causal, scale,
      enable_gqa};
  ET_TRY(const Requantizer requantize,
         Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min, output_max}));
  const portable::PutRow<float> to_bytes = [](const void* how, const float* row, int64_t n, char* to, int64_t stride) {
    const auto& result = *static_cast<const Requantizer*>(how);
    for (int64_t i = 0; i < n; ++i) {
      to[i * stride] = static_cast<char>(result(row[i] / result.scale()));  // the same bits, signed or not
    }
  };
  return portable::attend<float>(context, call, &requantize, to_bytes, out);
}

}  // namespace et::kernels::quantized
