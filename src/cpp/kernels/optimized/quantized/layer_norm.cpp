// et::quantized_layer_norm of bytes in vectors: the integers of kernels/quantized/op_layer_norm.cpp, which calls this.
// Products have 64 bits there. Here those of even and of odd elements have; results of 32 bits meet again.
#include "kernels/optimized/vec/every_target-inl.h"

#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "kernels/quantized/layer_norm_rows.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
using kernels::quantized::LayerNormRows;

using IntegerTag = hn::ScalableTag<int32_t>;
using ProductTag = hn::Repartition<int64_t, IntegerTag>;
using Integers = hn::Vec<IntegerTag>;

/// (a * b + 2^(shift - 1)) >> shift of each element, of which the last 32 bits count.
HWY_INLINE Integers scaled(Integers a, Integers b, int shift) {
  const ProductTag wide;
  const auto half = hn::Set(wide, shift == 0 ? 0 : int64_t{1} << (shift - 1));
  const auto even = hn::ShiftRightSame(hn::Add(hn::MulEven(a, b), half), shift);
  const auto odd = hn::ShiftRightSame(hn::Add(hn::MulOdd(a, b), half), shift);
  const IntegerTag d;
  return hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
}

/// Rows [begin, end) of T.
template <class T>
HWY_INLINE void norm_rows(const LayerNormRows& rows, size_t begin, size_t end) {
  const IntegerTag d;
  const hn::Rebind<T, IntegerTag> dt;
  const ProductTag wide;
  const IntegerNorm& norm = rows.norm;
  const auto length = static_cast<size_t>(norm.length());
  const auto half = hn::Set(wide, norm.square_shift == 0 ? 0 : int64_t{1} << (norm.square_shift - 1));
  const auto rounding = hn::Set(d, 1 << (rows.output.shift - 1));
  const auto zero_point = hn::Set(d, rows.requantizer.zero_point());
  const auto low = hn::Set(d, rows.requantizer.min()), high = hn::Set(d, rows.requantizer.max());
  for (size_t row = begin; row < end; ++row) {
    const T* const from = static_cast<const T*>(rows.in) + row * length;
    T* const to = static_cast<T*>(rows.out) + row * length;
    auto sums = hn::Zero(d);
    over_vectors<int32_t>(length, [&](auto whole, size_t i, size_t left) HWY_ATTR {
      sums = hn::Add(sums, hn::PromoteTo(d, load(dt, whole, from + i, left)));
    });
    const int64_t zeros = int64_t{rows.zero_point} * static_cast<int64_t>(length);
    const int64_t mean = norm.mean_of(hn::ReduceSum(d, sums) - zeros);
    const auto less = hn::Set(d, static_cast<int32_t>(mean + (int64_t{rows.zero_point} << norm.fraction)));
    const auto distance = [&](auto whole, size_t i, size_t left) HWY_ATTR {
      const auto x = hn::PromoteTo(d, load(dt, whole, from + i, left));
      return hn::Sub(hn::ShiftLeftSame(x, norm.fraction), less);
    };
    auto squares = hn::Zero(wide);
    over_vectors<int32_t>(length, [&](auto whole, size_t i, size_t left) HWY_ATTR {
      auto x = distance(whole, i, left);
      x = whole ? x : hn::IfThenElseZero(hn::FirstN(d, left), x);
      const auto even = hn::ShiftRightSame(hn::Add(hn::MulEven(x, x), half), norm.square_shift);
      const auto odd = hn::ShiftRightSame(hn::Add(hn::MulOdd(x, x), half), norm.square_shift);
      squares = hn::Add(squares, hn::Add(even, odd));
    });
    const auto inverse = hn::Set(d, IntegerNorm::inverse(hn::ReduceSum(wide, squares) + norm.epsilon));
    over_vectors<int32_t>(length, [&](auto whole, size_t i, size_t left) HWY_ATTR {
      const auto normal = scaled(distance(whole, i, left), inverse, norm.normal_shift);
      const auto product = scaled(normal, load(d, whole, rows.weights + i, left), rows.output.weight_shift);
      const auto sum = hn::Add(product, load(d, whole, rows.biases + i, left));
      const auto units = hn::ShiftRightSame(hn::Add(sum, rounding), rows.output.shift);
      const auto bounded = hn::Min(hn::Max(hn::Add(units, zero_point), low), high);
      store(dt, whole, narrow(dt, bounded), to + i, left);
    });
  }
}

void NormChar(const LayerNormRows& rows, size_t begin, size_t end) { norm_rows<int8_t>(rows, begin, end); }
void NormByte(const LayerNormRows& rows, size_t begin, size_t end) { norm_rows<uint8_t>(rows, begin, end); }

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::quantized {

HWY_EXPORT(NormByte);
HWY_EXPORT(NormChar);

namespace {

using kernels::quantized::LayerNormRows;

/// Sums of 32 bits are enough for rows of 2^22 bytes, normalised elements have 30 bits whatever the row.
void vector_rows(KernelContext& context, const LayerNormRows& rows) {
  constexpr int64_t kMostLength = 1 << 22;
  const bool is_byte = rows.dtype == ScalarType::Char || rows.dtype == ScalarType::Byte;
  if (!is_byte || !rows.output.fits || rows.norm.length() > kMostLength) {
    kernels::quantized::plain_rows(context, rows);
    return;
  }
  const auto count = static_cast<size_t>(rows.count);
  const size_t grain = threads::grain_for(8 * static_cast<size_t>(rows.norm.length()));
  threads::parallel_for(context, count, grain, [&](size_t begin, size_t end) {
    rows.dtype == ScalarType::Char ? HWY_DYNAMIC_DISPATCH(NormChar)(rows, begin, end)
                                   : HWY_DYNAMIC_DISPATCH(NormByte)(rows, begin, end);
  });
}

Error quantized_layer_norm_out(KernelContext& context, const Tensor& input, double input_scale,
                               int64_t input_zero_point, IntArrayRef normalized_shape, const OptionalTensor& weight,
                               const OptionalTensor& bias, double eps, double output_scale, int64_t output_zero_point,
                               int64_t output_min, int64_t output_max, Tensor& out) {
  return kernels::quantized::layer_norm_by_rows(context, input, input_scale, input_zero_point, normalized_shape, weight,
                                                bias, eps, output_scale, output_zero_point, output_min, output_max, out,
                                                &vector_rows);
}

bool fits(Arguments args) { return args[0]->to_tensor().element_size() == 1; }

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&quantized_layer_norm_out, &fits>("et::quantized_layer_norm.out"),
};

}  // namespace

ET_KERNEL_TABLE(layer_norm, kKernels)

}  // namespace et::kernels::optimized::quantized
#endif  // HWY_ONCE
