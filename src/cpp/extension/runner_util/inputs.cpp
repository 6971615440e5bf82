#include "extension/runner_util/inputs.h"

#include "extension/tensor/tensor_ptr_maker.h"
#include "runtime/host/out_of_memory.h"

namespace et::extension {

Result<BufferCleanup> prepare_input_tensors(Method& method) try {
  const MethodMeta meta = method.method_meta();
  std::vector<TensorPtr> tensors;
  for (size_t i = 0; i < meta.num_inputs(); ++i) {
    ET_TRY(const Tag tag, meta.input_tag(i));
    if (tag != Tag::kTensor) {
      continue;  // a number that was fixed at export stands there
    }
    ET_TRY(const TensorInfo info, meta.input_tensor_meta(i));
    TensorPtr values = ones(Sizes(info.sizes()), info.scalar_type());
    if (values != nullptr && info.dim_order().size() > 0) {
      values = make_tensor_ptr(values, Sizes(info.sizes()),
                               std::vector<DimOrderType>(info.dim_order().begin(), info.dim_order().end()));
    }
    ET_CHECK_OR_RETURN(values != nullptr, MemoryAllocationFailed, "no memory for input %zu of %zu bytes", i,
                       info.nbytes());
    ET_RETURN_IF_ERROR(method.set_input(values, i));
    tensors.push_back(std::move(values));
  }
  return BufferCleanup(std::move(tensors));
}
ET_NO_MEMORY("the list of %zu inputs", method.inputs_size())

}  // namespace et::extension
