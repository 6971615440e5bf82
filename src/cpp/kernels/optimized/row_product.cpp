// Linear layers of one row with a large constant weight, which is read as it lies in the file: aten::linear.out and
// et::linear_clamp.out.
//
// Such a product reads each number of the weight once, so it is bound by memory whatever the layout is. A library would
// copy the weight into a layout for many rows first, which takes longer at load than a hundred products, and as much
// memory as the weight again. Weights of [out, in] have the numbers of one output side by side; those of [in, out] and
// small ones are left to the library.

#include "kernels/optimized/targets.h"

#include <limits>
#include <new>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/row_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/fitting.h"
#include "kernels/optimized/pointwise.h"
#include "kernels/optimized/tables.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_ROW_PRODUCT_ONCE
#define ET_KERNELS_OPTIMIZED_ROW_PRODUCT_ONCE
namespace et::kernels::optimized {
/// out[n] = limit(x · weight[n] + bias[n])
struct RowProduct {
  const float* x;       // [k]
  const float* weight;  // [n, k]
  const float* bias;    // [n], or nullptr
  float* out;           // [n]
  size_t k;
  float min, max;
};
}  // namespace et::kernels::optimized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Outputs [n, n + kRows). Two sums a row keep two units busy for the latency of an addition, and rounding errors small.
template <size_t kRows>
HWY_INLINE void some_rows(const RowProduct& p, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const float* const w = p.weight + n * p.k;
  hn::Vec<decltype(d)> even[kRows], odd[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    even[r] = odd[r] = hn::Zero(d);
  }
  size_t i = 0;
  for (; i + 2 * lanes <= p.k; i += 2 * lanes) {
    const auto x0 = hn::LoadU(d, p.x + i);
    const auto x1 = hn::LoadU(d, p.x + i + lanes);
    for (size_t r = 0; r < kRows; ++r) {
      even[r] = hn::MulAdd(x0, hn::LoadU(d, w + r * p.k + i), even[r]);
      odd[r] = hn::MulAdd(x1, hn::LoadU(d, w + r * p.k + i + lanes), odd[r]);
    }
  }
  for (; i < p.k; i += lanes) {
    const size_t left = HWY_MIN(lanes, p.k - i);
    const auto x0 = hn::LoadN(d, p.x + i, left);
    for (size_t r = 0; r < kRows; ++r) {
      even[r] = hn::MulAdd(x0, hn::LoadN(d, w + r * p.k + i, left), even[r]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    float sum = hn::ReduceSum(d, hn::Add(even[r], odd[r])) + (p.bias == nullptr ? 0.0f : p.bias[n + r]);
    sum = sum < p.min ? p.min : sum;
    p.out[n + r] = sum > p.max ? p.max : sum;
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

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(Rows);

namespace {

/// Smaller weights are packed soon, and short rows leave much of the time to the sums across a vector.
constexpr int64_t kLeastElements = 1 << 14;
constexpr int64_t kLeastRow = 128;

bool is_static(const Tensor& tensor) {
  return tensor.unsafe_impl()->dynamism() == runtime::TensorShapeDynamism::kStatic;
}

bool fits(const runtime::PrepareContext& context, Arguments args) {
  const EValue& out = *args[args.size() - 1];
  if (!is_float(*args[0]) || !is_float(*args[1]) || !is_float_or_none(*args[2]) || !is_float(out) ||
      !context.is_constant(*args[1])) {
    return false;
  }
  const Tensor input = args[0]->to_tensor();
  const Tensor weight = args[1]->to_tensor();
  if (weight.dim() != 2 || !is_row_major(*args[1]) || input.dim() < 1 || !is_static(input) ||
      !is_static(out.to_tensor())) {
    return false;
  }
  const int64_t n = weight.size(0);
  const int64_t k = weight.size(1);
  const bool has_shapes = input.numel() == k && input.size(-1) == k && out.to_tensor().numel() == n &&
                          out.to_tensor().dim() == input.dim() && out.to_tensor().size(-1) == n;
  const bool has_bias = !args[2]->is_none();
  const bool bias_fits = !has_bias || (args[2]->to_tensor().dim() == 1 && args[2]->to_tensor().numel() == n &&
                                       is_static(args[2]->to_tensor()));
  return has_shapes && bias_fits && k >= kLeastRow && weight.numel() >= kLeastElements;
}

Error prepare(runtime::PrepareContext& context, Arguments args, const EValue* min, const EValue* max, void** state) {
  RowProduct product{};
  ET_TRY(const Range range, read_range(context, min, max));
  if (!fits(context, args)) {
    return Error::NotSupported;
  }
  product.min = range.min;
  product.max = range.max;
  product.k = static_cast<size_t>(args[1]->to_tensor().size(1));
  ET_TRY(void* const memory, context.allocate(sizeof(RowProduct), alignof(RowProduct)));
  *state = new (memory) RowProduct(product);
  return Error::Ok;
}

// linear(input, weight, bias, [min, max,] out)
Error prepare_linear(runtime::PrepareContext& context, Arguments args, void** state) {
  return prepare(context, args, nullptr, nullptr, state);
}
Error prepare_linear_clamp(runtime::PrepareContext& context, Arguments args, void** state) {
  return prepare(context, args, args[3], args[4], state);
}

Error run(KernelContext& context, Arguments args, void* state) {
  auto& product = *static_cast<RowProduct*>(state);
  const Tensor out = args[args.size() - 1]->to_tensor();
  product.x = args[0]->to_tensor().const_data_ptr<float>();
  product.weight = args[1]->to_tensor().const_data_ptr<float>();
  product.bias = args[2]->is_none() ? nullptr : args[2]->to_tensor().const_data_ptr<float>();
  product.out = out.mutable_data_ptr<float>();
  const auto rows = HWY_DYNAMIC_POINTER(Rows);
  threads::parallel_for(context.pool(), static_cast<size_t>(out.numel()), threads::grain_for(product.k),
                        [&](size_t begin, size_t end) { rows(product, begin, end); });
  return Error::Ok;
}

/// Before a library, which would pack the weight.
constexpr uint8_t kPriority = runtime::kPriorityLibrary + 1;

constexpr Kernel kKernels[] = {
    {"aten::linear.out", "TTto", &run, &prepare_linear, nullptr, kPriority},
    {"et::linear_clamp.out", "TTtNNo", &run, &prepare_linear_clamp, nullptr, kPriority},
};

}  // namespace

Span<const Kernel> row_product_kernels() { return kKernels; }

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
