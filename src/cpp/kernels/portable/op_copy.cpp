// Copies, casts and changes of dim order; and views that only change the shape.
#include "kernels/portable/op_copy.h"

#include <cstring>

#include "base/checked_math.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::portable {
namespace {

// Same elements in row-major order, other shape.
Error reshape_to(KernelContext& context, const char* op, const Tensor& self, IntArrayRef sizes, const Tensor& out) {
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  copy_reshaped(self, out);
  return Error::Ok;
}

Error view(KernelContext& context, const char* op, const Tensor& self, IntArrayRef size, const Tensor& out) {
  ET_CHECK_OR_RETURN(size.size() <= kMaxRank, InvalidArgument, "%s: %zu sizes, a tensor has at most %zu", op,
                     size.size(), kMaxRank);
  Sizes sizes(size);
  int64_t inferred = -1;
  int64_t known = 1;
  bool overflows = false;
  for (int64_t i = 0; i < static_cast<int64_t>(size.size()); ++i) {
    if (sizes[i] == -1) {
      ET_CHECK_OR_RETURN(inferred < 0, InvalidArgument, "%s: only one size may be -1, got %s", op,
                         ShapeText(size).text);
      inferred = i;
    } else {
      overflows = overflows || mul_overflow(known, sizes[i], &known);
    }
  }
  ET_CHECK_OR_RETURN(!overflows, InvalidArgument, "%s: shape %s does not fit %s", op, ShapeText(self.sizes()).text,
                     ShapeText(size).text);
  if (inferred >= 0) {
    ET_CHECK_OR_RETURN(known != 0 && self.numel() % known == 0, InvalidArgument, "%s: shape %s does not fit %s", op,
                       ShapeText(self.sizes()).text, ShapeText(size).text);
    sizes[inferred] = self.numel() / known;
  }
  ET_CHECK_OR_RETURN(sizes.numel() == self.numel(), InvalidArgument, "%s: shape %s does not fit %s", op,
                     ShapeText(self.sizes()).text, ShapeText(size).text);
  return reshape_to(context, op, self, sizes, out);
}

Error squeeze(KernelContext& context, const Tensor& self, IntArrayRef dims, bool all, const Tensor& out) {
  bool dropped[kMaxRank] = {};
  for (const int64_t item : dims) {
    int64_t dim;
    ET_RETURN_IF_ERROR(normalize_dim("aten::squeeze", item, self.dim(), &dim));
    dropped[dim] = true;
  }
  Sizes sizes;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (self.size(d) != 1 || !(all || dropped[d])) {
      sizes.push_back(self.size(d));
    }
  }
  return reshape_to(context, "aten::squeeze", self, sizes, out);
}

}  // namespace

Error alias_copy_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return copy_tensor(context, self, out);
}
Error detach_copy_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return copy_tensor(context, self, out);
}
Error lift_fresh_copy_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return copy_tensor(context, self, out);
}
Error h2d_copy_out(KernelContext& context, const Tensor& self, Tensor& out) { return copy_tensor(context, self, out); }
Error d2h_copy_out(KernelContext& context, const Tensor& self, Tensor& out) { return copy_tensor(context, self, out); }

Error clone_out(KernelContext& context, const Tensor& self, std::optional<int64_t>, Tensor& out) {
  return copy_tensor(context, self, out);
}

Error to_copy_out(KernelContext& context, const Tensor& self, bool, std::optional<int64_t>, Tensor& out) {
  return copy_tensor(context, self, out);
}

Error to_dim_order_copy_out(KernelContext& context, const Tensor& self, bool, std::optional<IntArrayRef>, Tensor& out) {
  return copy_tensor(context, self, out);
}

Error clone_dim_order_out(KernelContext& context, const Tensor& self, bool, std::optional<IntArrayRef>, Tensor& out) {
  return copy_tensor(context, self, out);
}

Error copy_out(KernelContext& context, const Tensor& self, const Tensor& src, bool, Tensor& out) {
  Sizes sizes;
  ET_RETURN_IF_ERROR(broadcast_sizes("aten::copy", self.sizes(), src.sizes(), &sizes));
  ET_CHECK_OR_RETURN(equal(IntArrayRef(sizes), self.sizes()), InvalidArgument,
                     "aten::copy: shape %s does not broadcast to %s", ShapeText(src.sizes()).text,
                     ShapeText(self.sizes()).text);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  return copy_window(window_of(src), window_of(out));
}

Error copy_(KernelContext& context, Tensor& self, const Tensor& src, bool non_blocking) {
  return copy_out(context, self, src, non_blocking, self);
}

Error view_copy_out(KernelContext& context, const Tensor& self, IntArrayRef size, Tensor& out) {
  return view(context, "aten::view", self, size, out);
}

Error view_copy_dtype_out(KernelContext& context, const Tensor& self, ScalarType dtype, Tensor& out) {
  constexpr const char* kOp = "aten::view";
  ET_CHECK_OR_RETURN(out.scalar_type() == dtype, InvalidType, "%s: out is %s, must be %s", kOp,
                     to_string(out.scalar_type()), to_string(dtype));
  const auto from = static_cast<int64_t>(self.element_size());
  const auto to = static_cast<int64_t>(element_size(dtype));
  Sizes sizes(self.sizes());
  if (from == to) {
    ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
    Window window = window_of(self);
    window.dtype = dtype;
    return copy_window(window, window_of(out));
  }
  const int64_t last = self.dim() - 1;
  ET_CHECK_OR_RETURN(last >= 0 && sizes[last] * from % to == 0, InvalidArgument,
                     "%s: the last dimension of %s does not divide into elements of %s", kOp,
                     ShapeText(self.sizes()).text, to_string(dtype));
  sizes[last] = sizes[last] * from / to;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&self, &out}));
  if (self.nbytes() > 0) {
    std::memmove(out.mutable_data_ptr(), self.const_data_ptr(), self.nbytes());
  }
  return Error::Ok;
}

Error unsafe_view_out(KernelContext& context, const Tensor& self, IntArrayRef size, Tensor& out) {
  return view(context, "aten::_unsafe_view", self, size, out);
}

Error resize_out(KernelContext& context, const Tensor& self, IntArrayRef size, std::optional<int64_t>, Tensor& out) {
  constexpr const char* kOp = "aten::resize";
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, size));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&self, &out}));
  const size_t nbytes = self.nbytes() < out.nbytes() ? self.nbytes() : out.nbytes();
  if (nbytes > 0) {
    std::memmove(out.mutable_data_ptr(), self.const_data_ptr(), nbytes);
  }
  if (out.nbytes() > nbytes) {  // eager leaves these as they are, whatever that is
    std::memset(static_cast<char*>(out.mutable_data_ptr()) + nbytes, 0, out.nbytes() - nbytes);
  }
  return Error::Ok;
}

Error squeeze_copy_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return squeeze(context, self, {}, true, out);
}

Error squeeze_copy_dim_out(KernelContext& context, const Tensor& self, int64_t dim, Tensor& out) {
  return squeeze(context, self, {dim}, false, out);
}

Error squeeze_copy_dims_out(KernelContext& context, const Tensor& self, IntArrayRef dim, Tensor& out) {
  return squeeze(context, self, dim, false, out);
}

Error unsqueeze_copy_out(KernelContext& context, const Tensor& self, int64_t dim, Tensor& out) {
  ET_RETURN_IF_ERROR(normalize_dim("aten::unsqueeze", dim, self.dim() + 1, &dim));
  Sizes sizes(self.sizes());
  sizes.insert(static_cast<size_t>(dim), 1);
  return reshape_to(context, "aten::unsqueeze", self, sizes, out);
}

}  // namespace et::kernels::portable
