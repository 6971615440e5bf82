#include "kernel_harness.h"
#include "numerics/sparse_weight.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityLibrary;
using runtime::kPriorityOptimized;

const uint8_t kAll[] = {kPriorityOptimized, kPriorityLibrary};

/// Bits and values of a random weight of which `density` is kept.
struct Weight {
  std::vector<int64_t> size, mask;
  std::vector<float> values;
  int64_t rows;
  int64_t words;

  Weight(std::vector<int64_t> sizes, double density, uint64_t seed = 7) : size(std::move(sizes)), rows(size[0]) {
    int64_t columns = 1;
    for (size_t i = 1; i < size.size(); ++i) {
      columns *= size[i];
    }
    words = static_cast<int64_t>(sparse_words(static_cast<size_t>(columns)));
    mask.resize(static_cast<size_t>(size[0] * words));
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<float> unit(0, 1);
    for (int64_t r = 0; r < size[0]; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        if (unit(random) < density) {
          mask[static_cast<size_t>(r * words + c / 64)] |= static_cast<int64_t>(uint64_t{1} << c % 64);
          values.push_back(unit(random) - 0.5f);
        }
      }
    }
  }

  /// The arguments values and mask.
  void add_to(Call& call) const {
    call.constant_values(values, {static_cast<int64_t>(values.size())});
    call.constant_values(mask, {rows, words});
  }
};

Call linear(const Weight& weight, std::vector<int64_t> input, bool bias, bool clamp) {
  Call call("et::sparse_linear.out");
  call.tensor(input);
  weight.add_to(call);
  bias ? call.constant({weight.rows}) : call.none();
  call.list(weight.size);
  clamp ? call.number(-0.5).number(0.75) : call.none().none();
  input.back() = weight.rows;
  call.out(input);
  return call;
}

TEST(Sparse, Linear) {
  for (const int64_t n : {1, 16, 37}) {
    for (const int64_t k : {1, 63, 64, 200}) {
      for (const double density : {0.0, 0.05, 0.3, 1.0}) {
        const Weight weight({n, k}, density);
        for (const int64_t rows : {0, 1, 2, 3, 4, 5, 16, 33, 70}) {
          for (const uint8_t priority : kAll) {
            Call call = linear(weight, {rows, k}, rows % 2 == 0, rows % 3 == 0);
            if (priority == kPriorityOptimized || call.fits(priority)) {
              SCOPED_TRACE(::testing::Message() << n << " x " << k << ", density " << density << ", rows " << rows
                                                << ", priority " << int{priority});
              call.expect_same(priority, 1e-5);
            }
          }
        }
      }
    }
  }
}

TEST(Sparse, LinearOfManyDimensionsAndLargeWeights) {
  for (const double density : {0.02, 0.15, 0.3}) {
    const Weight weight({300, 1000}, density);
    for (const std::vector<int64_t>& input : {std::vector<int64_t>{1000}, {1, 1, 1000}, {3, 7, 1000}, {200, 1000}}) {
      linear(weight, input, true, true).expect_same(kPriorityOptimized, 1e-5);
      // Before a dense library where it costs less.
      const bool is_one_row = input.size() == 1 || input[1] == 1;
      const bool is_cheaper = !is_one_row || density < 0.05 || !Call::has_library("et::sparse_linear.out");
      const int chosen = linear(weight, input, false, false).chosen();
      EXPECT_EQ(chosen == optimized::kPriorityOffering, is_cheaper) << input.size() << " dims, " << density;
    }
  }
  const int chosen = linear(Weight({300, 1000}, 0.6), {200, 1000}, false, false).chosen();
  EXPECT_NE(chosen == optimized::kPriorityOffering, Call::has_library("et::sparse_linear.out"));
}

struct Image {
  std::vector<int64_t> input, weight, stride, padding, dilation, out;
  int64_t groups;
};

Call convolution(const Image& c, const Weight& weight, Order input, Order out) {
  Call call("et::sparse_convolution.out");
  call.tensor(c.input, input);
  weight.add_to(call);
  call.constant({weight.size[0]});
  call.list(weight.size).list(c.stride).list(c.padding).list(c.dilation).integer(c.groups);
  call.number(-0.5).none().out(c.out, out);
  return call;
}

TEST(Sparse, Convolution) {
  const Image cases[] = {
      {{1, 40, 7, 9}, {24, 40, 1, 1}, {1}, {0}, {1}, {1, 24, 7, 9}, 1},
      {{2, 6, 13, 17}, {7, 6, 3, 2}, {1, 2}, {1, 0}, {1, 3}, {2, 7, 13, 7}, 1},
      {{2, 8, 9, 9}, {12, 4, 3, 3}, {2}, {1}, {1}, {2, 12, 5, 5}, 2},
      {{1, 8, 9, 9}, {12, 8, 1, 1}, {2}, {0}, {1}, {1, 12, 5, 5}, 1},
      {{2, 6, 50}, {8, 6, 3}, {1}, {1}, {1}, {2, 8, 50}, 1},
      {{1, 4, 7, 8, 9}, {6, 4, 3, 3, 3}, {2}, {1}, {1}, {1, 6, 4, 4, 5}, 1},
      {{5, 13, 17}, {7, 5, 3, 3}, {1}, {1}, {1}, {7, 13, 17}, 1},
  };
  for (const Image& c : cases) {
    for (const double density : {0.0, 0.1, 0.6}) {
      const Weight weight(c.weight, density);
      const bool has_batch = c.input.size() == c.weight.size();
      for (const Order input : {kRowMajor, kChannelsLast}) {
        for (const Order out : {kRowMajor, kChannelsLast}) {
          for (const uint8_t priority : kAll) {
            if (!has_batch && (input == kChannelsLast || out == kChannelsLast)) {
              continue;
            }
            Call call = convolution(c, weight, input, out);
            if (priority == kPriorityOptimized || call.fits(priority)) {
              SCOPED_TRACE(::testing::Message()
                           << "rank " << c.input.size() << ", density " << density << ", priority " << int{priority});
              call.expect_same(priority, 1e-5);
            }
          }
        }
      }
    }
  }
}

/// Whatever is wrong with a weight is an error of each kernel, at load or at the call.
TEST(Sparse, WrongWeights) {
  const auto expect_refused = [](const Weight& weight) {
    for (const uint8_t priority : {runtime::kPriorityPortable, kPriorityOptimized, kPriorityLibrary}) {
      const Error error = linear(weight, {8, 100}, false, false).error(priority);
      EXPECT_TRUE(error == Error::InvalidArgument || error == Error::NotSupported) << int{priority};
      EXPECT_TRUE(priority != runtime::kPriorityPortable || error == Error::InvalidArgument);
    }
  };
  const Weight good({20, 100}, 0.2);
  EXPECT_EQ(linear(good, {8, 100}, false, false).error(kPriorityOptimized), Error::Ok);
  Weight weight = good;
  weight.values.pop_back();
  expect_refused(weight);
  weight = good;
  weight.values.push_back(1);
  expect_refused(weight);
  weight = good;
  weight.mask[1] ^= int64_t{1} << 36;  // column 100
  weight.values.push_back(1);
  expect_refused(weight);
  weight = good;
  weight.mask[39] ^= 1;
  expect_refused(weight);
  weight = good;
  weight.size[0] = 21;
  expect_refused(weight);
  weight = good;
  weight.size[1] = 101;
  expect_refused(weight);
  for (const int64_t size : {int64_t{0}, int64_t{-1}, int64_t{1} << 33, INT64_MAX, INT64_MIN}) {
    weight = good;
    weight.size[1] = size;
    expect_refused(weight);
    weight = good;
    weight.size[0] = size;
    expect_refused(weight);
  }
  weight = good;
  weight.size = {20, int64_t{1} << 32, int64_t{1} << 32};
  expect_refused(weight);
  weight = good;
  weight.size = {20};
  expect_refused(weight);
}

}  // namespace
}  // namespace et::kernels::testing
