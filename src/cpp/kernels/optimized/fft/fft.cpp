// Fourier transforms of float and double tensors, in the precision of the tensor. Short ones are made side by side in
// the lanes of vectors (fft/lanes-inl.h); long ones, and few ones, by two rounds of short ones that share vectors.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/optimized/fft/lanes-inl.h"

#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::fft::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

template <class T>
size_t NumLanes() {
  return kLanes<T>;
}

}  // namespace et::kernels::optimized::fft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::fft {

namespace {

using portable::product;
using portable::Sizes;

template <typename T>
size_t num_lanes() {
  HWY_EXPORT_T(Lanes, NumLanes<T>);
  return HWY_DYNAMIC_DISPATCH_T(Lanes)();
}

template <typename T>
Result<T*> allocate(KernelContext& context, size_t count) {
  ET_TRY(void* memory, context.allocate_temp(count * sizeof(T), 128));
  return static_cast<T*>(memory);
}

template <typename T>
Result<FftPlan<T>> make_plan(KernelContext& context, size_t n) {
  ET_TRY(FftPlan<T> plan, FftPlan<T>::make(context, n));
  if (plan.filter != nullptr) {
    ET_TRY(T * scratch, allocate<T>(context, 4 * plan.m * num_lanes<T>()));
    HWY_EXPORT_T(Filter, TransformFilter<T>);
    HWY_DYNAMIC_DISPATCH_T(Filter)(plan, scratch);
  }
  return plan;
}

/// Makes all transforms of a job, on several threads where that is worth it.
template <typename T>
Error run_job(KernelContext& context, FftJob<T>& job) {
  job.set_buffer();
  HWY_EXPORT_T(Count, NumBlocks<T>);
  HWY_EXPORT_T(Blocks, RunBlocks<T>);
  const auto run_blocks = HWY_DYNAMIC_POINTER_T(Blocks);
  const size_t blocks = HWY_DYNAMIC_DISPATCH_T(Count)(job);
  const size_t threads = context.pool() == nullptr ? 1 : context.pool()->num_threads();
  constexpr size_t kCost = 16;  // of an element, next to a copy
  const size_t worth = job.lanes * job.plan->m * kCost / threads::kGrainElements;
  const size_t groups = std::min(blocks, worth < 2 ? 1 : 2 * threads);
  const size_t each = 2 * job.scratch_elements() * num_lanes<T>();
  const size_t piece = threads::kMostGrains * blocks / std::max<size_t>(worth, 1) + 1;
  ET_TRY(T * scratch, allocate<T>(context, groups * each));
  threads::parallel_tasks(context.pool(), groups, [&](size_t group) {
    const size_t first = group * blocks / groups, count = (group + 1) * blocks / groups - first;
    threads::in_pieces(context, count, piece, [&](size_t begin, size_t end) {
      run_blocks(job, first + begin, first + end, scratch + group * each);
    });
  });
  return Error::Ok;
}

/// Complex transforms of one length, one after the other, each by two rounds of shorter ones. n numbers as a matrix
/// [first, second] are transformed along the columns, multiplied by roots of unity and transformed along the rows.
template <typename T>
class RowTransform {
 public:
  static Result<RowTransform> make(KernelContext& context, size_t n) {
    RowTransform result;
    result.first_ = split_length(n);
    result.second_ = n / result.first_;
    ET_TRY(result.first_plan_, make_plan<T>(context, result.first_));
    ET_TRY(result.second_plan_, make_plan<T>(context, result.second_));
    ET_TRY(result.roots_, RootsOfUnity::make(context, n));
    return result;
  }

  /// target = transform of source; `work`: as many numbers, may be the source, as the target may. Backwards with
  /// `swapped`.
  Error run(KernelContext& context, const T* source, T* work, T* target, bool swapped, T scale) const {
    FftJob<T> columns;
    columns.n = columns.loaded = columns.stored = first_;
    columns.plan = &first_plan_;
    columns.twist = &roots_;
    columns.lanes = second_;
    columns.from = FftSide<T>::complex_numbers(const_cast<T*>(source), first_, second_);
    columns.to = FftSide<T>::complex_numbers(work, first_, second_);
    columns.from_swapped = swapped;
    ET_RETURN_IF_ERROR(run_job(context, columns));
    FftJob<T> rows;
    rows.n = rows.loaded = rows.stored = second_;
    rows.plan = &second_plan_;
    rows.lanes = first_;
    rows.from = FftSide<T>::complex_numbers(work, second_, 1);
    rows.to = FftSide<T>::complex_numbers(target, second_, first_);
    rows.to_swapped = swapped;
    rows.scale = scale;
    return run_job(context, rows);
  }

 private:
  size_t first_ = 1, second_ = 1;
  FftPlan<T> first_plan_, second_plan_;
  RootsOfUnity roots_;
};

/// As RowTransform for any length: one with a large prime factor as a convolution with a chirp (fft/lanes-inl.h).
template <typename T>
class LongTransform {
 public:
  static bool takes(size_t n) { return split_length(n) > 1 || split_length(convolution_length(n)) > 1; }

  static Result<LongTransform> make(KernelContext& context, size_t n) {
    LongTransform result;
    result.n_ = n;
    result.m_ = split_length(n) > 1 ? n : convolution_length(n);
    ET_TRY(result.rows_, RowTransform<T>::make(context, result.m_));
    if (result.m_ == n) {
      return result;
    }
    ET_TRY(result.plan_, FftPlan<T>::make_chirp(context, n, result.m_));
    ET_TRY(result.padded_, allocate<T>(context, 2 * result.m_));
    ET_TRY(result.spectrum_, allocate<T>(context, 2 * result.m_));
    ET_RETURN_IF_ERROR(
        result.rows_.run(context, result.plan_.filter, result.padded_, result.plan_.filter, false, T(1)));
    return result;
  }

  Error run(KernelContext& context, const T* source, T* work, T* target, bool swapped, T scale) const {
    if (m_ == n_) {
      return rows_.run(context, source, work, target, swapped, scale);
    }
    const size_t re = swapped ? 1 : 0, im = 1 - re;
    for (size_t k = 0; k < n_; ++k) {
      multiply(source[2 * k + re], source[2 * k + im], plan_.chirp + 2 * k, padded_ + 2 * k, 0, 1);
    }
    std::memset(padded_ + 2 * n_, 0, 2 * (m_ - n_) * sizeof(T));
    ET_RETURN_IF_ERROR(rows_.run(context, padded_, padded_, spectrum_, false, T(1)));
    for (size_t k = 0; k < m_; ++k) {
      multiply(spectrum_[2 * k], spectrum_[2 * k + 1], plan_.filter + 2 * k, spectrum_ + 2 * k, 0, 1);
    }
    ET_RETURN_IF_ERROR(rows_.run(context, spectrum_, spectrum_, padded_, true, scale));
    for (size_t k = 0; k < n_; ++k) {
      multiply(padded_[2 * k], padded_[2 * k + 1], plan_.chirp + 2 * k, target + 2 * k, re, im);
    }
    return Error::Ok;
  }

 private:
  static void multiply(T re, T im, const T* by, T* to, size_t to_re, size_t to_im) {
    const T real = re * by[0] - im * by[1];
    to[to_im] = re * by[1] + im * by[0];
    to[to_re] = real;
  }

  size_t n_ = 1, m_ = 1;
  RowTransform<T> rows_;
  FftPlan<T> plan_;  // chirp and filter only
  T* padded_ = nullptr;
  T* spectrum_ = nullptr;
};

/// The transforms along one dimension of a tensor [outer, n, inner].
template <typename T>
struct Pass {
  FftKind kind;
  const T* from;
  T* to;
  size_t outer, n, inner;
  size_t given, kept;  // elements along the dimension of `from` and of `to`
  bool forward;
  double scale;

  bool pairs() const { return kind != FftKind::Complex && n % 2 == 0; }
  size_t length() const { return pairs() ? n / 2 : n; }
  FftSide<T> source() const {
    T* const data = const_cast<T*>(from);
    return kind == FftKind::RealToComplex ? FftSide<T>::real_numbers(data, n, inner)
                                          : FftSide<T>::complex_numbers(data, given, inner);
  }
  FftSide<T> target() const {
    return kind == FftKind::ComplexToReal ? FftSide<T>::real_numbers(to, n, inner)
                                          : FftSide<T>::complex_numbers(to, kept, inner);
  }
};

template <typename T>
Error run_in_lanes(KernelContext& context, const Pass<T>& pass) {
  FftJob<T> job;
  job.kind = pass.kind;
  job.n = pass.n;
  ET_TRY(FftPlan<T> plan, make_plan<T>(context, pass.length()));
  job.plan = &plan;
  if (pass.pairs()) {
    ET_TRY(RootsOfUnity roots, RootsOfUnity::make(context, pass.n));
    ET_TRY(T * table, allocate<T>(context, 2 * (pass.n / 4 + 1)));
    for (size_t k = 0; k <= pass.n / 4; ++k) {
      const ComplexDouble w = roots.at(k);
      table[2 * k] = static_cast<T>(w.re);
      table[2 * k + 1] = static_cast<T>(w.im);
    }
    job.roots = table;
  }
  job.lanes = pass.outer * pass.inner;
  job.from = pass.source();
  job.to = pass.target();
  const size_t half = pass.n / 2 + 1;
  job.loaded = pass.kind == FftKind::ComplexToReal ? half : pass.length();
  job.stored = pass.kind == FftKind::RealToComplex ? pass.kept : pass.length();
  // The code of real sequences hands over what is to be transformed backwards with its parts swapped.
  job.from_swapped = !pass.forward && pass.kind == FftKind::Complex;
  job.to_swapped = !pass.forward;
  job.scale = static_cast<T>(pass.scale);
  return run_job(context, job);
}

/// One lane of a side, element by element.
template <typename T>
struct Line {
  T* data;
  size_t step, imag;

  Line(const FftSide<T>& side, size_t lane) : data(side.start(lane)), step(side.step), imag(side.imag) {}
  ComplexDouble get(size_t k) const {
    const T* const p = data + k * step;
    return {p[0], imag == 0 ? 0.0 : static_cast<double>(p[imag])};
  }
  void set(size_t k, double re, double im) const {
    T* const p = data + k * step;
    p[0] = static_cast<T>(re);
    if (imag != 0) {
      p[imag] = static_cast<T>(im);
    }
  }
};

/// Writes the transform of a real sequence of n from that of its n / 2 pairs (untangle in fft/lanes-inl.h).
template <typename T>
void untangle_line(const Pass<T>& pass, const RootsOfUnity& roots, const Line<T>& z, const Line<T>& out) {
  const size_t half = pass.n / 2;
  const double scale = 0.5 * pass.scale;
  for (size_t k = 0; k <= half / 2; ++k) {
    const ComplexDouble a = z.get(k), b = z.get((half - k) % half), w = roots.at(k);
    const double even_re = a.re + b.re, even_im = a.im - b.im;
    const double turned_re = a.im + b.im, turned_im = b.re - a.re;
    const double odd_re = turned_re * w.re - turned_im * w.im, odd_im = turned_re * w.im + turned_im * w.re;
    out.set(k, scale * (even_re + odd_re), scale * (even_im + odd_im));
    out.set(half - k, scale * (even_re - odd_re), scale * (odd_im - even_im));
  }
}

/// The pairs of a real sequence of n, to be transformed backwards, from elements 0 to n / 2 of its transform.
template <typename T>
void entangle_line(size_t n, const RootsOfUnity& roots, const Line<T>& x, const Line<T>& z) {
  const size_t half = n / 2;
  const auto get = [&](size_t k) {
    const ComplexDouble value = x.get(k);
    return ComplexDouble{value.re, k == 0 || k == half ? 0.0 : value.im};
  };
  for (size_t k = 0; k <= half / 2; ++k) {
    const ComplexDouble a = get(k), b = get(half - k), w = roots.at(k);
    const double even_re = a.re + b.re, even_im = a.im - b.im;
    const double minus_re = a.re - b.re, minus_im = a.im + b.im;
    const double odd_re = minus_re * w.im - minus_im * w.re, odd_im = minus_re * w.re + minus_im * w.im;
    z.set(k, even_re + odd_re, even_im + odd_im);
    if (k != 0) {
      z.set(half - k, even_re - odd_re, odd_im - even_im);
    }
  }
}

template <typename T>
Error run_long(KernelContext& context, const Pass<T>& pass) {
  const size_t length = pass.length();
  ET_TRY(LongTransform<T> transform, LongTransform<T>::make(context, length));
  ET_TRY(RootsOfUnity roots, RootsOfUnity::make(context, pass.n));
  ET_TRY(T * work, allocate<T>(context, 2 * length));
  ET_TRY(T * result, allocate<T>(context, 2 * length));
  const auto scale = static_cast<T>(pass.scale);
  const auto line_of = [](T* data) { return Line<T>(FftSide<T>::complex_numbers(data, 1, 1), 0); };
  for (size_t lane = 0; lane < pass.outer * pass.inner; ++lane) {
    const Line<T> from(pass.source(), lane), to(pass.target(), lane);
    const bool from_is_row = from.step == 2 && from.imag == 1, to_is_row = to.step == 2 && to.imag == 1;
    const T* source = work;
    if (pass.kind == FftKind::ComplexToReal && pass.pairs()) {
      entangle_line(pass.n, roots, from, line_of(work));
    } else if (pass.kind == FftKind::ComplexToReal) {
      for (size_t k = 0; k < length; ++k) {
        const ComplexDouble value = from.get(k <= length / 2 ? k : length - k);
        line_of(work).set(k, value.re, k == 0 ? 0.0 : k <= length / 2 ? value.im : -value.im);
      }
    } else if (from_is_row) {
      source = from.data;
    } else {
      for (size_t k = 0; k < length; ++k) {
        const ComplexDouble value = from.get(k);
        line_of(work).set(k, value.re, value.im);
      }
    }
    const bool untangles = pass.kind == FftKind::RealToComplex && pass.pairs();
    T* const target =
        to_is_row && !untangles && (pass.kind == FftKind::ComplexToReal || pass.kept == length) ? to.data : result;
    ET_RETURN_IF_ERROR(transform.run(context, source, work, target, !pass.forward, untangles ? T(1) : scale));
    if (untangles) {
      untangle_line(pass, roots, line_of(result), to);
    } else if (target == result) {
      const size_t stored = pass.kind == FftKind::RealToComplex ? pass.kept : length;
      for (size_t k = 0; k < stored; ++k) {
        const ComplexDouble value = line_of(result).get(k);
        to.set(k, value.re, value.im);
      }
    }
    for (size_t k = pass.n / 2 + 1; untangles && k < pass.kept; ++k) {
      const ComplexDouble value = to.get(pass.n - k);
      to.set(k, value.re, -value.im);
    }
  }
  return Error::Ok;
}

template <typename T>
Error run_pass(KernelContext& context, const Pass<T>& pass) {
  const size_t lanes = pass.outer * pass.inner;
  if (lanes == 0 || pass.n == 0) {
    return Error::Ok;
  }
  constexpr size_t kWorthSplitting = 256;
  const size_t length = pass.length();
  const bool few = 2 * lanes <= num_lanes<T>() && length >= kWorthSplitting && split_length(length) > 1;
  const bool is_long = few || (length > kLongestInLanes && LongTransform<T>::takes(length));
  return is_long ? run_long(context, pass) : run_in_lanes(context, pass);
}

// -------------------------------------------------------------------------------------------------------------------
// kernels

/// Checks what all three operators have in common.
Error check_arguments(const char* op, const Tensor& self, IntArrayRef dims, int64_t normalization) {
  ET_CHECK_OR_RETURN(!dims.empty() && self.dim() > 0, InvalidArgument, "%s: no dimension is given", op);
  ET_CHECK_OR_RETURN(normalization >= 0 && normalization <= 2, InvalidArgument,
                     "%s: normalization is %" PRId64 ", must be 0, 1 or 2", op, normalization);
  for (int64_t dim : dims) {
    ET_RETURN_IF_ERROR(portable::normalize_dim(op, dim, self.dim(), &dim));
  }
  return Error::Ok;
}

size_t index_of(const Tensor& self, int64_t dim) { return static_cast<size_t>(dim < 0 ? dim + self.dim() : dim); }

double scale_of(int64_t normalization, const Sizes& sizes, const Tensor& self, IntArrayRef dims) {
  double count = 1;
  for (const int64_t dim : dims) {
    count *= static_cast<double>(sizes[static_cast<int64_t>(index_of(self, dim))]);
  }
  return normalization == 1 ? 1 / std::sqrt(count) : normalization == 2 ? 1 / count : 1;
}

/// The pass along dimension `d` of row-major tensors whose other sizes are those of `sizes`.
template <typename T>
Pass<T> pass_along(FftKind kind, const void* from, void* to, const Sizes& sizes, size_t d, size_t given, size_t kept,
                   bool forward, double scale) {
  const size_t outer = static_cast<size_t>(product(sizes, 0, d));
  const size_t inner = static_cast<size_t>(product(sizes, d + 1, sizes.size()));
  const size_t n = static_cast<size_t>(sizes[static_cast<int64_t>(d)]);
  return {kind, static_cast<const T*>(from), static_cast<T*>(to), outer, n, inner, given, kept, forward, scale};
}

template <typename T>
Error transform_complex(KernelContext& context, const void* from, void* to, const Tensor& self, IntArrayRef dims,
                        const Sizes& sizes, bool forward, double scale) {
  for (const int64_t dim : dims) {
    const size_t d = index_of(self, dim);
    const auto n = static_cast<size_t>(sizes[static_cast<int64_t>(d)]);
    ET_RETURN_IF_ERROR(run_pass(context, pass_along<T>(FftKind::Complex, from, to, sizes, d, n, n, forward, scale)));
    from = to;
    scale = 1;
  }
  return Error::Ok;
}

/// Calls f(a zero of the type of the numbers in a tensor of `dtype`).
template <typename F>
Error with_numbers(ScalarType dtype, const F& f) {
  return dtype == ScalarType::Float || dtype == ScalarType::ComplexFloat ? f(float()) : f(double());
}

Error fft_c2c_out(KernelContext& context, const Tensor& self, IntArrayRef dim, int64_t normalization, bool forward,
                  Tensor& out) {
  constexpr const char* kOp = "aten::_fft_c2c";
  ET_RETURN_IF_ERROR(check_arguments(kOp, self, dim, normalization));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  const Sizes sizes(self.sizes());
  const double scale = scale_of(normalization, sizes, self, dim);
  return with_numbers(self.scalar_type(), [&](auto zero) {
    return transform_complex<decltype(zero)>(context, self.const_data_ptr(), out.mutable_data_ptr(), self, dim, sizes,
                                             forward, scale);
  });
}

Error fft_r2c_out(KernelContext& context, const Tensor& self, IntArrayRef dim, int64_t normalization, bool onesided,
                  Tensor& out) {
  constexpr const char* kOp = "aten::_fft_r2c";
  ET_RETURN_IF_ERROR(check_arguments(kOp, self, dim, normalization));
  const Sizes sizes(self.sizes());
  const size_t last = index_of(self, dim.back());
  const int64_t n = sizes[static_cast<int64_t>(last)];
  Sizes out_sizes = sizes;
  out_sizes[static_cast<int64_t>(last)] = onesided ? n / 2 + 1 : n;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, out_sizes));
  const double scale = scale_of(normalization, sizes, self, dim);
  const auto kept = static_cast<size_t>(out_sizes[static_cast<int64_t>(last)]);
  return with_numbers(self.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    ET_RETURN_IF_ERROR(
        run_pass(context, pass_along<T>(FftKind::RealToComplex, self.const_data_ptr(), out.mutable_data_ptr(), sizes,
                                        last, static_cast<size_t>(n), kept, true, scale)));
    return transform_complex<T>(context, out.const_data_ptr(), out.mutable_data_ptr(), self,
                                dim.subspan(0, dim.size() - 1), out_sizes, true, 1);
  });
}

Error fft_c2r_out(KernelContext& context, const Tensor& self, IntArrayRef dim, int64_t normalization,
                  int64_t last_dim_size, Tensor& out) {
  constexpr const char* kOp = "aten::_fft_c2r";
  ET_RETURN_IF_ERROR(check_arguments(kOp, self, dim, normalization));
  const size_t last = index_of(self, dim.back());
  const int64_t half = self.size(static_cast<int64_t>(last));
  ET_CHECK_OR_RETURN(last_dim_size >= 1 && last_dim_size / 2 + 1 <= half, InvalidArgument,
                     "%s: last_dim_size is %" PRId64 ", self has %" PRId64
                     " elements along dimension %zu"
                     ", needs last_dim_size / 2 + 1",
                     kOp, last_dim_size, half, last);
  const Sizes given(self.sizes());
  Sizes sizes = given;
  sizes[static_cast<int64_t>(last)] = last_dim_size;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  const double scale = scale_of(normalization, sizes, self, dim);
  return with_numbers(self.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const void* from = self.const_data_ptr();
    if (dim.size() > 1) {
      ET_TRY(T * other, allocate<T>(context, 2 * static_cast<size_t>(self.numel())));
      ET_RETURN_IF_ERROR(
          transform_complex<T>(context, from, other, self, dim.subspan(0, dim.size() - 1), given, false, 1));
      from = other;
    }
    return run_pass(context,
                    pass_along<T>(FftKind::ComplexToReal, from, out.mutable_data_ptr(), sizes, last,
                                  static_cast<size_t>(half), static_cast<size_t>(last_dim_size), false, scale));
  });
}

/// Row-major tensors of numbers of one precision, complex or real ones as the operator has it.
template <bool kFromComplex, bool kToComplex>
bool fits_transform(Arguments args) {
  const EValue& self = *args[0];
  const EValue& out = *args[args.size() - 1];
  constexpr ScalarType kNarrow[] = {ScalarType::Float, ScalarType::ComplexFloat};
  constexpr ScalarType kWide[] = {ScalarType::Double, ScalarType::ComplexDouble};
  const ScalarType from = self.to_tensor().scalar_type(), to = out.to_tensor().scalar_type();
  return is_row_major(self) && is_row_major(out) &&
         ((from == kNarrow[kFromComplex] && to == kNarrow[kToComplex]) ||
          (from == kWide[kFromComplex] && to == kWide[kToComplex]));
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&fft_c2c_out, &fits_transform<true, true>>("aten::_fft_c2c.out"),
    make_fitting_kernel<&fft_c2r_out, &fits_transform<true, false>>("aten::_fft_c2r.out"),
    make_fitting_kernel<&fft_r2c_out, &fits_transform<false, true>>("aten::_fft_r2c.out"),
};

}  // namespace

ET_KERNEL_TABLE(fft, kKernels)

}  // namespace et::kernels::optimized::fft
#endif  // HWY_ONCE
