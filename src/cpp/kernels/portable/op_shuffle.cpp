// Operators that move elements between channels and space. Each splits dimensions of a window, permutes and copies.
#include "kernels/portable/op_shuffle.h"

#include "base/checked_math.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::portable {
namespace {

Error check_factor(const char* op, const Tensor& self, int64_t factor) {
  ET_RETURN_IF_ERROR(check_rank(op, "self", self, 3, kMaxRank - 2));
  ET_CHECK_OR_RETURN(factor > 0 && factor <= INT32_MAX, InvalidArgument,
                     "%s: factor %" PRId64 " must be positive, and its square fit 64 bits", op, factor);
  return Error::Ok;
}

}  // namespace

// [..., C * r * r, H, W] → [..., C, H * r, W * r]: the output, split, is [..., C, H, r, W, r].
Error pixel_shuffle_out(KernelContext& context, const Tensor& self, int64_t upscale_factor, Tensor& out) {
  constexpr const char* kOp = "aten::pixel_shuffle";
  const int64_t r = upscale_factor;
  ET_RETURN_IF_ERROR(check_factor(kOp, self, r));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  const int64_t c = self.dim() - 3;
  ET_CHECK_OR_RETURN(self.size(c) % (r * r) == 0, InvalidArgument,
                     "%s: %" PRId64 " channels are no multiple of %" PRId64 " squared", kOp, self.size(c), r);
  Sizes sizes(self.sizes());
  sizes[c] /= r * r;
  const bool overflows = mul_overflow(sizes[c + 1], r, &sizes[c + 1]) || mul_overflow(sizes[c + 2], r, &sizes[c + 2]);
  ET_CHECK_OR_RETURN(!overflows, InvalidArgument, "%s: %s by %" PRId64 " does not fit 63 bits", kOp,
                     ShapeText(self.sizes()).text, r);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  Window from = window_of(self);  // [C * r * r, H, W] → [C, r, r, H, W] → [C, H, r, W, r]
  split_dim(from, c, r * r);
  split_dim(from, c + 1, r);
  move_dim(from, c + 1, c + 3);
  move_dim(from, c + 1, c + 4);
  Window to = window_of(out);
  split_dim(to, c + 2, r);
  split_dim(to, c + 1, r);
  return copy_window(from, to);
}

// The inverse.
Error pixel_unshuffle_out(KernelContext& context, const Tensor& self, int64_t downscale_factor, Tensor& out) {
  constexpr const char* kOp = "aten::pixel_unshuffle";
  const int64_t r = downscale_factor;
  ET_RETURN_IF_ERROR(check_factor(kOp, self, r));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  const int64_t c = self.dim() - 3;
  ET_CHECK_OR_RETURN(self.size(c + 1) % r == 0 && self.size(c + 2) % r == 0, InvalidArgument,
                     "%s: height and width of %s are no multiples of %" PRId64, kOp, ShapeText(self.sizes()).text, r);
  Sizes sizes(self.sizes());
  ET_CHECK_OR_RETURN(!mul_overflow(sizes[c], r * r, &sizes[c]), InvalidArgument,
                     "%s: %s by %" PRId64 " does not fit 63 bits", kOp, ShapeText(self.sizes()).text, r);
  sizes[c + 1] /= r;
  sizes[c + 2] /= r;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  Window to = window_of(out);
  split_dim(to, c, r * r);
  split_dim(to, c + 1, r);
  move_dim(to, c + 1, c + 3);
  move_dim(to, c + 1, c + 4);
  Window from = window_of(self);
  split_dim(from, c + 2, r);
  split_dim(from, c + 1, r);
  return copy_window(from, to);
}

Error channel_shuffle_out(KernelContext& context, const Tensor& self, int64_t groups, Tensor& out) {
  Window from;
  ET_RETURN_IF_ERROR(channels_shuffled(self, groups, &from));
  ET_RETURN_IF_ERROR(check_same_dtype("aten::channel_shuffle", "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  Window to = window_of(out);
  split_dim(to, 1, groups);
  return copy_window(from, to);
}

}  // namespace et::kernels::portable
