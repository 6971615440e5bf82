// Complex numbers as pairs of real ones, and back. They exist only between operators.
#include "kernels/portable/op_complex.h"

#include "kernels/portable/strided_copy.h"

namespace et::kernels::portable {

Error view_as_complex_copy_out(KernelContext& context, const Tensor& self, Tensor& out) {
  constexpr const char* kOp = "aten::view_as_complex";
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 1, kMaxRank));
  const bool is_double = self.scalar_type() == ScalarType::Double;
  ET_CHECK_OR_RETURN(self.size(-1) == 2 && (is_double || self.scalar_type() == ScalarType::Float) &&
                         out.scalar_type() == (is_double ? ScalarType::ComplexDouble : ScalarType::ComplexFloat),
                     InvalidArgument, "%s: cannot view %s of shape %s as %s", kOp, to_string(self.scalar_type()),
                     ShapeText(self.sizes()).text, to_string(out.scalar_type()));
  Sizes sizes(self.sizes());
  sizes.resize(sizes.size() - 1);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  Window to = window_of(out);  // the same elements, seen as pairs
  for (size_t i = 0; i < to.strides.size(); ++i) {
    to.strides[static_cast<int64_t>(i)] *= 2;
  }
  to.sizes.push_back(2);
  to.strides.push_back(1);
  to.dtype = self.scalar_type();
  return copy_window(window_of(self), to);
}

Error conj_physical_out(KernelContext& context, const Tensor& self, Tensor& out) {
  ET_RETURN_IF_ERROR(copy_same_dtype(context, "aten::_conj_physical", self, out));
  if (!is_complex(self.scalar_type())) {
    return Error::Ok;
  }
  const int64_t n = out.numel();  // dense: memory order will do
  if (self.scalar_type() == ScalarType::ComplexFloat) {
    auto* values = static_cast<ComplexFloat*>(out.mutable_data_ptr());
    for (int64_t i = 0; i < n; ++i) {
      values[i].im = -values[i].im;
    }
  } else {
    auto* values = static_cast<ComplexDouble*>(out.mutable_data_ptr());
    for (int64_t i = 0; i < n; ++i) {
      values[i].im = -values[i].im;
    }
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
