// et::sparse_linear.out: linear layers whose constant weight is mostly zero, of floats; and the table of the sparse
// kernels.

#include <new>

#include "kernels/optimized/sparse/arguments.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_convolution.h"
#include "ops/signatures/portable/op_sparse.h"

namespace et::kernels::optimized::sparse {
namespace {

constexpr const char* kOp = "et::sparse_linear";

struct SparseLinear {
  SparseMatrix matrix;
  SparseBounds bounds;
};

// sparse_linear(input, values, mask, bias, weight_size, min, max, out)
Error prepare(runtime::PrepareContext& context, Arguments args, void** state) {
  ET_TRY(const SparseWeight weight, read_sparse_weight(kOp, context, args));
  ET_TRY(const SparseBounds bounds, read_bounds(context, *args[5], *args[6]));
  const Tensor input = args[kInput]->to_tensor();
  if (args[kWeightSize]->to_int_list().size() != 2 || input.dim() < 1 || !is_row_major(*args[kInput]) ||
      !is_row_major(*args[args.size() - 1]) || input.size(-1) != static_cast<int64_t>(weight.columns)) {
    return Error::NotSupported;
  }
  const int64_t positions = input.numel() / input.size(-1);  // at most
  const ops::Work dense = ops::work_of_product(static_cast<double>(positions), static_cast<double>(weight.rows),
                                               static_cast<double>(weight.columns));
  ET_RETURN_IF_ERROR(runtime::offer_work(state, dense, ops::kKernelCosts, share_of_dense(weight, positions, false)));
  ET_TRY(void* const memory, context.allocate(sizeof(SparseLinear), alignof(SparseLinear)));
  auto* const made = new (memory) SparseLinear{{}, bounds};
  // Vectors along the weight's rows take the same time at every density.
  const bool is_bounded = input.unsafe_impl()->dynamism() != runtime::TensorShapeDynamism::kDynamicUnbound;
  const bool only_dots = is_bounded && positions <= static_cast<int64_t>(kMostDotRows) && density_of(weight) > 0.25;
  ET_RETURN_IF_ERROR(make_sparse_matrix(context, weight, only_dots, &made->matrix));
  *state = made;
  return Error::Ok;
}

Error run(KernelContext& context, Arguments args, void* state) {
  const auto& linear = *static_cast<const SparseLinear*>(state);
  const SparseWeight& weight = linear.matrix.weight;
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  const auto columns = static_cast<int64_t>(weight.columns);
  const auto rows = static_cast<int64_t>(weight.rows);
  ET_CHECK_OR_RETURN(input.size(-1) == columns, InvalidArgument,
                     "%s: rows of %" PRId64 " elements meet a weight for %" PRId64, kOp, input.size(-1), columns);
  const float* bias = nullptr;
  if (!args[kBias]->is_none()) {
    const Tensor tensor = args[kBias]->to_tensor();
    ET_CHECK_OR_RETURN(tensor.dim() == 1 && tensor.numel() == rows, InvalidArgument,
                       "%s: a bias of %" PRId64 " elements for %" PRId64 " outputs", kOp, tensor.numel(), rows);
    bias = tensor.const_data_ptr<float>();
  }
  int64_t sizes[runtime::kMaxRank];
  const auto rank = static_cast<size_t>(input.dim());
  for (size_t d = 0; d < rank; ++d) {
    sizes[d] = input.sizes()[d];
  }
  sizes[rank - 1] = rows;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes, rank}));
  const auto positions = static_cast<size_t>(input.numel() / columns);
  if (positions == 0) {
    return Error::Ok;
  }
  const auto* const x = input.const_data_ptr<float>();
  auto* const to = out.mutable_data_ptr<float>();
  if (linear.matrix.columns == nullptr) {
    ET_CHECK_OR_RETURN(positions <= kMostDotRows, InvalidArgument, "%s: %zu rows are more than at load", kOp,
                       positions);
    dot_sparse(context, {&linear.matrix, x, positions, bias, linear.bounds.min, linear.bounds.max, to});
    return Error::Ok;
  }
  const matmul::StridedMatrix matrix{x, ScalarType::Float, columns, 1};
  return multiply_sparse(context, {&linear.matrix, 0, weight.rows, positions, strips_of_rows(matrix), bias,
                                   linear.bounds.min, linear.bounds.max, to, 1, weight.rows});
}

// The functions of the convolution are in another file, so its entries are calls of their own.
Error run_convolution(KernelContext& context, Arguments args, void* state) {
  return kSparseConvolution.run(context, args, state);
}
Error prepare_convolution(runtime::PrepareContext& context, Arguments args, void** state) {
  return kSparseConvolution.prepare(context, args, state);
}

constexpr Kernel kKernels[] = {
    make_stateful_kernel<&prepare, &run>(signature::sparse_linear_out, kPriorityOffering),
    make_stateful_kernel<&prepare_convolution, &run_convolution>(signature::sparse_convolution_out, kPriorityOffering),
};

}  // namespace

ET_KERNEL_TABLE(linear, kKernels)

}  // namespace et::kernels::optimized::sparse
