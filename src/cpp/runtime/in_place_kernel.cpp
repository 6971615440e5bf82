#include "runtime/in_place_kernel.h"

namespace et::runtime {

Error copy_for_change(KernelContext& context, const Tensor& from, const Tensor& to) {
  ET_CHECK_OR_RETURN(from.scalar_type() == to.scalar_type() && equal(dim_order(from), dim_order(to)), NotSupported,
                     "an operator that works in place cannot change its %s argument into a %s result of its own order",
                     to_string(from.scalar_type()), to_string(to.scalar_type()));
  ET_RETURN_IF_ERROR(resize_tensor(context, to, from.sizes()));
  if (from.const_data_ptr() != to.const_data_ptr() && from.nbytes() != 0) {
    std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
  }
  return Error::Ok;
}

}  // namespace et::runtime
