// aten::dot and aten::mv of floats, 16-bit floats, doubles and integers, which wrap: one pass over the arguments.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <type_traits>

#include "kernels/optimized/matmul/dot.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/float_runs.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_DOT_ONCE
#define ET_KERNELS_OPTIMIZED_DOT_ONCE
namespace et::kernels::optimized::matmul {
/// The product of n integers and n others, of which as many bits count as they have.
using IntegerDot = uint64_t (*)(const void* a, const void* b, size_t n);
}  // namespace et::kernels::optimized::matmul
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::matmul::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

/// Four sums hide the latency of an addition.
template <typename T>
HWY_INLINE T dot(const T* a, const T* b, size_t n) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
    s1 = hn::MulAdd(hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes), s1);
    s2 = hn::MulAdd(hn::LoadU(d, a + i + 2 * lanes), hn::LoadU(d, b + i + 2 * lanes), s2);
    s3 = hn::MulAdd(hn::LoadU(d, a + i + 3 * lanes), hn::LoadU(d, b + i + 3 * lanes), s3);
  }
  for (; i < n; i += lanes) {
    const size_t left = HWY_MIN(lanes, n - i);
    s0 = hn::MulAdd(hn::LoadN(d, a + i, left), hn::LoadN(d, b + i, left), s0);
  }
  return hn::ReduceSum(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

float DotFloat(const float* a, const float* b, size_t n) { return dot(a, b, n); }
double DotDouble(const double* a, const double* b, size_t n) { return dot(a, b, n); }

/// A plain loop, which compilers make vectors of.
template <typename T>
uint64_t dot_integers(const void* a, const void* b, size_t n) {
  using Sum = std::conditional_t<sizeof(T) <= sizeof(uint32_t), uint32_t, uint64_t>;
  const T* const x = static_cast<const T*>(a);
  const T* const y = static_cast<const T*>(b);
  Sum sum = 0;
  for (size_t i = 0; i < n; ++i) {
    sum += static_cast<Sum>(x[i]) * static_cast<Sum>(y[i]);
  }
  return sum;
}

IntegerDot DotOfIntegers(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Byte: return &dot_integers<uint8_t>;
    case ScalarType::Char: return &dot_integers<int8_t>;
    case ScalarType::Short: return &dot_integers<int16_t>;
    case ScalarType::Int: return &dot_integers<int32_t>;
    default: return &dot_integers<int64_t>;
  }
}

}  // namespace et::kernels::optimized::matmul::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::matmul {

HWY_EXPORT(DotFloat);
HWY_EXPORT(DotDouble);
HWY_EXPORT(DotOfIntegers);

double (*dot_of_doubles())(const double*, const double*, size_t) { return HWY_DYNAMIC_POINTER(DotDouble); }

namespace {

/// Calls f(start, count) for pieces of n elements. The sums of pieces meet in double, so long rows lose little.
template <typename F>
void for_each_piece(size_t n, size_t piece, const F& f) {
  for (size_t start = 0; start < n; start += piece) {
    f(start, std::min(n - start, piece));
  }
}

/// The product of n elements of `a`, from element `first` on, and of `b`.
float dot_floats(const Tensor& a, size_t first, const Tensor& b, size_t n) {
  const auto dot = HWY_DYNAMIC_POINTER(DotFloat);
  double total = 0;
  if (a.scalar_type() == ScalarType::Float) {
    const auto* const x = static_cast<const float*>(a.const_data_ptr()) + first;
    const auto* const y = static_cast<const float*>(b.const_data_ptr());
    for_each_piece(n, 8192, [&](size_t start, size_t count) { total += dot(x + start, y + start, count); });
    return static_cast<float>(total);
  }
  constexpr size_t kPiece = 1024;
  alignas(64) float x[kPiece], y[kPiece];
  for_each_piece(n, kPiece, [&](size_t start, size_t count) {
    total += dot(elements_of(a, first + start, count, x), elements_of(b, start, count, y), count);
  });
  return static_cast<float>(total);
}

/// out[r] = row r of `self`, n elements long, times `vector`, for rows [begin, end).
void products(const Tensor& self, const Tensor& vector, size_t n, const Tensor& out, size_t begin, size_t end) {
  if (self.scalar_type() == ScalarType::Double) {
    const auto dot = HWY_DYNAMIC_POINTER(DotDouble);
    const auto* const rows = static_cast<const double*>(self.const_data_ptr());
    for (size_t r = begin; r < end; ++r) {
      static_cast<double*>(out.mutable_data_ptr())[r] =
          dot(rows + r * n, static_cast<const double*>(vector.const_data_ptr()), n);
    }
    return;
  }
  if (!is_floating(self.scalar_type())) {
    const IntegerDot dot = HWY_DYNAMIC_DISPATCH(DotOfIntegers)(self.scalar_type());
    const auto* const rows = static_cast<const char*>(self.const_data_ptr());
    for (size_t r = begin; r < end; ++r) {
      const auto sum = static_cast<int64_t>(dot(rows + r * n * self.element_size(), vector.const_data_ptr(), n));
      char* const to = static_cast<char*>(out.mutable_data_ptr()) + r * out.element_size();
      portable::store(self.scalar_type(), &sum, 1, to, 1);
    }
    return;
  }
  for (size_t r = begin; r < end; ++r) {
    const float sum = dot_floats(self, r * n, vector, n);
    store_floats(out, r, &sum, 1);
  }
}

Error dot_out(KernelContext& context, const Tensor& self, const Tensor& tensor, Tensor& out) {
  ET_CHECK_OR_RETURN(self.size(0) == tensor.size(0), InvalidArgument, "aten::dot: %" PRId64 " and %" PRId64 " elements",
                     self.size(0), tensor.size(0));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {}));
  products(self, tensor, static_cast<size_t>(self.size(0)), out, 0, 1);
  return Error::Ok;
}

Error mv_out(KernelContext& context, const Tensor& self, const Tensor& vec, Tensor& out) {
  ET_CHECK_OR_RETURN(self.size(1) == vec.size(0), InvalidArgument,
                     "aten::mv: rows of %" PRId64 " elements, a vector of %" PRId64, self.size(1), vec.size(0));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {self.size(0)}));
  const auto n = static_cast<size_t>(vec.size(0));
  threads::parallel_for(context, static_cast<size_t>(self.size(0)), threads::grain_for(n),
                        [&](size_t begin, size_t end) { products(self, vec, n, out, begin, end); });
  return Error::Ok;
}

/// product(self, vector, out): of one type of numbers; self is dense, of `rank` dims, and out of one less.
bool fits_product(Arguments args, int64_t rank) {
  const int64_t ranks[] = {rank, 1, rank - 1};
  for (size_t i = 0; i < 3; ++i) {
    if (!args[i]->is_tensor() || args[i]->to_tensor().dim() != ranks[i] || !is_row_major(*args[i]) ||
        args[i]->to_tensor().scalar_type() != args[0]->to_tensor().scalar_type()) {
      return false;
    }
  }
  return is_number(args[0]->to_tensor().scalar_type());
}

bool fits_dot(Arguments args) { return fits_product(args, 1); }
bool fits_mv(Arguments args) { return fits_product(args, 2); }

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&dot_out, &fits_dot>("aten::dot.out"),
    make_fitting_kernel<&mv_out, &fits_mv>("aten::mv.out"),
};

}  // namespace

ET_KERNEL_TABLE(dot, kKernels)

}  // namespace et::kernels::optimized::matmul
#endif  // HWY_ONCE
