// Linear layers of one row with a large constant weight, which is read as it lies in the file: aten::linear.out and
// et::linear_clamp.out.
//
// Such a product reads each number of the weight once, so it is bound by memory whatever the layout is. A library would
// copy the weight into a layout for many rows first, which takes longer at load than a hundred products, and as much
// memory as the weight again. Weights of [out, in] have the numbers of one output side by side; those of [in, out] and
// small ones have other kernels.

#include "kernels/optimized/vec/every_target-inl.h"

#include "kernels/optimized/matmul/constant_linear.h"
#include "kernels/optimized/matmul/row_product.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::matmul::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

/// Outputs [n, n + kRows). Two sums a row keep two units busy for the latency of an addition, and rounding errors
/// small.
template <size_t kRows>
HWY_INLINE void some_rows(const RowProduct& p, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const float* const w = p.matrix + n * p.depth;
  hn::Vec<decltype(d)> even[kRows], odd[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    even[r] = odd[r] = hn::Zero(d);
  }
  size_t i = 0;
  for (; i + 2 * lanes <= p.depth; i += 2 * lanes) {
    const auto x0 = hn::LoadU(d, p.x + i);
    const auto x1 = hn::LoadU(d, p.x + i + lanes);
    for (size_t r = 0; r < kRows; ++r) {
      even[r] = hn::MulAdd(x0, hn::LoadU(d, w + r * p.depth + i), even[r]);
      odd[r] = hn::MulAdd(x1, hn::LoadU(d, w + r * p.depth + i + lanes), odd[r]);
    }
  }
  for (; i < p.depth; i += lanes) {
    const size_t left = HWY_MIN(lanes, p.depth - i);
    const auto x0 = hn::LoadN(d, p.x + i, left);
    for (size_t r = 0; r < kRows; ++r) {
      even[r] = hn::MulAdd(x0, hn::LoadN(d, w + r * p.depth + i, left), even[r]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    float sum = hn::ReduceSum(d, hn::Add(even[r], odd[r])) + (p.bias == nullptr ? 0.0f : p.bias[n + r]);
    sum = sum < p.min ? p.min : sum;
    p.out[n + r] = sum > p.max ? p.max : sum;
  }
}

/// Outputs [n, n + kVectors vectors) of a matrix whose outputs lie side by side; the last of them may be cut off.
template <size_t kVectors>
HWY_INLINE void some_columns(const RowProduct& p, size_t n, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> sums[kVectors];
  for (auto& sum : sums) {
    sum = hn::Zero(d);
  }
  for (size_t k = 0; k < p.depth; ++k) {
    const float* const from = p.matrix + k * p.outputs + n;
    const auto x = hn::Set(d, p.x[k]);
    for (size_t v = 0; v < kVectors; ++v) {
      const auto w = count < lanes ? hn::LoadN(d, from, count) : hn::LoadU(d, from + v * lanes);
      sums[v] = hn::MulAdd(x, w, sums[v]);
    }
  }
  for (size_t v = 0; v < kVectors; ++v) {
    hn::StoreN(sums[v], d, p.out + n + v * lanes, count - v * lanes);
  }
  for (size_t i = n; i < n + count; ++i) {
    float sum = p.out[i] + (p.bias == nullptr ? 0.0f : p.bias[i]);
    sum = sum < p.min ? p.min : sum;
    p.out[i] = sum > p.max ? p.max : sum;
  }
}

void Columns(const RowProduct& product, size_t begin, size_t end) {
  const size_t lanes = hn::Lanes(hn::ScalableTag<float>());
  size_t n = begin;
  for (; n + 8 * lanes <= end; n += 8 * lanes) {
    some_columns<8>(product, n, 8 * lanes);
  }
  for (; n < end; n += lanes) {
    some_columns<1>(product, n, HWY_MIN(lanes, end - n));
  }
}

void Rows(const RowProduct& product, size_t begin, size_t end) {
  size_t n = begin;
  for (; n + 4 <= end; n += 4) {
    some_rows<4>(product, n);
  }
  for (; n < end; ++n) {
    some_rows<1>(product, n);
  }
}

}  // namespace et::kernels::optimized::matmul::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::matmul {

HWY_EXPORT(Rows);
HWY_EXPORT(Columns);

void multiply_row(KernelContext& context, const RowProduct& product) {
  const auto some = product.outputs_inner ? HWY_DYNAMIC_POINTER(Columns) : HWY_DYNAMIC_POINTER(Rows);
  // Columns in pieces of whole cache lines, so that a row of the matrix is read in long runs.
  const size_t grain = threads::grain_for(product.depth);
  threads::parallel_for(context, product.outputs, product.outputs_inner ? (grain + 255) / 256 * 256 : grain,
                        [&](size_t begin, size_t end) { some(product, begin, end); });
}

namespace {

/// Smaller weights are packed soon, and short rows leave much of the time to the sums across a vector.
constexpr int64_t kLeastElements = 1 << 14;
constexpr int64_t kLeastRow = 128;

bool is_static(const Tensor& tensor) {
  return tensor.unsafe_impl()->dynamism() == runtime::TensorShapeDynamism::kStatic;
}

bool fits(const runtime::PrepareContext& context, Arguments args) {
  if (!has_constant_weight(context, args)) {
    return false;
  }
  const Tensor input = args[0]->to_tensor(), weight = args[1]->to_tensor(), out = args[args.size() - 1]->to_tensor();
  const int64_t n = weight.size(0), k = weight.size(1);
  return input.numel() == k && out.numel() == n && out.size(-1) == n && is_static(input) && is_static(out) &&
         (args[2]->is_none() || is_static(args[2]->to_tensor())) && k >= kLeastRow && weight.numel() >= kLeastElements;
}

Error prepare(runtime::PrepareContext& context, Arguments args, const EValue* min, const EValue* max, void** state) {
  RowProduct product{};
  ET_TRY(const Range range, read_range(context, min, max));
  if (!fits(context, args)) {
    return Error::NotSupported;
  }
  ET_RETURN_IF_ERROR(offer_rows(state, 1, args[1]->to_tensor()));
  product.min = range.min;
  product.max = range.max;
  product.depth = static_cast<size_t>(args[1]->to_tensor().size(1));
  return keep_state(context, product, state);
}

Error run(KernelContext& context, Arguments args, void* state) {
  auto& product = *static_cast<RowProduct*>(state);
  const Tensor out = args[args.size() - 1]->to_tensor();
  product.x = args[0]->to_tensor().const_data_ptr<float>();
  product.matrix = args[1]->to_tensor().const_data_ptr<float>();
  product.bias = args[2]->is_none() ? nullptr : args[2]->to_tensor().const_data_ptr<float>();
  product.out = out.mutable_data_ptr<float>();
  product.outputs = static_cast<size_t>(out.numel());
  multiply_row(context, product);
  return Error::Ok;
}

}  // namespace

ET_KERNEL_TABLE(row_product, LinearKernels<&prepare, &run, kPriorityOneRow>::kTable)

}  // namespace et::kernels::optimized::matmul
#endif  // HWY_ONCE
