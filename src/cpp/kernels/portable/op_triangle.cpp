// Triangles of matrices: tril, triu, their indices, and the trace.
#include "kernels/portable/op_triangle.h"

#include <algorithm>
#include <cstring>

#include "kernels/portable/convert.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::portable {
namespace {

// Keeps elements with column - row <= diagonal (lower) or >= diagonal (upper); the others become 0.
Error triangle(KernelContext& context, const char* op, const Tensor& self, int64_t diagonal, bool lower, Tensor& out) {
  ET_RETURN_IF_ERROR(check_rank(op, "self", self, 2, kMaxRank));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  ET_RETURN_IF_ERROR(check_row_major(op, {&self, &out}));
  const int64_t rows = self.size(-2);
  const int64_t columns = self.size(-1);
  diagonal = std::min(std::max(diagonal, -rows), columns);  // beyond them nothing changes
  const int64_t size = static_cast<int64_t>(self.element_size());
  const char* from = static_cast<const char*>(self.const_data_ptr());
  char* to = static_cast<char*>(out.mutable_data_ptr());
  const int64_t all_rows = columns > 0 ? self.numel() / columns : 0;
  for (int64_t r = 0; r < all_rows && !context.cancelled(); ++r) {
    int64_t edge = r % rows + diagonal + (lower ? 1 : 0);  // first column of the part on the right
    edge = edge < 0 ? 0 : edge > columns ? columns : edge;
    const int64_t start = lower ? 0 : edge;
    const int64_t end = lower ? edge : columns;
    char* row = to + r * columns * size;
    std::memset(row, 0, static_cast<size_t>(start * size));
    std::memmove(row + start * size, from + (r * columns + start) * size, static_cast<size_t>((end - start) * size));
    std::memset(row + end * size, 0, static_cast<size_t>((columns - end) * size));
  }
  return Error::Ok;
}

Error indices(KernelContext& context, const char* op, int64_t rows, int64_t columns, int64_t offset, bool lower,
              Tensor& out) {
  ET_CHECK_OR_RETURN(rows >= 0 && columns >= 0, InvalidArgument, "%s: %" PRId64 " rows, %" PRId64 " columns", op, rows,
                     columns);
  // Row r has the columns [from(r), to(r)); rows outside [first, last) have none, however many they are.
  offset = std::min(std::max(offset, -rows), columns);
  const int64_t first = lower && columns > 0 ? std::max<int64_t>(0, -offset) : 0;
  const int64_t last = columns == 0 ? 0 : lower ? rows : std::min(rows, columns - offset);
  const auto from = [&](int64_t r) { return lower ? 0 : std::max<int64_t>(0, r + offset); };
  const auto to = [&](int64_t r) { return lower ? std::min(columns, r + offset + 1) : columns; };
  int64_t count = 0;
  for (int64_t r = first; r < last; ++r) {
    count += to(r) - from(r);
    ET_CHECK_OR_RETURN(count <= INT32_MAX, OutOfResources, "%s: more than 2^31 positions", op);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {2, count}));
  ET_RETURN_IF_ERROR(check_row_major(op, {&out}));
  int64_t i = 0;
  for (int64_t r = first; r < last; ++r) {
    for (int64_t c = from(r); c < to(r); ++c) {
      store_one<int64_t>(out.scalar_type(), r, out.mutable_data_ptr(), i);
      store_one<int64_t>(out.scalar_type(), c, out.mutable_data_ptr(), count + i);
      ++i;
    }
  }
  return Error::Ok;
}

}  // namespace

Error tril_out(KernelContext& context, const Tensor& self, int64_t diagonal, Tensor& out) {
  return triangle(context, "aten::tril", self, diagonal, true, out);
}

Error triu_out(KernelContext& context, const Tensor& self, int64_t diagonal, Tensor& out) {
  return triangle(context, "aten::triu", self, diagonal, false, out);
}

Error tril_indices_out(KernelContext& context, int64_t row, int64_t col, int64_t offset, Tensor& out) {
  return indices(context, "aten::tril_indices", row, col, offset, true, out);
}

Error triu_indices_out(KernelContext& context, int64_t row, int64_t col, int64_t offset, Tensor& out) {
  return indices(context, "aten::triu_indices", row, col, offset, false, out);
}

Error trace_out(KernelContext& context, const Tensor& self, Tensor& out) {
  ET_RETURN_IF_ERROR(check_rank("aten::trace", "self", self, 2, 2));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {}));
  const int64_t n = self.size(0) < self.size(1) ? self.size(0) : self.size(1);
  const int64_t step = self.stride(0) + self.stride(1);
  return dispatch_compute(out.scalar_type(), [&](auto zero) {
    using Total = std::conditional_t<std::is_integral_v<decltype(zero)>, int64_t, double>;
    Total total = 0;
    for (int64_t i = 0; i < n; ++i) {
      total += load_one<Total>(self.scalar_type(), self.const_data_ptr(), i * step);
    }
    store_one(out.scalar_type(), total, out.mutable_data_ptr());
    return Error::Ok;
  });
}

}  // namespace et::kernels::portable
