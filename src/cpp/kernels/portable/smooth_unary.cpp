#include "kernels/portable/smooth_unary.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "kernels/portable/elementwise.h"
#include "threads/parallel.h"

namespace et::kernels::portable {
namespace {

/// What a polynomial must be for numbers of T.
template <typename T>
struct Precision {
  static constexpr size_t kTerms = 8;
  static constexpr double kTolerance = 0x1p-27;  // of the largest value in the interval
  static constexpr double kLeast = 0.0;          // the smallest magnitude in the interval, as a share of the largest
};
/// Near a zero the rounding of the others would show.
template <>
struct Precision<double> {
  static constexpr size_t kTerms = 14;
  static constexpr double kTolerance = 0x1p-47;  // the functions themselves are right to some units in the last place
  static constexpr double kLeast = 0.25;
};

/// A function of T by polynomials over intervals: those of the numbers that share, as floats, their sign, exponent and
/// leading bits. An interval gets its polynomial when it was used often enough to pay.
/// Source: the interpolation at Chebyshev's nodes; L. N. Trefethen, "Approximation theory and approximation practice",
///         2013.
template <typename T>
class SmoothTable {
 public:
  explicit SmoothTable(SmoothFunction function) : function_(function) {
    for (uint32_t i = 0; i < kIntervals; ++i) {
      const uint32_t exponent = i >> kLeadingBits & 0xff;  // zero, infinities and NaN are outside, too
      places_[i] = exponent >= 127 - kExponents && exponent < 127 + kExponents ? 0 : kNone;
    }
  }

  T operator()(T x) {
    const auto rounded = static_cast<float>(x);
    uint32_t bits;
    std::memcpy(&bits, &rounded, sizeof(bits));
    uint16_t place = places_[bits >> (23 - kLeadingBits)];
    if (place < kFirstPolynomial) {
      if (x == T(0)) {  // as integers often are; its two signs may differ
        return zero(bits >> 31 != 0);
      }
      place = consider(bits);
      if (place < kFirstPolynomial) {
        return static_cast<T>(function_(static_cast<double>(x)));
      }
    }
    const double* const c = polynomials_[place - kFirstPolynomial];
    const double d = static_cast<double>(x - static_cast<T>(middle(bits)));
    const double d2 = d * d;
    const double low = (c[0] + c[1] * d) + d2 * (c[2] + c[3] * d);
    if constexpr (kTerms == 8) {
      return static_cast<T>(low + d2 * d2 * ((c[4] + c[5] * d) + d2 * (c[6] + c[7] * d)));
    } else {
      const double d4 = d2 * d2;
      const double high = (c[8] + c[9] * d) + d2 * (c[10] + c[11] * d) + d4 * (c[12] + c[13] * d);
      return static_cast<T>(low + d4 * (((c[4] + c[5] * d) + d2 * (c[6] + c[7] * d)) + d4 * high));
    }
  }

 private:
  static constexpr uint32_t kLeadingBits = 5;
  static constexpr uint32_t kExponents = 32;  // of magnitudes below 2^32 and from 2^-32 on
  static constexpr uint32_t kIntervals = 1u << (9 + kLeadingBits);
  static constexpr size_t kTerms = Precision<T>::kTerms;
  static constexpr uint16_t kWorthwhile = 3 * kTerms;                // calls; making a polynomial takes half as many
  static constexpr uint16_t kNone = 0xff, kFirstPolynomial = 0x100;  // below: how often an interval was used
  static constexpr size_t kMostPolynomials = 1024;

  T zero(bool is_negative) {
    if (!has_zero_[is_negative]) {
      has_zero_[is_negative] = true;
      zero_[is_negative] = static_cast<T>(function_(is_negative ? -0.0 : 0.0));
    }
    return zero_[is_negative];
  }

  static float middle(uint32_t bits) {
    bits = (bits & ~((1u << (23 - kLeadingBits)) - 1)) | 1u << (22 - kLeadingBits);
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }

  /// Counts a call in the interval of `bits`, which has no polynomial, and makes one when it is time.
  uint16_t consider(uint32_t bits) {
    uint16_t& place = places_[bits >> (23 - kLeadingBits)];
    if (place != kNone && ++place == kWorthwhile) {
      place = make(bits);
    }
    return place;
  }

  /// Interpolates over the interval of `bits`: kNone where that is not good enough.
  uint16_t make(uint32_t bits) {
    if (count_ == kMostPolynomials) {
      return kNone;
    }
    constexpr double kPi = 3.14159265358979323846;
    const double center = static_cast<double>(middle(bits));
    const double half = std::ldexp(1.0, static_cast<int>(bits >> 23 & 0xff) - 127 - static_cast<int>(kLeadingBits) - 1);
    double values[kTerms];
    double largest = 0.0, least = HUGE_VAL;
    for (size_t i = 0; i < kTerms; ++i) {
      values[i] = function_(center + half * std::cos(kPi * (static_cast<double>(i) + 0.5) / kTerms));
      largest = std::max(largest, std::fabs(values[i]));
      least = std::min(least, std::fabs(values[i]));
    }
    if (least < Precision<T>::kLeast * largest) {
      return kNone;
    }
    // Coefficients of Chebyshev's polynomials, added up as those of powers.
    double* const c = polynomials_[count_];
    double before[kTerms] = {}, now[kTerms] = {1.0};  // T(j - 1) and T(j)
    std::fill(c, c + kTerms, 0.0);
    for (size_t j = 0; j < kTerms; ++j) {
      double sum = 0.0;
      for (size_t i = 0; i < kTerms; ++i) {
        sum += values[i] * std::cos(kPi * static_cast<double>(j) * (static_cast<double>(i) + 0.5) / kTerms);
      }
      sum *= (j == 0 ? 1.0 : 2.0) / kTerms;
      double next[kTerms];
      for (size_t k = 0; k < kTerms; ++k) {
        c[k] += sum * now[k];
        next[k] = (j == 0 ? 1.0 : 2.0) * (k == 0 ? 0.0 : now[k - 1]) - before[k];
      }
      std::copy(now, now + kTerms, before);
      std::copy(next, next + kTerms, now);
    }
    const double tolerance = Precision<T>::kTolerance * largest;
    for (const double t : {-0.99, -0.6, -0.05, 0.45, 0.9, 0.995}) {
      double value = 0.0;
      for (size_t k = kTerms; k-- > 0;) {
        value = value * t + c[k];
      }
      if (!(std::fabs(value - function_(center + half * t)) <= tolerance)) {
        return kNone;
      }
    }
    double scale = 1.0;
    for (size_t k = 0; k < kTerms; ++k, scale /= half) {
      c[k] *= scale;
    }
    return static_cast<uint16_t>(kFirstPolynomial + count_++);
  }

  SmoothFunction function_;
  size_t count_ = 0;
  bool has_zero_[2] = {};
  T zero_[2];
  uint16_t places_[kIntervals];
  double polynomials_[kMostPolynomials][kTerms];
};

constexpr size_t kWorthTable = 16384;  // elements a task

/// Errors: MemoryAllocationFailed, before anything is written.
template <typename T>
Error by_tables(KernelContext& context, const Tensor& self, Tensor& out, SmoothFunction function) {
  const auto numel = static_cast<size_t>(self.numel());
  const size_t threads = context.pool() == nullptr ? 1 : context.pool()->num_threads();
  const size_t tasks = threads == 1 ? 1 : std::min(2 * threads, numel / kWorthTable);
  ET_TRY(void* const memory, context.allocate_temp(tasks * sizeof(SmoothTable<T>)));
  threads::parallel_tasks(context.pool(), tasks, [&](size_t task) {
    auto& table = *new (static_cast<SmoothTable<T>*>(memory) + task) SmoothTable<T>(function);
    constexpr size_t kChunk = 256;
    T values[kChunk];
    const size_t end = (task + 1) * numel / tasks;
    for (size_t i = task * numel / tasks; i < end && !context.cancelled(); i += kChunk) {
      const size_t n = std::min(kChunk, end - i);
      load(self.scalar_type(), static_cast<const char*>(self.const_data_ptr()) + i * self.element_size(), 1,
           static_cast<int64_t>(n), values);
      for (size_t k = 0; k < n; ++k) {
        values[k] = table(values[k]);
      }
      store(out.scalar_type(), values, static_cast<int64_t>(n),
            static_cast<char*>(out.mutable_data_ptr()) + i * out.element_size(), 1);
    }
  });
  return Error::Ok;
}

/// Elements of a byte have at most 256 values: the function is called once for each that occurs.
Error by_values(const Tensor& self, const Tensor& out, SmoothFunction function) {
  const ScalarType from = self.scalar_type();
  const auto* const data = static_cast<const uint8_t*>(self.const_data_ptr());
  float results[256];
  bool is_known[256] = {};
  constexpr size_t kChunk = 256;
  float values[kChunk];
  const auto numel = static_cast<size_t>(self.numel());
  for (size_t i = 0; i < numel; i += kChunk) {
    const size_t n = std::min(kChunk, numel - i);
    for (size_t k = 0; k < n; ++k) {
      const uint8_t byte = data[i + k];
      if (!is_known[byte]) {
        is_known[byte] = true;
        double value;
        load<double>(from, &byte, 1, 1, &value);
        results[byte] = static_cast<float>(function(value));
      }
      values[k] = results[byte];
    }
    store(out.scalar_type(), values, static_cast<int64_t>(n),
          static_cast<char*>(out.mutable_data_ptr()) + i * out.element_size(), 1);
  }
  return Error::Ok;
}

}  // namespace

Error smooth_unary(KernelContext& context, const char* op, const Tensor& self, Tensor& out, SmoothFunction function) {
  const ScalarType from = self.scalar_type(), to = out.scalar_type();
  const bool is_wide = from == ScalarType::Double;
  const auto call_each = [&] {
    return float_unary(context, op, self, out,
                       [function](auto x) { return static_cast<decltype(x)>(function(static_cast<double>(x))); });
  };
  if (static_cast<size_t>(self.numel()) < kWorthTable || is_complex(from) || !is_floating(to) ||
      is_wide != (to == ScalarType::Double) || !is_contiguous(self) || !is_contiguous(out)) {
    return call_each();
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  if (self.element_size() == 1) {
    return by_values(self, out, function);
  }
  const Error error =
      is_wide ? by_tables<double>(context, self, out, function) : by_tables<float>(context, self, out, function);
  return error == Error::Ok ? Error::Ok : call_each();  // no memory on a small machine: the same result, slower
}

}  // namespace et::kernels::portable
