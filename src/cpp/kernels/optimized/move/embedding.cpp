// aten::embedding and aten::index_select along the outermost dimension: whole rows are copied.

#include <cstring>

#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::move {
namespace {

using portable::Sizes;

int64_t index_at(const Tensor& indices, int64_t i) {
  return indices.scalar_type() == ScalarType::Long ? indices.const_data_ptr<int64_t>()[i]
                                                   : indices.const_data_ptr<int32_t>()[i];
}

/// out[i] = table[indices[i]] for rows of table.nbytes() / table.size(0) bytes. All indices are looked at before the
/// first row is written.
Error gather_rows(KernelContext& context, const char* op, const Tensor& table, const Tensor& indices,
                  const Tensor& out) {
  const int64_t rows = table.size(0);
  for (int64_t i = 0; i < indices.numel(); ++i) {
    const int64_t index = index_at(indices, i);
    ET_CHECK_OR_RETURN(index >= 0 && index < rows, InvalidArgument,
                       "%s: index %" PRId64 " (element %" PRId64 " of indices) is out of range for %" PRId64 " rows",
                       op, index, i, rows);
  }
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const size_t row_bytes = table.nbytes() / static_cast<size_t>(rows);
  const auto* const from = static_cast<const char*>(table.const_data_ptr());
  auto* const to = static_cast<char*>(out.mutable_data_ptr());
  threads::parallel_for(context, static_cast<size_t>(indices.numel()), threads::grain_for(row_bytes / sizeof(float)),
                        [&](size_t begin, size_t end) {
                          for (size_t i = begin; i < end; ++i) {
                            const auto index = static_cast<size_t>(index_at(indices, static_cast<int64_t>(i)));
                            std::memcpy(to + i * row_bytes, from + index * row_bytes, row_bytes);
                          }
                        });
  return Error::Ok;
}

Error embedding_out(KernelContext& context, const Tensor& weight, const Tensor& indices, int64_t, bool, bool,
                    Tensor& out) {
  Sizes sizes(indices.sizes());
  sizes.push_back(weight.size(1));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  return gather_rows(context, "aten::embedding", weight, indices, out);
}

Error index_select_out(KernelContext& context, const Tensor& self, int64_t, const Tensor& index, Tensor& out) {
  Sizes sizes(self.sizes());
  sizes[0] = index.numel();
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  return gather_rows(context, "aten::index_select", self, index, out);
}

/// A table and an output of one dtype and indices of 32 or 64 bits, all row-major.
bool fits_rows(const EValue& table, const EValue& indices, const EValue& out) {
  const ScalarType index_type = indices.to_tensor().scalar_type();
  return table.to_tensor().scalar_type() == out.to_tensor().scalar_type() && is_row_major(table) &&
         is_row_major(indices) && is_row_major(out) &&
         (index_type == ScalarType::Long || index_type == ScalarType::Int);
}

bool fits_embedding(Arguments args) {
  return fits_rows(*args[0], *args[1], *args[5]) && args[0]->to_tensor().dim() == 2 &&
         args[1]->to_tensor().dim() < static_cast<int64_t>(runtime::kMaxRank);
}

bool fits_index_select(Arguments args) {
  const int64_t rank = args[0]->to_tensor().dim();
  const int64_t dim = args[1]->number_as_int();
  return rank > 0 && (dim == 0 || dim == -rank) && args[2]->to_tensor().dim() <= 1 &&
         fits_rows(*args[0], *args[2], *args[3]);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&embedding_out, &fits_embedding>("aten::embedding.out"),
    make_fitting_kernel<&index_select_out, &fits_index_select>("aten::index_select.out"),
};

}  // namespace

ET_KERNEL_TABLE(embedding, kKernels)

}  // namespace et::kernels::optimized::move
