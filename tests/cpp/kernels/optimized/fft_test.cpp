#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

constexpr ScalarType kReal[] = {ScalarType::Float, ScalarType::Double};
constexpr ScalarType kComplex[] = {ScalarType::ComplexFloat, ScalarType::ComplexDouble};
constexpr double kTolerance[] = {1e-6, 1e-14};

// Lengths of every radix; primes that make a convolution; ones too long for the lanes of a vector, with and without.
constexpr int64_t kLengths[] = {1, 2, 3, 4, 5, 7, 12, 33, 100, 101, 256, 303, 1000, 5000, 4099, 8198};

void expect_all_kinds(const std::vector<int64_t>& sizes, const std::vector<int64_t>& dims, int64_t normalization) {
  for (const int wide : {0, 1}) {
    for (const bool forward : {true, false}) {
      Call("aten::_fft_c2c.out")
          .numbers(kComplex[wide], sizes)
          .list(dims)
          .integer(normalization)
          .flag(forward)
          .out(sizes, kRowMajor, kComplex[wide])
          .expect_same(kPriorityOptimized, kTolerance[wide]);
    }
    const auto last = static_cast<size_t>(dims.back());
    std::vector<int64_t> half = sizes;
    half[last] = sizes[last] / 2 + 1;
    for (const bool onesided : {true, false}) {
      Call("aten::_fft_r2c.out")
          .numbers(kReal[wide], sizes)
          .list(dims)
          .integer(normalization)
          .flag(onesided)
          .out(onesided ? half : sizes, kRowMajor, kComplex[wide])
          .expect_same(kPriorityOptimized, kTolerance[wide]);
    }
    Call("aten::_fft_c2r.out")
        .numbers(kComplex[wide], half)
        .list(dims)
        .integer(normalization)
        .integer(sizes[last])
        .out(sizes, kRowMajor, kReal[wide])
        .expect_same(kPriorityOptimized, kTolerance[wide]);
  }
}

TEST(Fourier, LinesOfEveryLength) {
  for (const int64_t n : kLengths) {
    SCOPED_TRACE(n);
    expect_all_kinds({n}, {0}, 0);
    expect_all_kinds({3, n}, {1}, 1);
    expect_all_kinds({n, 2}, {0}, 2);
  }
}

TEST(Fourier, ManyAndStridedLines) {
  for (const int64_t n : {1, 2, 15, 16, 101}) {
    SCOPED_TRACE(n);
    expect_all_kinds({37, n}, {1}, 0);
    expect_all_kinds({2, n, 21}, {1}, 1);
    expect_all_kinds({5, n, 3}, {1}, 2);
  }
  expect_all_kinds({7, 4099}, {1}, 0);
}

TEST(Fourier, SeveralDimensions) {
  expect_all_kinds({3, 12, 10, 20}, {1, 3, 2}, 1);
  expect_all_kinds({9, 15}, {0, 1}, 0);
  expect_all_kinds({0, 4}, {1}, 0);
}

}  // namespace
}  // namespace et::kernels::testing
