// aten::bmm and aten::mm of row-major float matrices: rows of the left one are pixels, which are read where they stand,
// and the right one is packed at the call.
#include <algorithm>

#include "base/rounding.h"
#include "base/tensor_text.h"
#include "kernels/optimized/conv/pixel_product.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_matmul.h"
#include "runtime/host/kernel_costs.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::conv {
namespace {

struct Matrices {
  size_t batches, rows, columns, depth;
  const float *left, *right;
  float* out;
};

Matrices matrices_of(const Tensor& left, const Tensor& right) {
  return {left.dim() == 3 ? static_cast<size_t>(left.size(0)) : 1,
          static_cast<size_t>(left.size(-2)),
          static_cast<size_t>(right.size(-1)),
          static_cast<size_t>(left.size(-1)),
          nullptr,
          nullptr,
          nullptr};
}

/// (self, mat2, out). Products of one row or one column are sums of lines (matmul.cpp), those of constants linear
/// layers. Large matrices are packed in panels there, too: whole ones take that much memory, and time on new pages.
Error prepare(runtime::PrepareContext& context, Arguments args, void** state) {
  constexpr size_t kMostPacked = 1 << 20;
  for (const EValue* value : args) {
    if (!is_float(*value) || !is_row_major(*value)) {
      return Error::NotSupported;
    }
  }
  const Tensor left = args[0]->to_tensor(), right = args[1]->to_tensor();
  if (left.dim() != right.dim() || left.dim() < 2 || left.dim() > 3 ||
      (left.dim() == 2 && context.is_constant(*args[1]))) {
    return Error::NotSupported;
  }
  const Matrices m = matrices_of(left, right);
  if (m.rows == 1 || m.columns == 1 || m.depth > kMostPacked ||
      m.columns > kMostPacked / std::max<size_t>(m.depth, 1)) {
    return Error::NotSupported;
  }
  const ops::MatmulForm form{static_cast<double>(m.batches), static_cast<double>(m.rows),
                             static_cast<double>(m.columns), static_cast<double>(m.depth)};
  ET_RETURN_IF_ERROR(runtime::offer_work(state, ops::work_of_matmul(form), ops::kKernelCosts));
  *state = nullptr;
  return Error::Ok;
}

/// Products [begin, end) of the batch; `filter` has room for a matrix. The pool shares one product.
void multiply_batches(KernelContext& context, threads::ThreadPool* pool, const Matrices& m, PixelProduct product,
                      size_t begin, size_t end, float* filter) {
  constexpr size_t kPiece = 1 << 26;  // multiplications, some milliseconds, after which a caller may stop
  const size_t wide = columns_of_a_tile(), piece = std::max<size_t>(kPiece / (m.depth * m.columns), 8 * kTilePixels);
  product.filter = filter;
  for (size_t n = begin; n < end && !context.cancelled(); ++n) {
    const float* const left = m.left + n * m.rows * m.depth;
    float* const out = m.out + n * m.rows * m.columns;
    threads::parallel_for(pool, divide_up(m.columns, wide), threads::grain_for(wide * m.depth),
                          [&](size_t first, size_t last) {
                            pack_matrix(product, m.right + n * m.depth * m.columns, first, last, filter);
                          });
    threads::in_pieces(context, m.rows, piece, [&](size_t first, size_t last) {
      multiply_pixels_on(pool, product, left + first * m.depth, out + first * m.columns, last - first);
    });
  }
}

Error run(KernelContext& context, Arguments args, void*) {
  const Tensor left = args[0]->to_tensor(), right = args[1]->to_tensor(), out = args[2]->to_tensor();
  Matrices m = matrices_of(left, right);
  ET_CHECK_OR_RETURN(left.size(-1) == right.size(-2) && (left.dim() == 2 || left.size(0) == right.size(0)),
                     InvalidArgument, "matrix product: shapes %s and %s do not multiply", ShapeText(left.sizes()).text,
                     ShapeText(right.sizes()).text);
  const int64_t sizes[] = {left.dim() == 3 ? left.size(0) : 1, left.size(-2), right.size(-1)};
  const auto rank = static_cast<size_t>(left.dim());
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes + 3 - rank, rank}));
  m.left = left.const_data_ptr<float>();
  m.right = right.const_data_ptr<float>();
  m.out = out.mutable_data_ptr<float>();
  if (out.numel() == 0 || m.depth == 0) {
    std::fill_n(m.out, out.numel(), 0.0f);
    return Error::Ok;
  }
  // Each thread has products of its own where there are enough of them, and some 5 us of work for it.
  constexpr size_t kWorthWaking = 250'000;
  threads::ThreadPool* const pool = context.pool();
  const size_t threads = pool == nullptr ? 1 : pool->num_threads();
  const bool is_shared = m.batches >= threads && m.batches * m.rows * m.columns * m.depth >= kWorthWaking;
  const size_t slots = is_shared ? threads : 1;
  PixelProduct product = product_of_matrix(m.depth, m.columns);
  const size_t zeros = m.columns + columns_of_a_tile();
  ET_TRY(void* const memory, context.allocate_temp((slots * product.group_floats + zeros) * sizeof(float)));
  auto* const filters = static_cast<float*>(memory);
  product.bias = std::fill_n(filters + slots * product.group_floats, zeros, 0.0f) - zeros;
  threads::parallel_tasks(slots > 1 ? pool : nullptr, slots, [&](size_t slot) {
    multiply_batches(context, slots > 1 ? nullptr : pool, m, product, m.batches * slot / slots,
                     m.batches * (slot + 1) / slots, filters + slot * product.group_floats);
  });
  return Error::Ok;
}

constexpr Kernel kKernels[] = {
    make_stateful_kernel<&prepare, &run>(signature::bmm_out, kPriorityPixels),
    make_stateful_kernel<&prepare, &run>(signature::mm_out, kPriorityPixels),
};

}  // namespace

ET_KERNEL_TABLE(pixel_matmul, kKernels)

}  // namespace et::kernels::optimized::conv
