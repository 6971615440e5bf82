// aten::glu along any dimension, in floats, which tensors of 16-bit floats are converted to.

#include "kernels/optimized/vec/every_target-inl.h"

#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/float_tensors.h"
#include "kernels/optimized/vec/math-inl.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

/// out[i] = values[i] / (1 + e^-gates[i])
void GatedLinear(const float* values, const float* gates, float* out, size_t n) {
  const hn::ScalableTag<float> d;
  over_vectors(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    const auto gate = sigmoid(d, load(d, whole, gates + i, left));
    store(d, whole, hn::Mul(load(d, whole, values + i, left), gate), out + i, left);
  });
}

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pointwise {

HWY_EXPORT(GatedLinear);

namespace {

Error glu_out(KernelContext& context, const Tensor& self, int64_t dim, Tensor& out) {
  constexpr const char* kOp = "aten::glu";
  ET_RETURN_IF_ERROR(portable::normalize_dim(kOp, dim, self.dim(), &dim));
  ET_CHECK_OR_RETURN(self.size(dim) % 2 == 0, InvalidArgument, "%s: size %" PRId64 " of dim %" PRId64 " is odd", kOp,
                     self.size(dim), dim);
  portable::Sizes sizes(self.sizes());
  sizes[dim] = self.size(dim) / 2;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  ET_TRY(const float* const x, floats_of(context, self));
  ET_TRY(float* const y, floats_for(context, out));
  // [outer, values and gates, block]
  const auto block = static_cast<size_t>(sizes[dim] * self.stride(dim));
  const size_t outer = static_cast<size_t>(out.numel()) / block;
  const auto gated = HWY_DYNAMIC_POINTER(GatedLinear);
  constexpr size_t kCost = 4;                        // of an element, next to a copy
  const auto some = [&](size_t begin, size_t end) {  // of all elements of the output
    for (size_t i = begin; i < end;) {
      const size_t row = i / block;
      const size_t n = end < (row + 1) * block ? end - i : (row + 1) * block - i;
      const float* const values = x + row * block + i;
      gated(values, values + block, y + i, n);
      i += n;
    }
  };
  threads::parallel_for(context, outer * block, threads::grain_for(kCost), some);
  write_floats(context, out, y);
  return Error::Ok;
}

/// glu(self, dim, out): floats of up to 32 bits, row-major, of one dtype.
bool fits_glu(Arguments args) {
  return is_up_to_float(*args[0]) && is_up_to_float(*args[2]) && is_row_major(*args[0]) && is_row_major(*args[2]) &&
         args[0]->to_tensor().scalar_type() == args[2]->to_tensor().scalar_type() && args[0]->to_tensor().dim() > 0;
}

constexpr Kernel kKernels[] = {make_fitting_kernel<&glu_out, &fits_glu>("aten::glu.out")};

}  // namespace

ET_KERNEL_TABLE(glu, kKernels)

}  // namespace et::kernels::optimized::pointwise
#endif  // HWY_ONCE
