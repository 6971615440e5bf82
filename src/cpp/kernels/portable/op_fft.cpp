#include "kernels/portable/op_fft.h"

#include <cmath>

#include "kernels/portable/convert.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/shape.h"

// Discrete Fourier transforms of any length, computed in double: mixed radix, decimation in time; lengths with a large
// prime factor as a convolution with a chirp, by transforms of a power of two. Sources: J. W. Cooley, J. W. Tukey, "An
// algorithm for the machine calculation of complex Fourier series", 1965; L. Bluestein, "A linear filtering approach to
// the computation of discrete Fourier transform", 1970.

namespace et::kernels::portable {
namespace {

using Complex = ComplexDouble;

Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
Complex conjugate(Complex a) { return {a.re, -a.im}; }
Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

int64_t smallest_factor(int64_t n) {
  for (int64_t f = 2; f * f <= n; ++f) {
    if (n % f == 0) {
      return f;
    }
  }
  return n;
}

int64_t largest_factor(int64_t n) {
  int64_t largest = 1;
  while (n > 1) {
    largest = smallest_factor(n);  // they come in growing order
    n /= largest;
  }
  return largest;
}

constexpr double kPi = 3.14159265358979323846;

// Transforms of one length and direction, with the table of its roots of unity. Takes time n * (sum of the prime
// factors).
class Plan {
 public:
  // roots: n elements; scratch: 3 n elements.
  Plan(int64_t n, bool forward, Complex* roots, Complex* scratch)
      : n_(n), forward_(forward), roots_(roots), scratch_(scratch) {
    const double step = (forward ? -2.0 : 2.0) * kPi / static_cast<double>(n);
    for (int64_t k = 0; k < n; ++k) {
      roots_[k] = {std::cos(step * static_cast<double>(k)), std::sin(step * static_cast<double>(k))};
    }
  }

  // In place over n elements that are `stride` apart.
  void run(Complex* data, int64_t stride) {
    for (int64_t i = 0; i < n_; ++i) {
      scratch_[i] = data[i * stride];
    }
    transform(scratch_, 1, n_, scratch_ + n_);
    for (int64_t i = 0; i < n_; ++i) {
      data[i * stride] = scratch_[n_ + i];
    }
  }

 private:
  // out[0, n) = transform of in[0], in[stride], … Depth is the number of prime factors of n, at most 62.
  void transform(const Complex* in, int64_t stride, int64_t n, Complex* out) {
    if (n == 1) {
      out[0] = in[0];
      return;
    }
    const int64_t factor = n % 4 == 0 ? 4 : smallest_factor(n);  // by four: half the passes of by two
    const int64_t part = n / factor;
    if (factor == 4 && part == 1) {
      four(in[0], in[stride], in[2 * stride], in[3 * stride], 1, out);
      return;
    }
    for (int64_t k = 0; k < factor; ++k) {
      transform(in + k * stride, stride * factor, part, out + k * part);
    }
    // Butterflies: outputs j, j + part, … depend on element j of each part only.
    const int64_t root_step = n_ / n;
    for (int64_t j = 0; j < part; ++j) {
      butterfly(out + j, part, factor, j, root_step);
    }
  }

  void butterfly(Complex* out, int64_t part, int64_t factor, int64_t j, int64_t root_step) {
    constexpr int64_t kOnStack = 16;
    Complex values[kOnStack];
    if (factor == 4) {
      four(out[0], out[part] * roots_[j * root_step], out[2 * part] * roots_[2 * j * root_step],
           out[3 * part] * roots_[3 * j * root_step], part, out);
      return;
    }
    if (factor == 2) {
      const Complex a = out[0];
      const Complex b = out[part] * roots_[j * root_step];
      out[0] = a + b;
      out[part] = minus(a, b);
      return;
    }
    // A prime factor above kOnStack keeps its inputs in the last third of the scratch memory.
    Complex* const inputs = factor <= kOnStack ? values : scratch_ + 2 * n_;
    for (int64_t k = 0; k < factor; ++k) {
      inputs[k] = out[k * part];
    }
    const int64_t n = part * factor;
    for (int64_t q = 0; q < factor; ++q) {
      Complex sum = inputs[0];
      const int64_t position = j + q * part;
      for (int64_t k = 1; k < factor; ++k) {
        sum = sum + inputs[k] * roots_[k * position % n * root_step];
      }
      out[q * part] = sum;
    }
  }

  // The transform of four numbers, written `part` apart.
  void four(Complex a, Complex b, Complex c, Complex d, int64_t part, Complex* out) const {
    const Complex even = a + c;
    const Complex even_minus = minus(a, c);
    const Complex odd = b + d;
    const Complex turned = minus(b, d);  // times -i forwards, i backwards
    const Complex odd_minus = forward_ ? Complex{turned.im, -turned.re} : Complex{-turned.im, turned.re};
    out[0] = even + odd;
    out[part] = even_minus + odd_minus;
    out[2 * part] = minus(even, odd);
    out[3 * part] = minus(even_minus, odd_minus);
  }
  static Complex minus(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }

  int64_t n_;
  bool forward_;
  Complex* roots_;    // [n]
  Complex* scratch_;  // [3 n]: input, output, inputs of a butterfly
};

// The same for any length, in time n log n. There jk = (j^2 + k^2 - (k - j)^2) / 2 makes the sum over j of x[j] w^jk a
// convolution of x[j] w^(j^2/2) with w^(-j^2/2).
class ChirpPlan {
 public:
  // Steps of the convolution: a power of two that keeps its ends apart.
  static int64_t padded(int64_t n) {
    int64_t m = 1;
    while (m < 2 * n - 1) {
      m *= 2;
    }
    return m;
  }
  // Elements of `memory`.
  static int64_t size(int64_t n) { return n + 6 * padded(n); }

  ChirpPlan(int64_t n, bool forward, Complex* memory)
      : n_(n),
        m_(padded(n)),
        chirp_(memory),
        filter_(chirp_ + n),
        values_(filter_ + m_),
        plan_(m_, true, values_ + m_, values_ + 2 * m_) {
    const double step = (forward ? -kPi : kPi) / static_cast<double>(n);
    int64_t square = 0;  // k^2 modulo 2 n, so that the angle stays exact
    for (int64_t k = 0; k < n; ++k) {
      const double angle = step * static_cast<double>(square);
      chirp_[k] = {std::cos(angle), std::sin(angle)};
      square = (square + 2 * k + 1) % (2 * n);
    }
    for (int64_t k = 0; k < m_; ++k) {
      const int64_t away = k < n ? k : m_ - k;
      filter_[k] = away < n ? conjugate(chirp_[away]) : Complex{0, 0};
    }
    plan_.run(filter_, 1);
  }

  // In place over n elements that are `stride` apart.
  void run(Complex* data, int64_t stride) {
    for (int64_t k = 0; k < m_; ++k) {
      values_[k] = k < n_ ? data[k * stride] * chirp_[k] : Complex{0, 0};
    }
    plan_.run(values_, 1);
    for (int64_t k = 0; k < m_; ++k) {
      values_[k] = conjugate(values_[k] * filter_[k]);
    }
    plan_.run(values_, 1);  // of the conjugate: the inverse, conjugated, times m
    const double scale = 1 / static_cast<double>(m_);
    for (int64_t k = 0; k < n_; ++k) {
      const Complex value = conjugate(values_[k]) * chirp_[k];
      data[k * stride] = {value.re * scale, value.im * scale};
    }
  }

 private:
  int64_t n_;
  int64_t m_;
  Complex* chirp_;   // [n]: w^(k^2/2)
  Complex* filter_;  // [m]: transform of w^(-k^2/2) in both directions
  Complex* values_;  // [m]
  Plan plan_;        // 4 m elements
};

// Prime factors above this make mixed radix the slower way.
constexpr int64_t kLargestFactor = 100;

double scale_of(int64_t normalization, double count) {
  return normalization == 1 ? 1 / std::sqrt(count) : normalization == 2 ? 1 / count : 1;
}

Result<Complex*> allocate(KernelContext& context, int64_t count) {
  ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(count) * sizeof(Complex)));
  return static_cast<Complex*>(memory);
}

// Transforms the row-major buffer `data` of `sizes` along dimension `dim`, in place.
Error transform_dim(KernelContext& context, Complex* data, IntArrayRef sizes, int64_t dim, bool forward) {
  const int64_t n = sizes[static_cast<size_t>(dim)];
  const int64_t inner = product(sizes, static_cast<size_t>(dim) + 1, sizes.size());
  const int64_t outer = product(sizes, 0, static_cast<size_t>(dim));
  if (outer * n * inner == 0) {
    return Error::Ok;
  }
  const auto run_all = [&](auto& plan) {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        plan.run(data + o * n * inner + i, inner);
      }
    }
  };
  const bool by_chirp = largest_factor(n) > kLargestFactor;
  ET_TRY(Complex * memory, allocate(context, by_chirp ? ChirpPlan::size(n) : 4 * n));
  if (by_chirp) {
    ChirpPlan plan(n, forward, memory);
    run_all(plan);
  } else {
    Plan plan(n, forward, memory, memory + n);
    run_all(plan);
  }
  return Error::Ok;
}

Error check_arguments(const char* op, const Tensor& self, IntArrayRef dims, int64_t normalization, bool complex_input) {
  ET_CHECK_OR_RETURN(is_complex(self.scalar_type()) == complex_input, InvalidType, "%s: self is %s", op,
                     to_string(self.scalar_type()));
  ET_CHECK_OR_RETURN(!dims.empty() && self.dim() > 0, InvalidArgument, "%s: no dimension is given", op);
  ET_CHECK_OR_RETURN(normalization >= 0 && normalization <= 2, InvalidArgument,
                     "%s: normalization is %" PRId64 ", must be 0, 1 or 2", op, normalization);
  return Error::Ok;
}

Complex load_complex(const Tensor& tensor, int64_t i) {
  if (tensor.scalar_type() == ScalarType::ComplexFloat) {
    const ComplexFloat value = tensor.const_data_ptr<ComplexFloat>()[i];
    return {value.re, value.im};
  }
  return tensor.const_data_ptr<ComplexDouble>()[i];
}

void store_complex(const Tensor& tensor, int64_t i, Complex value) {
  if (tensor.scalar_type() == ScalarType::ComplexFloat) {
    tensor.mutable_data_ptr<ComplexFloat>()[i] = {static_cast<float>(value.re), static_cast<float>(value.im)};
  } else {
    tensor.mutable_data_ptr<ComplexDouble>()[i] = value;
  }
}

}  // namespace

Error fft_r2c_out(KernelContext& context, const Tensor& self, IntArrayRef dim, int64_t normalization, bool onesided,
                  Tensor& out) {
  const char* op = "aten::_fft_r2c";
  ET_RETURN_IF_ERROR(check_arguments(op, self, dim, normalization, false));
  ET_CHECK_OR_RETURN(is_floating(self.scalar_type()) && is_complex(out.scalar_type()), InvalidType, "%s: %s to %s", op,
                     to_string(self.scalar_type()), to_string(out.scalar_type()));
  Sizes sizes(self.sizes());
  int64_t last = 0;
  ET_RETURN_IF_ERROR(normalize_dim(op, dim.back(), self.dim(), &last));
  const int64_t full = sizes[last];
  const int64_t kept = onesided ? full / 2 + 1 : full;
  Sizes out_sizes = sizes;
  out_sizes[last] = kept;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, out_sizes));
  ET_RETURN_IF_ERROR(check_row_major(op, {&self, &out}));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  ET_TRY(Complex * data, allocate(context, self.numel()));
  for (int64_t i = 0; i < self.numel(); ++i) {
    data[i] = {load_one<double>(self.scalar_type(), self.const_data_ptr(), i), 0};
  }
  double count = 1;
  for (const int64_t d : dim) {
    int64_t index = 0;
    ET_RETURN_IF_ERROR(normalize_dim(op, d, self.dim(), &index));
    count *= static_cast<double>(sizes[index]);
    ET_RETURN_IF_ERROR(transform_dim(context, data, sizes, index, true));
  }
  const double scale = scale_of(normalization, count);
  const int64_t inner = product(sizes, static_cast<size_t>(last) + 1, sizes.size());
  const int64_t outer = product(sizes, 0, static_cast<size_t>(last));
  for (int64_t o = 0, to = 0; o < outer; ++o) {
    for (int64_t i = 0; i < kept * inner; ++i, ++to) {
      const Complex value = full == 0 ? Complex{0, 0} : data[o * full * inner + i];
      store_complex(out, to, {value.re * scale, value.im * scale});
    }
  }
  return Error::Ok;
}

Error fft_c2c_out(KernelContext& context, const Tensor& self, IntArrayRef dim, int64_t normalization, bool forward,
                  Tensor& out) {
  const char* op = "aten::_fft_c2c";
  ET_RETURN_IF_ERROR(check_arguments(op, self, dim, normalization, true));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  ET_RETURN_IF_ERROR(check_row_major(op, {&self, &out}));
  ET_TRY(Complex * data, allocate(context, self.numel()));
  for (int64_t i = 0; i < self.numel(); ++i) {
    data[i] = load_complex(self, i);
  }
  double count = 1;
  for (const int64_t d : dim) {
    int64_t index = 0;
    ET_RETURN_IF_ERROR(normalize_dim(op, d, self.dim(), &index));
    count *= static_cast<double>(self.size(index));
    ET_RETURN_IF_ERROR(transform_dim(context, data, self.sizes(), index, forward));
  }
  const double scale = scale_of(normalization, count);
  for (int64_t i = 0; i < self.numel(); ++i) {
    store_complex(out, i, {data[i].re * scale, data[i].im * scale});
  }
  return Error::Ok;
}

Error fft_c2r_out(KernelContext& context, const Tensor& self, IntArrayRef dim, int64_t normalization,
                  int64_t last_dim_size, Tensor& out) {
  const char* op = "aten::_fft_c2r";
  ET_RETURN_IF_ERROR(check_arguments(op, self, dim, normalization, true));
  ET_CHECK_OR_RETURN(is_floating(out.scalar_type()), InvalidType, "%s: out is %s", op, to_string(out.scalar_type()));
  int64_t last = 0;
  ET_RETURN_IF_ERROR(normalize_dim(op, dim.back(), self.dim(), &last));
  const int64_t half = self.size(last);
  ET_CHECK_OR_RETURN(last_dim_size >= 1 && last_dim_size / 2 + 1 <= half, InvalidArgument,
                     "%s: last_dim_size is %" PRId64 ", self has %" PRId64 " elements along dimension %" PRId64
                     ", needs last_dim_size / 2 + 1",
                     op, last_dim_size, half, last);
  Sizes sizes(self.sizes());
  sizes[last] = last_dim_size;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  ET_RETURN_IF_ERROR(check_row_major(op, {&self, &out}));
  if (out.numel() == 0) {
    return Error::Ok;
  }

  // All other dimensions first, on the half that is given; then the other half follows from the symmetry.
  ET_TRY(Complex * given, allocate(context, self.numel()));
  for (int64_t i = 0; i < self.numel(); ++i) {
    given[i] = load_complex(self, i);
  }
  double count = static_cast<double>(last_dim_size);
  for (size_t k = 0; k + 1 < dim.size(); ++k) {
    int64_t index = 0;
    ET_RETURN_IF_ERROR(normalize_dim(op, dim[k], self.dim(), &index));
    count *= static_cast<double>(self.size(index));
    ET_RETURN_IF_ERROR(transform_dim(context, given, self.sizes(), index, false));
  }
  const int64_t n = last_dim_size;
  const int64_t inner = product(sizes, static_cast<size_t>(last) + 1, sizes.size());
  const int64_t outer = product(sizes, 0, static_cast<size_t>(last));
  ET_TRY(Complex * full, allocate(context, outer * n * inner));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t k = 0; k < n; ++k) {
      for (int64_t i = 0; i < inner; ++i) {
        const bool is_given = k <= n / 2;
        Complex value = given[(o * half + (is_given ? k : n - k)) * inner + i];
        value.im = k == 0 || 2 * k == n ? 0 : is_given ? value.im : -value.im;
        full[(o * n + k) * inner + i] = value;
      }
    }
  }
  ET_RETURN_IF_ERROR(transform_dim(context, full, sizes, last, false));
  const double scale = scale_of(normalization, count);
  for (int64_t i = 0; i < out.numel(); ++i) {
    store_one<double>(out.scalar_type(), full[i].re * scale, out.mutable_data_ptr(), i);
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
