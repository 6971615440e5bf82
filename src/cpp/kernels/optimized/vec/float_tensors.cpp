#include "kernels/optimized/vec/float_tensors.h"

#include "kernels/optimized/vec/float_runs.h"
#include "threads/parallel.h"

namespace et::kernels::optimized {

Result<const float*> floats_of(KernelContext& context, const Tensor& tensor) {
  if (tensor.scalar_type() == ScalarType::Float) {
    return static_cast<const float*>(tensor.const_data_ptr());
  }
  ET_TRY(float* const floats, floats_for(context, tensor));
  const auto* const from = static_cast<const char*>(tensor.const_data_ptr());
  const size_t size = tensor.element_size();
  threads::parallel_for(context, static_cast<size_t>(tensor.numel()), threads::grain_for(1),
                        [&](size_t begin, size_t end) {
                          floats_from(tensor.scalar_type(), from + begin * size, 1, end - begin, floats + begin);
                        });
  return static_cast<const float*>(floats);
}

Result<float*> floats_for(KernelContext& context, const Tensor& out) {
  if (out.scalar_type() == ScalarType::Float) {
    return static_cast<float*>(out.mutable_data_ptr());
  }
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(out.numel()) * sizeof(float)));
  return static_cast<float*>(memory);
}

void write_floats(KernelContext& context, const Tensor& out, const float* values) {
  if (out.scalar_type() == ScalarType::Float) {
    return;
  }
  auto* const to = static_cast<char*>(out.mutable_data_ptr());
  const size_t size = out.element_size();
  threads::parallel_for(
      context, static_cast<size_t>(out.numel()), threads::grain_for(1),
      [&](size_t begin, size_t end) { floats_to(out.scalar_type(), values + begin, end - begin, to + begin * size); });
}

}  // namespace et::kernels::optimized
