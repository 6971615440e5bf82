// Uniform and normal numbers from Philox, a vector of counters at a time: number i depends on the seed, the counter and
// i only, so threads take pieces of the output. Uniform numbers are those of the portable kernels; normal ones differ
// by the rounding of logarithm and cosine.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>

#include <hwy/contrib/math/math-inl.h>

#include "base/rounding.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/float_runs.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/op_normal.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_RANDOM_
#define ET_KERNELS_OPTIMIZED_RANDOM_
namespace et::kernels::optimized::random {

/// Numbers of a piece, and how many more are written behind the last one at most.
inline constexpr size_t kRandomPiece = 1024;
inline constexpr size_t kRandomSlack = 128;

/// What is drawn: numbers of blocks [counter, …) of the generator.
struct Draw {
  uint64_t seed, counter;
  bool normal;
};

}  // namespace et::kernels::optimized::random
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::random::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<uint64_t>;
using WideVec = hn::Vec<Wide>;

/// Four numbers of 32 bits for each lane's counter; the upper halves of lanes are not defined.
struct Blocks {
  WideVec word[4];
};

HWY_INLINE Blocks philox(uint64_t seed, uint64_t counter) {
  const Wide d;
  const hn::Repartition<uint32_t, Wide> d32;
  const auto counters = hn::Add(hn::Set(d, counter), hn::Iota(d, 0));
  WideVec c0 = counters, c1 = hn::ShiftRight<32>(counters), c2 = hn::Zero(d), c3 = hn::Zero(d);
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  const auto m0 = hn::Set(d32, 0xD2511F53u), m1 = hn::Set(d32, 0xCD9E8D57u);
  for (int round = 0; round < 10; ++round) {
    const WideVec a = hn::MulEven(hn::BitCast(d32, c0), m0);
    const WideVec b = hn::MulEven(hn::BitCast(d32, c2), m1);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), c1), hn::Set(d, key0));
    c1 = b;
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), c3), hn::Set(d, key1));
    c3 = a;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Box and Muller's normal number of two uniform ones.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V box_muller(D d, V u, V v) {
  using T = hn::TFromD<D>;
  const V radius = hn::Sqrt(hn::Mul(hn::Set(d, T(-2)), hn::Log(d, hn::Sub(hn::Set(d, T(1)), u))));
  return hn::Mul(radius, hn::Cos(d, hn::Mul(hn::Set(d, T(6.283185307179586)), v)));
}

void DrawFloats(const Draw& draw, float* out, size_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const Wide dw;
  const size_t lanes = hn::Lanes(d);
  const auto low = hn::Set(dw, 0xffffffffu);
  const auto scale = hn::Set(d, 0x1p-24f);
  uint64_t counter = draw.counter;
  for (size_t i = 0; i < n; counter += lanes) {
    const Blocks first = philox(draw.seed, counter);
    const Blocks second = philox(draw.seed, counter + lanes / 2);
    const auto uniform = [&](size_t k) HWY_ATTR {
      const auto words = hn::OrderedTruncate2To(du, hn::And(first.word[k], low), hn::And(second.word[k], low));
      return hn::Mul(hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<8>(words))), scale);
    };
    if (draw.normal) {
      hn::StoreInterleaved2(box_muller(d, uniform(0), uniform(1)), box_muller(d, uniform(2), uniform(3)), d, out + i);
      i += 2 * lanes;
    } else {
      hn::StoreInterleaved4(uniform(0), uniform(1), uniform(2), uniform(3), d, out + i);
      i += 4 * lanes;
    }
  }
}

void DrawDoubles(const Draw& draw, double* out, size_t n) {
  const hn::ScalableTag<double> d;
  const hn::RebindToSigned<decltype(d)> di;
  const Wide dw;
  const size_t lanes = hn::Lanes(d);
  const auto low = hn::Set(dw, 0xffffffffu);
  const auto scale = hn::Set(d, 0x1p-53);
  uint64_t counter = draw.counter;
  for (size_t i = 0; i < n; counter += lanes) {
    const Blocks blocks = philox(draw.seed, counter);
    const auto uniform = [&](size_t k) HWY_ATTR {
      const auto bits = hn::Or(hn::ShiftLeft<32>(blocks.word[k]), hn::And(blocks.word[k + 1], low));
      return hn::Mul(hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<11>(bits))), scale);
    };
    if (draw.normal) {
      hn::StoreU(box_muller(d, uniform(0), uniform(2)), d, out + i);
      i += lanes;
    } else {
      hn::StoreInterleaved2(uniform(0), uniform(2), d, out + i);
      i += 2 * lanes;
    }
  }
}

/// z = mean + std * z in double; a step of 0 repeats the one number.
template <typename T>
HWY_INLINE void scale_and_shift(const double* mean, bool means, const double* std, bool stds, T* z, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    z[i] = static_cast<T>(mean[means ? i : 0] + std[stds ? i : 0] * static_cast<double>(z[i]));
  }
}
template <typename T>
void ScaleNumbers(const double* mean, bool means, const double* std, bool stds, T* z, size_t n) {
  // Loops of their own, which the compiler makes vectors of.
  if (means) {
    stds ? scale_and_shift(mean, true, std, true, z, n) : scale_and_shift(mean, true, std, false, z, n);
  } else {
    stds ? scale_and_shift(mean, false, std, true, z, n) : scale_and_shift(mean, false, std, false, z, n);
  }
}
}  // namespace et::kernels::optimized::random::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::random {

HWY_EXPORT(DrawFloats);
HWY_EXPORT(DrawDoubles);

namespace {

void draw_numbers(const Draw& draw, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(DrawFloats)(draw, out, n); }
void draw_numbers(const Draw& draw, double* out, size_t n) { HWY_DYNAMIC_DISPATCH(DrawDoubles)(draw, out, n); }
void store_numbers(const Tensor& out, size_t start, const float* values, size_t n) {
  store_floats(out, start, values, n);
}
void store_numbers(const Tensor& out, size_t start, const double* values, size_t n) {
  std::copy_n(values, n, out.mutable_data_ptr<double>() + start);
}

/// A number, or a tensor of as many elements as the output in the same order.
struct Parameter {
  double value = 0.0;
  const Tensor* tensor = nullptr;

  /// Elements [start, start + n): a line of them, or the one number.
  const double* at(size_t start, size_t n, double* line) const {
    if (tensor == nullptr) {
      return &value;
    }
    const auto* const data = static_cast<const char*>(tensor->const_data_ptr());
    portable::load(tensor->scalar_type(), data + start * tensor->element_size(), 1, static_cast<int64_t>(n), line);
    return line;
  }
};

/// Fills `out` in the order of its memory with mean + std * number, numbers drawn in T.
template <typename T>
void fill(KernelContext& context, const Tensor& out, bool normal, const Parameter& mean, const Parameter& std) {
  // A normal number takes two words of a generator's block of four, and numbers of double two words for one.
  constexpr size_t kWords = sizeof(T) / sizeof(float);
  const size_t numel = static_cast<size_t>(out.numel());
  const size_t each = kWords * (normal ? 2 : 1);
  const Draw whole{context.random().seed, context.random().counter, normal};
  context.random().counter += (numel * each + 3) / 4;
  HWY_EXPORT_T(Scale, ScaleNumbers<T>);
  const auto scale_numbers = HWY_DYNAMIC_POINTER_T(Scale);
  const bool scaled = mean.tensor != nullptr || std.tensor != nullptr || mean.value != 0.0 || std.value != 1.0;
  const size_t pieces = divide_up(numel, kRandomPiece);
  threads::parallel_for(context, pieces, 4, [&](size_t begin, size_t end) {
    alignas(64) T numbers[kRandomPiece + kRandomSlack];
    alignas(64) double means[kRandomPiece], stds[kRandomPiece];
    for (size_t piece = begin; piece < end; ++piece) {
      const size_t start = piece * kRandomPiece;
      const size_t n = std::min(kRandomPiece, numel - start);
      draw_numbers({whole.seed, whole.counter + start * each / 4, normal}, numbers, n);
      if (scaled) {
        scale_numbers(mean.at(start, n, means), mean.tensor != nullptr, std.at(start, n, stds), std.tensor != nullptr,
                      numbers, n);
      }
      store_numbers(out, start, numbers, n);
    }
  });
}

Error fill_any(KernelContext& context, IntArrayRef sizes, const Tensor& out, bool normal, const Parameter& mean = {0.0},
               const Parameter& std = {1.0}) {
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.scalar_type() == ScalarType::Double) {
    fill<double>(context, out, normal, mean, std);
  } else {
    fill<float>(context, out, normal, mean, std);
  }
  return Error::Ok;
}

Error check_deviation(double std) {
  ET_CHECK_OR_RETURN(std >= 0, InvalidArgument, "aten::normal: the standard deviation is %g, must not be negative",
                     std);
  return Error::Ok;
}

/// True when no element is negative or not a number; the portable kernel says which one is.
bool are_deviations(const Tensor& std) {
  double line[kRandomPiece];
  const Parameter elements{0.0, &std};
  const auto numel = static_cast<size_t>(std.numel());
  for (size_t start = 0; start < numel; start += kRandomPiece) {
    const size_t n = std::min(kRandomPiece, numel - start);
    const double* const values = elements.at(start, n, line);
    bool good = true;
    for (size_t i = 0; i < n; ++i) {
      good &= values[i] >= 0.0;
    }
    if (!good) {
      return false;
    }
  }
  return true;
}

Error rand_out(KernelContext& context, IntArrayRef size, Tensor& out) { return fill_any(context, size, out, false); }

Error rand_like_out(KernelContext& context, const Tensor& self, std::optional<int64_t>, Tensor& out) {
  return fill_any(context, self.sizes(), out, false);
}

Error randn_out(KernelContext& context, IntArrayRef size, Tensor& out) { return fill_any(context, size, out, true); }

Error randn_like_out(KernelContext& context, const Tensor& self, std::optional<int64_t>, Tensor& out) {
  return fill_any(context, self.sizes(), out, true);
}

Error uniform_out(KernelContext& context, const Tensor& self, double from, double to, std::optional<int64_t>,
                  Tensor& out) {
  ET_CHECK_OR_RETURN(from <= to, InvalidArgument, "aten::uniform: from %g is above to %g", from, to);
  return fill_any(context, self.sizes(), out, false, {from}, {to - from});
}

Error normal_out(KernelContext& context, const Tensor& self, double mean, double std, std::optional<int64_t>,
                 Tensor& out) {
  ET_RETURN_IF_ERROR(check_deviation(std));
  return fill_any(context, self.sizes(), out, true, {mean}, {std});
}

Error normal_float_float_out(KernelContext& context, double mean, double std, IntArrayRef size, std::optional<int64_t>,
                             Tensor& out) {
  ET_RETURN_IF_ERROR(check_deviation(std));
  return fill_any(context, size, out, true, {mean}, {std});
}

Error normal_tensor_float_out(KernelContext& context, const Tensor& mean, double std, std::optional<int64_t>,
                              Tensor& out) {
  ET_RETURN_IF_ERROR(check_deviation(std));
  return fill_any(context, mean.sizes(), out, true, {0.0, &mean}, {std});
}

Error normal_float_tensor_out(KernelContext& context, double mean, const Tensor& std, std::optional<int64_t> generator,
                              Tensor& out) {
  return are_deviations(std) ? fill_any(context, std.sizes(), out, true, {mean}, {1.0, &std})
                             : portable::normal_float_tensor_out(context, mean, std, generator, out);
}

Error normal_tensor_tensor_out(KernelContext& context, const Tensor& mean, const Tensor& std,
                               std::optional<int64_t> generator, Tensor& out) {
  return equal(mean.sizes(), std.sizes()) && are_deviations(std)
             ? fill_any(context, mean.sizes(), out, true, {0.0, &mean}, {1.0, &std})
             : portable::normal_tensor_tensor_out(context, mean, std, generator, out);
}

bool fits_floats(const EValue& value) {
  return value.is_tensor() && is_floating(value.to_tensor().scalar_type()) && is_row_major(value);
}
/// The output alone.
bool fits_out(Arguments args) { return fits_floats(*args[args.size() - 1]); }
/// The output and every tensor before it.
bool fits_tensors(Arguments args) {
  for (const EValue* const value : args) {
    if (value->is_tensor() && !fits_floats(*value)) {
      return false;
    }
  }
  return true;
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&normal_float_float_out, &fits_out>("aten::normal.float_float_out"),
    make_fitting_kernel<&normal_float_tensor_out, &fits_tensors>("aten::normal.float_Tensor_out"),
    make_fitting_kernel<&normal_out, &fits_out>("aten::normal.out"),
    make_fitting_kernel<&normal_tensor_float_out, &fits_tensors>("aten::normal.Tensor_float_out"),
    make_fitting_kernel<&normal_tensor_tensor_out, &fits_tensors>("aten::normal.Tensor_Tensor_out"),
    make_fitting_kernel<&rand_like_out, &fits_out>("aten::rand_like.out"),
    make_fitting_kernel<&rand_out, &fits_out>("aten::rand.out"),
    make_fitting_kernel<&randn_like_out, &fits_out>("aten::randn_like.out"),
    make_fitting_kernel<&randn_out, &fits_out>("aten::randn.out"),
    make_fitting_kernel<&uniform_out, &fits_out>("aten::uniform.out"),
};

}  // namespace

ET_KERNEL_TABLE(random, kKernels)

}  // namespace et::kernels::optimized::random
#endif  // HWY_ONCE
