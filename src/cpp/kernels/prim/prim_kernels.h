/// The kernels of this folder, boxed. Internal: register.cpp makes the table from them.
#pragma once

#include "runtime/kernel.h"

namespace et::kernels::prim {

using Args = Span<runtime::EValue* const>;

// prim_numbers.cpp: args = operands, then the result.
Error add(runtime::KernelContext&, Args args, void*);
Error sub(runtime::KernelContext&, Args args, void*);
Error mul(runtime::KernelContext&, Args args, void*);
Error floordiv(runtime::KernelContext&, Args args, void*);
Error truediv(runtime::KernelContext&, Args args, void*);
Error mod(runtime::KernelContext&, Args args, void*);
Error sym_max(runtime::KernelContext&, Args args, void*);
Error sym_min(runtime::KernelContext&, Args args, void*);
Error eq(runtime::KernelContext&, Args args, void*);
Error gt(runtime::KernelContext&, Args args, void*);
Error ge(runtime::KernelContext&, Args args, void*);
Error lt(runtime::KernelContext&, Args args, void*);
Error le(runtime::KernelContext&, Args args, void*);
Error neg(runtime::KernelContext&, Args args, void*);
Error sym_not(runtime::KernelContext&, Args args, void*);
Error sym_ite(runtime::KernelContext&, Args args, void*);
Error sym_float(runtime::KernelContext&, Args args, void*);
Error sym_int(runtime::KernelContext&, Args args, void*);
Error ceil(runtime::KernelContext&, Args args, void*);
Error round(runtime::KernelContext&, Args args, void*);
Error trunc(runtime::KernelContext&, Args args, void*);
/// args = condition, message: an error with the message unless the condition holds.
Error assert_true(runtime::KernelContext&, Args args, void*);

// prim_tensors.cpp
/// args = tensor, dim, result.
Error sym_size(runtime::KernelContext&, Args args, void*);
/// args = tensor, result.
Error sym_numel(runtime::KernelContext&, Args args, void*);
/// args = tensor of one element, result.
Error local_scalar_dense(runtime::KernelContext&, Args args, void*);
/// args = destination, source, index: destination[index] = source; a dynamic destination becomes index + 1 long.
Error et_copy_index(runtime::KernelContext&, Args args, void*);
/// args = tensor, sizes (one may be -1), result: the result shows the same bytes with other sizes.
Error et_view(runtime::KernelContext&, Args args, void*);

}  // namespace et::kernels::prim
