#include "kernels/portable/lstm_gates.h"

namespace et::kernels::portable {

Error prepare_lstm_gates(KernelContext& context, const Tensor& gates, const Tensor& cell, const Tensor& hidden_out,
                         const Tensor& cell_out, LstmGates* shape) {
  constexpr const char* kOp = "et::lstm_gates";
  ET_CHECK_OR_RETURN(gates.scalar_type() == ScalarType::Float, InvalidType, "%s: gates are %s, must be f32", kOp,
                     to_string(gates.scalar_type()));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "cell", cell, gates));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out0", hidden_out, gates));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out1", cell_out, gates));
  ET_RETURN_IF_ERROR(check_rank(kOp, "cell", cell, 1, kMaxRank));
  ET_RETURN_IF_ERROR(check_rank(kOp, "gates", gates, cell.dim(), cell.dim()));
  ET_RETURN_IF_ERROR(resize_tensor(context, hidden_out, cell.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, cell_out, cell.sizes()));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&gates, &cell, &hidden_out, &cell_out}));
  const int64_t last = cell.dim() - 1;
  for (int64_t i = 0; i <= last; ++i) {
    const int64_t wanted = i == last ? 4 * cell.size(i) : cell.size(i);
    ET_CHECK_OR_RETURN(gates.size(i) == wanted, InvalidArgument,
                       "%s: size %" PRId64 " of dim %" PRId64 " of the gates must be %" PRId64, kOp, gates.size(i), i,
                       wanted);
  }
  shape->hidden = cell.size(last);
  shape->rows = shape->hidden == 0 ? 0 : cell.numel() / shape->hidden;
  return Error::Ok;
}

}  // namespace et::kernels::portable
