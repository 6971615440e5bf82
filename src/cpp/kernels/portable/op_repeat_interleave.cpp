#include "kernels/portable/op_repeat_interleave.h"

#include "kernels/portable/convert.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {

Error repeat_interleave_tensor_out(KernelContext& context, const Tensor& repeats, std::optional<int64_t> output_size,
                                   Tensor& out) {
  const char* op = "aten::repeat_interleave";
  ET_RETURN_IF_ERROR(check_rank(op, "repeats", repeats, 1, 1));
  ET_CHECK_OR_RETURN(repeats.scalar_type() == ScalarType::Long || repeats.scalar_type() == ScalarType::Int, InvalidType,
                     "%s: repeats is %s, takes torch.int32 or torch.int64", op, to_string(repeats.scalar_type()));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, repeats));
  int64_t total = 0;
  for (int64_t i = 0; i < repeats.numel(); ++i) {
    const int64_t count = index_at(repeats, i);
    ET_CHECK_OR_RETURN(count >= 0, InvalidArgument, "%s: repeats[%" PRId64 "] is %" PRId64 ", must not be negative", op,
                       i, count);
    ET_CHECK_OR_RETURN(!__builtin_add_overflow(total, count, &total), InvalidArgument,
                       "%s: the sum of repeats overflows", op);
  }
  ET_CHECK_OR_RETURN(!output_size.has_value() || *output_size == total, InvalidArgument,
                     "%s: repeats add up to %" PRId64 ", output_size is %" PRId64, op, total, output_size.value_or(0));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {total}));
  int64_t position = 0;
  for (int64_t i = 0; i < repeats.numel(); ++i) {
    for (int64_t n = index_at(repeats, i); n > 0; --n) {
      store_one<int64_t>(out.scalar_type(), i, out.mutable_data_ptr(), position++);
    }
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
