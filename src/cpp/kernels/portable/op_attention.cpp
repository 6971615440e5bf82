// aten::scaled_dot_product_attention of floats.
#include "kernels/portable/op_attention.h"

#include "kernels/portable/attention.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {

Error scaled_dot_product_attention_out(KernelContext& context, const Tensor& query, const Tensor& key,
                                       const Tensor& value, const OptionalTensor& attn_mask, double dropout_p,
                                       bool is_causal, std::optional<double> scale, bool enable_gqa, Tensor& out) {
  constexpr const char* kOp = "aten::scaled_dot_product_attention";
  ET_CHECK_OR_RETURN(is_floating(query.scalar_type()), InvalidType, "%s: query is %s, must be floating", kOp,
                     to_string(query.scalar_type()));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, query));
  ET_CHECK_OR_RETURN(dropout_p == 0, NotSupported, "%s: dropout_p is %g; only inference (0) is supported", kOp,
                     dropout_p);
  const Attention call{kOp, {query}, {key}, {value}, attn_mask, is_causal, scale, enable_gqa};
  return dispatch_float(query.scalar_type(), [&](auto zero) {
    using C = decltype(zero);
    const PutRow<C> put = [](const void* dtype, const C* row, int64_t n, char* to, int64_t stride) {
      store(*static_cast<const ScalarType*>(dtype), row, n, to, stride);
    };
    const ScalarType dtype = out.scalar_type();
    return attend<C>(context, call, &dtype, put, out);
  });
}

}  // namespace et::kernels::portable
