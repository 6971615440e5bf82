#include "kernels/portable/op_masked.h"

#include <cstring>

#include "kernels/portable/dispatch.h"
#include "kernels/portable/loop_nest.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {
namespace {

Error check_mask(const char* op, const Tensor& mask) {
  ET_CHECK_OR_RETURN(mask.scalar_type() == ScalarType::Bool, InvalidType, "%s: mask is %s, takes torch.bool", op,
                     to_string(mask.scalar_type()));
  return Error::Ok;
}

// Calls visit(self element, mask element, out element) in row-major order of `sizes`.
template <typename Visit>
void for_each_masked(const KernelContext& context, IntArrayRef sizes, const Tensor& self, const Tensor& mask,
                     const Tensor& out, Visit visit) {
  LoopNest nest(sizes);
  nest.add_broadcast(self);
  nest.add_broadcast(mask);
  nest.add_broadcast(out);
  nest.for_each_run([&](char* const* pointers, int64_t n) {
    constexpr int64_t kLook = 1024;  // elements between two looks at whether the caller asked to stop
    for (int64_t i = 0; i < n && (i % kLook != 0 || !context.cancelled()); ++i) {
      visit(pointers[0] + i * nest.run_stride(0), pointers[1][i * nest.run_stride(1)] != 0,
            pointers[2] + i * nest.run_stride(2));
    }
  });
}

}  // namespace

Error masked_scatter_out(KernelContext& context, const Tensor& self, const Tensor& mask, const Tensor& source,
                         Tensor& out) {
  const char* op = "aten::masked_scatter";
  ET_RETURN_IF_ERROR(check_mask(op, mask));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "source", source, self));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  Sizes sizes;
  ET_RETURN_IF_ERROR(broadcast_sizes(op, self.sizes(), mask.sizes(), &sizes));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  ET_RETURN_IF_ERROR(check_row_major(op, {&source}));
  int64_t wanted = 0;
  for_each_masked(context, sizes, self, mask, out, [&](const char*, bool is_set, char*) { wanted += is_set ? 1 : 0; });
  ET_CHECK_OR_RETURN(wanted <= source.numel(), InvalidArgument,
                     "%s: mask selects %" PRId64 " elements, source has %" PRId64, op, wanted, source.numel());
  const size_t size = self.element_size();
  const char* next = static_cast<const char*>(source.const_data_ptr());
  for_each_masked(context, sizes, self, mask, out, [&](const char* from, bool is_set, char* to) {
    std::memcpy(to, is_set ? next : from, size);
    next += is_set ? size : 0;
  });
  return Error::Ok;
}

Error masked_select_out(KernelContext& context, const Tensor& self, const Tensor& mask, Tensor& out) {
  const char* op = "aten::masked_select";
  ET_RETURN_IF_ERROR(check_mask(op, mask));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  Sizes sizes;
  ET_RETURN_IF_ERROR(broadcast_sizes(op, self.sizes(), mask.sizes(), &sizes));
  int64_t selected = 0;
  // The output has no size yet; the mask stands in for it, as it is only counted.
  for_each_masked(context, sizes, self, mask, mask,
                  [&](const char*, bool is_set, char*) { selected += is_set ? 1 : 0; });
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {selected}));
  const size_t size = self.element_size();
  char* next = static_cast<char*>(out.mutable_data_ptr());
  for_each_masked(context, sizes, self, mask, mask, [&](const char* from, bool is_set, char*) {
    if (is_set) {
      std::memcpy(next, from, size);
      next += size;
    }
  });
  return Error::Ok;
}

}  // namespace et::kernels::portable
