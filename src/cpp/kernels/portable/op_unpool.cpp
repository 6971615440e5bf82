// The inverse of maximum pooling: each value goes to the position that its index names, 0 goes elsewhere.
#include "kernels/portable/op_unpool.h"

#include <algorithm>

#include "kernels/portable/convert.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {
namespace {

// self and indices [planes…, spatial…], planes being one or two dimensions; out [planes…, output_size…].
Error max_unpool(KernelContext& context, const char* op, const Tensor& self, const Tensor& indices,
                 IntArrayRef output_size, size_t spatial, Tensor& out) {
  const auto rank = static_cast<int64_t>(spatial);
  ET_RETURN_IF_ERROR(check_rank(op, "self", self, rank + 1, rank + 2));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  ET_CHECK_OR_RETURN(indices.scalar_type() == ScalarType::Long, InvalidType, "%s: indices are %s, must be torch.int64",
                     op, to_string(indices.scalar_type()));
  ET_CHECK_OR_RETURN(equal(self.sizes(), indices.sizes()) && output_size.size() == spatial, InvalidArgument,
                     "%s: self %s, indices %s and output_size %s do not go together", op, ShapeText(self.sizes()).text,
                     ShapeText(indices.sizes()).text, ShapeText(output_size).text);
  const size_t lead = static_cast<size_t>(self.dim()) - spatial;
  Sizes sizes(IntArrayRef(self.sizes()).subspan(0, lead));
  for (const int64_t size : output_size) {
    ET_CHECK_OR_RETURN(size >= 0, InvalidArgument, "%s: output_size %s is negative", op, ShapeText(output_size).text);
    sizes.push_back(size);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  ET_RETURN_IF_ERROR(check_row_major(op, {&self, &indices, &out}));
  const int64_t positions = product(output_size, 0, spatial);
  const int64_t values = product(self.sizes(), lead, lead + spatial);
  const int64_t planes = product(self.sizes(), 0, lead);
  const auto* const places = indices.const_data_ptr<int64_t>();
  return dispatch_by_size(self.element_size(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const from = static_cast<const T*>(self.const_data_ptr());
    T* const to = static_cast<T*>(out.mutable_data_ptr());
    std::fill_n(to, planes * positions, T{});
    for (int64_t plane = 0; values > 0 && plane < planes; ++plane) {
      for (int64_t i = plane * values; i < (plane + 1) * values; ++i) {
        const int64_t place = places[i];
        ET_CHECK_OR_RETURN(place >= 0 && place < positions, InvalidArgument,
                           "%s: index %" PRId64 " is outside of a plane of %" PRId64 " elements", op, place, positions);
        to[plane * positions + place] = from[i];
      }
    }
    return Error::Ok;
  });
}

}  // namespace

Error max_unpool2d_out(KernelContext& context, const Tensor& self, const Tensor& indices, IntArrayRef output_size,
                       Tensor& out) {
  return max_unpool(context, "aten::max_unpool2d", self, indices, output_size, 2, out);
}

Error max_unpool3d_out(KernelContext& context, const Tensor& self, const Tensor& indices, IntArrayRef output_size,
                       IntArrayRef, IntArrayRef, Tensor& out) {
  return max_unpool(context, "aten::max_unpool3d", self, indices, output_size, 3, out);
}

}  // namespace et::kernels::portable
