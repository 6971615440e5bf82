// aten::constant_pad_nd of 8-bit integers.
#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "kernels/cortex_m/move.h"

namespace et::kernels::cortex_m {

bool fits_constant_pad_nd(Arguments args) {
  return is_int8(*args[0]) && fits_move(*args[0], *args[3]) && args[2]->is_int();
}

Error constant_pad_nd_out(KernelContext& context, const Tensor& self, IntArrayRef pad, const Scalar& value,
                          Tensor& out) {
  constexpr const char* kOp = "aten::constant_pad_nd";
  const int64_t rank = self.dim();
  ET_CHECK_OR_RETURN(pad.size() % 2 == 0 && static_cast<int64_t>(pad.size()) <= 2 * rank, InvalidArgument,
                     "%s: padding %s does not fit self %s", kOp, ShapeText(pad).text, ShapeText(self.sizes()).text);
  portable::Sizes sizes(self.sizes()), kept(self.sizes()), cut, low;  // a negative number cuts elements off
  cut.resize(kept.size(), 0);
  low.resize(kept.size(), 0);
  for (size_t k = 0; k < pad.size() / 2; ++k) {
    const int64_t d = rank - 1 - static_cast<int64_t>(k), before = pad[2 * k], after = pad[2 * k + 1];
    int64_t both;
    ET_CHECK_OR_RETURN(!add_overflow(before, after, &both) && !add_overflow(self.size(d), both, &sizes[d]) &&
                           sizes[d] >= 0 && before >= INT32_MIN && after >= INT32_MIN && before <= INT32_MAX,
                       InvalidArgument, "%s: padding %s does not fit self %s", kOp, ShapeText(pad).text,
                       ShapeText(self.sizes()).text);
    cut[d] = before < 0 ? -before : 0;
    low[d] = before > 0 ? before : 0;
    kept[d] = std::max<int64_t>(self.size(d) - cut[d] + std::min<int64_t>(after, 0), 0);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes.data(), sizes.size()}));
  auto* to = out.mutable_data_ptr<int8_t>();
  std::memset(to, static_cast<int>(value.to<int64_t>()), out.nbytes());
  const auto* from = self.const_data_ptr<int8_t>();
  Move move(self);
  for (int64_t d = 0; d < rank; ++d) {
    move.add(kept[d], self.stride(d), out.stride(d));
    from += kept[d] > 0 ? cut[d] * self.stride(d) : 0;
    to += kept[d] > 0 ? low[d] * out.stride(d) : 0;
  }
  move.run(from, to);
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
