// et::quantized_mean of int8: over the last dimensions of a row-major tensor, and over images with channels innermost,
// whose result is a row of channels in every dim order.
#include "kernels/cortex_m/average.h"

namespace et::kernels::cortex_m {
namespace {

/// Whether these are the last `dims.size()` dimensions of a tensor.
bool are_last(IntArrayRef dims, int64_t rank) {
  uint64_t seen = 0;
  for (const int64_t d : dims) {
    if (d < -rank || d >= rank) {
      return false;
    }
    seen |= uint64_t{1} << (d < 0 ? d + rank : d);
  }
  const auto count = static_cast<int64_t>(dims.size());
  return count > 0 && count <= rank && seen == ((uint64_t{1} << count) - 1) << (rank - count);
}

}  // namespace

bool fits_quantized_mean(Arguments args) {
  if (!is_int8(*args[0]) || !is_int8(*args[9])) {
    return false;
  }
  const Tensor self = args[0]->to_tensor();
  const IntArrayRef dims = args[3]->to_int_list();
  const bool is_image = dims.size() == 2 && fits_average(args, args[5]->number_as_double());
  return self.numel() > 0 && self.numel() <= INT32_MAX / 256 && are_last(dims, self.dim()) &&
         have_ratio(*args[1], args[5]->number_as_double()) &&
         (is_image || (portable::is_contiguous(self) && portable::is_contiguous(args[9]->to_tensor())));
}

Error quantized_mean_out(KernelContext& context, const Tensor& self, double self_scale, int64_t self_zero_point,
                         IntArrayRef dim, bool keepdim, double output_scale, int64_t output_zero_point,
                         int64_t output_min, int64_t output_max, Tensor& out) {
  constexpr const char* kOp = "et::quantized_mean";
  ET_TRY(const Average average, Average::make(kOp, self, self_scale, self_zero_point, out,
                                              {output_scale, output_zero_point, output_min, output_max}));
  portable::Sizes sizes(self.sizes());
  int64_t count = 1;
  const auto kept = self.dim() - static_cast<int64_t>(dim.size());
  for (int64_t d = kept; d < self.dim(); ++d) {
    count *= self.size(d);
    sizes[d] = 1;
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes.data(), keepdim ? sizes.size() : static_cast<size_t>(kept)}));
  ET_CHECK_OR_RETURN(count > 0 || out.numel() == 0, InvalidArgument, "%s: there is nothing to average", kOp);
  auto* const to = out.mutable_data_ptr<int8_t>();
  if (portable::is_contiguous(self)) {
    average.rows(static_cast<int32_t>(count), static_cast<int32_t>(out.numel()), to);
    return Error::Ok;
  }
  for (int32_t n = 0; n < self.size(0); ++n) {
    average.pixel(n, {0, self.size(2), 0}, {0, self.size(3), 0}, average.scale_of(static_cast<int32_t>(count)),
                  to + n * self.size(1));
  }
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
