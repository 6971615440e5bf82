#include "kernels/prim/register.h"

#include "kernels/prim/prim_kernels.h"

namespace et::kernels::prim {
namespace {

// Letters: runtime/unboxing.h. r is the result.
constexpr runtime::Kernel kKernels[] = {
    {"aten::_local_scalar_dense", "Tr", &local_scalar_dense},
    {"aten::sym_numel", "Tr", &sym_numel},
    {"aten::sym_size.int", "Tir", &sym_size},
    {"executorch_prim::add.Scalar", "nnr", &add},
    {"executorch_prim::assert.Scalar", "ns", &assert_true},
    {"executorch_prim::ceil.Scalar", "nr", &ceil},
    {"executorch_prim::eq.Scalar", "nnr", &eq},
    {"executorch_prim::et_copy_index.tensor", "oTi", &et_copy_index},
    {"executorch_prim::et_view.default", "Tlp", &et_view},
    {"executorch_prim::floordiv.Scalar", "nnr", &floordiv},
    {"executorch_prim::floordiv.int", "nnr", &floordiv},
    {"executorch_prim::ge.Scalar", "nnr", &ge},
    {"executorch_prim::gt.Scalar", "nnr", &gt},
    {"executorch_prim::le.Scalar", "nnr", &le},
    {"executorch_prim::lt.Scalar", "nnr", &lt},
    {"executorch_prim::mod.Scalar", "nnr", &mod},
    {"executorch_prim::mod.int", "nnr", &mod},
    {"executorch_prim::mul.Scalar", "nnr", &mul},
    {"executorch_prim::neg.Scalar", "nr", &neg},
    {"executorch_prim::round.Scalar", "nr", &round},
    {"executorch_prim::sub.Scalar", "nnr", &sub},
    {"executorch_prim::sym_float.Scalar", "nr", &sym_float},
    {"executorch_prim::sym_int.Scalar", "nr", &sym_int},
    {"executorch_prim::sym_ite.Scalar", "nnnr", &sym_ite},
    {"executorch_prim::sym_max.Scalar", "nnr", &sym_max},
    {"executorch_prim::sym_min.Scalar", "nnr", &sym_min},
    {"executorch_prim::sym_not.Scalar", "nr", &sym_not},
    {"executorch_prim::truediv.Scalar", "nnr", &truediv},
    {"executorch_prim::trunc.Scalar", "nr", &trunc},
};

}  // namespace

Span<const runtime::Kernel> prim_kernels() { return kKernels; }

Error register_prim_kernels(runtime::KernelRegistry& registry) { return registry.add(prim_kernels(), "prim"); }

}  // namespace et::kernels::prim
