#include <cstring>

#include "base/checked_math.h"
#include "base/visit_dtype.h"
#include "kernels/prim/prim_kernels.h"

namespace et::kernels::prim {
namespace {

using runtime::EValue;
using runtime::IntArrayRef;
using runtime::KernelContext;
using runtime::Tensor;
using runtime::TensorImpl;

/// The only element of a tensor, as the kind of number that holds its dtype; none of a complex one.
template <typename T>
EValue first_element(const Tensor& tensor) {
  const T value = *tensor.const_data_ptr<T>();
  if constexpr (is_complex(dtype_of<T>)) {
    return EValue();
  } else if constexpr (std::is_same_v<T, bool>) {
    return EValue(value);
  } else if constexpr (std::is_integral_v<T>) {
    return EValue(static_cast<int64_t>(value));
  } else {
    return EValue(static_cast<double>(value));
  }
}

}  // namespace

Error sym_size(KernelContext&, Args args, void*) {
  const Tensor tensor = args[0]->to_tensor();
  const int64_t dim = args[1]->number_as_int();
  ET_CHECK_OR_RETURN(dim >= -tensor.dim() && dim < tensor.dim(), InvalidArgument,
                     "sym_size: dimension %" PRId64 " of a tensor of rank %" PRId64, dim, tensor.dim());
  *args[2] = EValue(tensor.size(dim));
  return Error::Ok;
}

Error sym_numel(KernelContext&, Args args, void*) {
  *args[1] = EValue(args[0]->to_tensor().numel());
  return Error::Ok;
}

Error local_scalar_dense(KernelContext&, Args args, void*) {
  const Tensor tensor = args[0]->to_tensor();
  ET_CHECK_OR_RETURN(tensor.numel() == 1, InvalidArgument, "item(): the tensor has %" PRId64 " elements, must have one",
                     tensor.numel());
  ET_CHECK_OR_RETURN(!is_complex(tensor.scalar_type()), NotSupported, "item() of a %s tensor",
                     to_string(tensor.scalar_type()));
  *args[1] = visit_dtype(tensor.scalar_type(), [&](auto zero) { return first_element<decltype(zero)>(tensor); });
  return Error::Ok;
}

Error et_copy_index(KernelContext& context, Args args, void*) {
  const Tensor to = args[0]->to_tensor();
  const Tensor from = args[1]->to_tensor();
  const int64_t index = args[2]->number_as_int();
  ET_CHECK_OR_RETURN(to.dim() == from.dim() + 1 && to.scalar_type() == from.scalar_type() && index >= 0 &&
                         index < INT32_MAX && runtime::is_contiguous_dim_order(dim_order(to)) &&
                         runtime::is_contiguous_dim_order(dim_order(from)),
                     InvalidArgument,
                     "et_copy_index: item %" PRId64 ", %s of rank %" PRId64 " into %s of rank %" PRId64
                     ": must be contiguous, of one dtype and one rank less",
                     index, to_string(from.scalar_type()), from.dim(), to_string(to.scalar_type()), to.dim());
  int64_t sizes[runtime::kMaxRank];
  sizes[0] = to.unsafe_impl()->dynamism() == runtime::TensorShapeDynamism::kStatic ? to.size(0) : index + 1;
  for (int64_t d = 0; d < from.dim(); ++d) {
    sizes[d + 1] = from.size(d);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, to, IntArrayRef(sizes, static_cast<size_t>(to.dim()))));
  ET_CHECK_OR_RETURN(index < to.size(0), InvalidArgument, "et_copy_index: item %" PRId64 " of %" PRId64, index,
                     to.size(0));
  if (from.nbytes() > 0) {
    std::memmove(static_cast<char*>(to.mutable_data_ptr()) + static_cast<size_t>(index) * from.nbytes(),
                 from.const_data_ptr(), from.nbytes());
  }
  return Error::Ok;
}

Error et_view(KernelContext&, Args args, void*) {
  const Tensor self = args[0]->to_tensor();
  const IntArrayRef wanted = args[1]->to_int_list();
  TensorImpl* out = args[2]->to_tensor().unsafe_impl();
  ET_CHECK_OR_RETURN(wanted.size() == out->dim() && out->dtype() == self.scalar_type() && out != self.unsafe_impl() &&
                         runtime::is_contiguous_dim_order(dim_order(self)) &&
                         runtime::is_contiguous_dim_order(out->dim_order()),
                     InvalidArgument,
                     "et_view: %s with %zu sizes for a %s of rank %zu: must be contiguous, of one dtype and that rank",
                     to_string(self.scalar_type()), wanted.size(), to_string(out->dtype()), out->dim());
  int64_t sizes[runtime::kMaxRank];
  int64_t known = 1;
  size_t inferred = wanted.size();
  for (size_t d = 0; d < wanted.size(); ++d) {
    sizes[d] = wanted[d];
    if (wanted[d] == -1 && inferred == wanted.size()) {
      inferred = d;
      continue;
    }
    ET_CHECK_OR_RETURN(wanted[d] >= 0 && !mul_overflow(known, wanted[d], &known), InvalidArgument,
                       "et_view: size %" PRId64 " of dimension %zu", wanted[d], d);
  }
  if (inferred < wanted.size()) {
    ET_CHECK_OR_RETURN(known != 0 && self.numel() % known == 0, InvalidArgument,
                       "et_view: %" PRId64 " elements do not divide by %" PRId64, self.numel(), known);
    sizes[inferred] = self.numel() / known;
    known = self.numel();
  }
  ET_CHECK_OR_RETURN(known == self.numel(), InvalidArgument, "et_view: %" PRId64 " elements as %" PRId64, self.numel(),
                     known);
  const TensorImpl* source = self.unsafe_impl();
  ET_CHECK_OR_RETURN(source->data() != nullptr || source->numel() == 0, InvalidState,
                     "et_view: the tensor has no memory");
  out->set_data(source->data(), source->capacity());
  out->set_read_only(source->read_only());
  return out->resize(IntArrayRef(sizes, wanted.size()));
}

}  // namespace et::kernels::prim
