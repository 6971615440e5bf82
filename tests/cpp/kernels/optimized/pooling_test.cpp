// Pooling of images with channels innermost: windows of all kinds, cut off at the edges, channels around the vectors,
// every element type, every instruction set, NaN. Also of row-major images whose last windows reach over the edge.

#include <algorithm>
#include <array>
#include <limits>

#include "instruction_sets.h"
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

struct Pool {
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
  int64_t dilation = 1;
  bool ceil_mode = false;
};

constexpr Pool kPools[] = {
    {3, 3, 2, 2, 0, 0, 1, true}, {3, 3, 2, 2, 1, 1},          {2, 2, 2, 2, 0, 0},    {5, 5, 1, 1, 2, 2},
    {3, 2, 1, 3, 1, 0, 2},       {3, 3, 3, 4, 1, 1, 1, true}, {1, 4, 1, 2, 0, 2},    {7, 3, 2, 1, 3, 1, 1},
    {2, 2, 5, 5, 1, 1, 1, true}, {9, 9, 1, 1, 4, 4},          {3, 3, 1, 1, 1, 1, 3}, {13, 12, 13, 12, 0, 0},
};

/// Of `size` elements, as ATen counts.
int64_t extent(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil_mode) {
  const int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
  const int64_t out = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  return ceil_mode && (out - 1) * stride >= size + padding ? out - 1 : out;
}

Call& image(Call& call, ScalarType dtype, const std::vector<int64_t>& sizes, Order order = kChannelsLast) {
  return dtype == ScalarType::Float ? call.tensor(sizes, order) : call.bytes_of(dtype, sizes, order);
}

Call& describe_largest(Call& call, const Pool& p, ScalarType dtype, std::vector<int64_t> sizes, Order order) {
  image(call, dtype, sizes, order);
  call.list({p.kernel_h, p.kernel_w}).list({p.stride_h, p.stride_w}).list({p.pad_h, p.pad_w});
  call.list({p.dilation, p.dilation}).flag(p.ceil_mode);
  sizes[2] = extent(sizes[2], p.kernel_h, p.stride_h, p.pad_h, p.dilation, p.ceil_mode);
  sizes[3] = extent(sizes[3], p.kernel_w, p.stride_w, p.pad_w, p.dilation, p.ceil_mode);
  return call.out(sizes, order, dtype);
}

void expect_largest(const Pool& p, ScalarType dtype, const std::vector<int64_t>& sizes, Order order = kChannelsLast) {
  SCOPED_TRACE(::testing::Message() << "kernel " << p.kernel_h << " x " << p.kernel_w << ", " << sizes[1]
                                    << " channels, " << sizes[2] << " x " << sizes[3]);
  Call call("et::max_pool2d.out");
  describe_largest(call, p, dtype, sizes, order).expect_same(kPriorityOptimized);
}

void expect_means(const Pool& p, std::vector<int64_t> sizes, bool counts_padding, int64_t divisor = 0,
                  Order order = kChannelsLast) {
  SCOPED_TRACE(::testing::Message() << "kernel " << p.kernel_h << " x " << p.kernel_w << ", " << sizes[1]
                                    << " channels, counts padding: " << counts_padding);
  Call call("aten::avg_pool2d.out");
  image(call, ScalarType::Float, sizes, order);
  call.list({p.kernel_h, p.kernel_w}).list({p.stride_h, p.stride_w}).list({p.pad_h, p.pad_w});
  call.flag(p.ceil_mode).flag(counts_padding);
  divisor == 0 ? call.none() : call.integer(divisor);
  sizes[2] = extent(sizes[2], p.kernel_h, p.stride_h, p.pad_h, 1, p.ceil_mode);
  sizes[3] = extent(sizes[3], p.kernel_w, p.stride_w, p.pad_w, 1, p.ceil_mode);
  call.out(sizes, order).expect_same(kPriorityOptimized, 1e-6);
}

void expect_integer_means(const Pool& p, ScalarType dtype, std::vector<int64_t> sizes, bool counts_padding,
                          int64_t divisor = 0) {
  SCOPED_TRACE(::testing::Message() << "kernel " << p.kernel_h << " x " << p.kernel_w << ", " << sizes[1]
                                    << " channels");
  const int64_t zero_point = dtype == ScalarType::Char ? -3 : 120, lowest = dtype == ScalarType::Char ? -128 : 0;
  Call call("et::quantized_avg_pool2d.out");
  image(call, dtype, sizes).number(0.05).integer(zero_point);
  call.list({p.kernel_h, p.kernel_w}).list({p.stride_h, p.stride_w}).list({p.pad_h, p.pad_w});
  call.flag(p.ceil_mode).flag(counts_padding);
  divisor == 0 ? call.none() : call.integer(divisor);
  call.number(0.03).integer(zero_point + 5).integer(lowest).integer(lowest + 240);
  sizes[2] = extent(sizes[2], p.kernel_h, p.stride_h, p.pad_h, 1, p.ceil_mode);
  sizes[3] = extent(sizes[3], p.kernel_w, p.stride_w, p.pad_w, 1, p.ceil_mode);
  call.out(sizes, kChannelsLast, dtype).expect_same(kPriorityOptimized);
}

TEST(Pooling, WindowsOfAllKinds) {
  for (const Pool& p : kPools) {
    for (const ScalarType dtype : {ScalarType::Float, ScalarType::Char, ScalarType::Byte}) {
      expect_largest(p, dtype, {2, 20, 14, 15});
      expect_largest(p, dtype, {1, 6, 14, 33}, kRowMajor);
    }
    if (p.dilation == 1) {
      for (const bool counts_padding : {false, true}) {
        expect_means(p, {2, 20, 14, 15}, counts_padding);
        expect_means(p, {2, 3, 14, 33}, counts_padding, 0, kRowMajor);
        expect_integer_means(p, ScalarType::Char, {2, 20, 14, 15}, counts_padding);
        expect_integer_means(p, ScalarType::Byte, {2, 20, 14, 15}, counts_padding);
      }
      expect_means(p, {1, 3, 14, 15}, true, 7);
      expect_means(p, {1, 3, 14, 15}, true, -2);
      expect_means(p, {1, 3, 14, 15}, true, 7, kRowMajor);
      expect_integer_means(p, ScalarType::Char, {1, 3, 14, 15}, true, 7);
    }
  }
}

TEST(Pooling, Volumes) {
  const std::vector<int64_t> volume = {2, 3, 7, 10, 37};
  for (const Pool& p : kPools) {
    for (const int64_t depth : {1, 2, 3}) {  // of a window
      const int64_t pad = depth / 2;
      std::vector<int64_t> sizes = volume;
      const auto describe = [&](Call& call, int64_t dilation) -> Call& {
        call.list({depth, p.kernel_h, p.kernel_w}).list({2, p.stride_h, p.stride_w}).list({pad, p.pad_h, p.pad_w});
        sizes[2] = extent(volume[2], depth, 2, pad, dilation, p.ceil_mode);
        sizes[3] = extent(volume[3], p.kernel_h, p.stride_h, p.pad_h, dilation, p.ceil_mode);
        sizes[4] = extent(volume[4], p.kernel_w, p.stride_w, p.pad_w, dilation, p.ceil_mode);
        return call;
      };
      if (10 + 2 * p.pad_h < p.dilation * (p.kernel_h - 1) + 1) {
        continue;  // no window
      }
      for (const ScalarType dtype : {ScalarType::Float, ScalarType::Char}) {
        Call call("et::max_pool3d.out");
        image(call, dtype, volume, kRowMajor);
        describe(call, p.dilation).list({p.dilation}).flag(p.ceil_mode).out(sizes, kRowMajor, dtype);
        call.expect_same(kPriorityOptimized);
      }
      for (const bool counts_padding : {false, true}) {
        if (p.dilation == 1) {
          Call call("aten::avg_pool3d.out");
          call.tensor(volume);
          describe(call, 1).flag(p.ceil_mode).flag(counts_padding).none();
          call.out(sizes).expect_same(kPriorityOptimized, 1e-6);
        }
      }
    }
  }
}

TEST(Pooling, ChannelsAroundTheVectors) {
  for_each_instruction_set([&] {
    for (const int64_t channels : {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 130, 200, 300}) {
      for (const ScalarType dtype : {ScalarType::Float, ScalarType::Char, ScalarType::Byte}) {
        expect_largest(kPools[0], dtype, {1, channels, 7, 7});
        expect_largest(kPools[3], dtype, {1, channels, 9, 9});  // rows first
      }
      expect_means(kPools[1], {1, channels, 7, 7}, true);
      expect_means(kPools[3], {1, channels, 9, 9}, false);
      expect_integer_means(kPools[1], ScalarType::Char, {1, channels, 7, 7}, true);
      expect_integer_means(kPools[1], ScalarType::Byte, {1, channels, 7, 7}, false);
    }
  });
}

TEST(Pooling, LargeImagesOnThreads) {
  expect_largest(kPools[0], ScalarType::Float, {2, 48, 61, 57});
  expect_largest(kPools[3], ScalarType::Float, {3, 40, 40, 41});
  expect_means(kPools[3], {2, 40, 40, 41}, true);
  expect_means(kPools[1], {2, 40, 60, 1300}, true, 0, kRowMajor);
  expect_integer_means(kPools[1], ScalarType::Char, {2, 96, 40, 41}, true);
}

TEST(Pooling, Adaptive) {
  for (const auto& [height, width] : {std::pair{1, 1}, {3, 5}, {7, 7}, {20, 4}, {11, 13}}) {
    Call call("aten::_adaptive_avg_pool2d.out");
    call.tensor({2, 37, 11, 13}, kChannelsLast).list({height, width}).out({2, 37, height, width}, kChannelsLast);
    call.expect_same(kPriorityOptimized, 1e-6);
    for (const ScalarType dtype : {ScalarType::Char, ScalarType::Byte}) {
      Call integers("et::quantized_adaptive_avg_pool2d.out");
      integers.bytes_of(dtype, {2, 37, 11, 13}, kChannelsLast).number(0.05).integer(3).list({height, width});
      integers.number(0.02).integer(1).integer(0).integer(120);
      integers.out({2, 37, height, width}, kChannelsLast, dtype).expect_same(kPriorityOptimized);
    }
  }
}

TEST(Pooling, MeansOfWholeImages) {
  for (const bool keeps : {false, true}) {
    for (const ScalarType dtype : {ScalarType::Char, ScalarType::Byte}) {
      for (const int64_t channels : {3, 16, 70}) {
        Call call("et::quantized_mean.out");
        call.bytes_of(dtype, {2, channels, 9, 11}, kChannelsLast).number(0.05).integer(100);
        call.list({-1, 2}).flag(keeps).number(0.001).integer(5).integer(0).integer(127);
        keeps ? call.out({2, channels, 1, 1}, kChannelsLast, dtype) : call.out({2, channels}, kRowMajor, dtype);
        call.expect_same(kPriorityOptimized);
      }
    }
  }
}

TEST(Pooling, NotANumberWins) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const size_t pool : {0, 3}) {
    for (const Order order : {kChannelsLast, kRowMajor}) {
      Call call("et::max_pool2d.out");
      call.tensor({1, 5, 14, 15}, order).set(3, std::numeric_limits<float>::quiet_NaN()).set(400, -inf).set(500, inf);
      const Pool& p = kPools[pool];
      call.list({p.kernel_h, p.kernel_w}).list({p.stride_h, p.stride_w}).list({p.pad_h, p.pad_w});
      call.list({1, 1}).flag(p.ceil_mode);
      call.out({1, 5, extent(14, p.kernel_h, p.stride_h, p.pad_h, 1, p.ceil_mode),
                extent(15, p.kernel_w, p.stride_w, p.pad_w, 1, p.ceil_mode)},
               order);
      call.expect_same(kPriorityOptimized);
    }
  }
}

TEST(Pooling, MeansAcrossFrames) {
  for_each_instruction_set([&] {
    for (const auto& [kernel, stride, padding] : {std::array<int64_t, 3>{5, 1, 0}, {2, 2, 1}, {3, 2, 1}, {1, 1, 0}}) {
      for (const bool counts_padding : {true, false}) {
        const int64_t out = extent(11, kernel, stride, padding, 1, false);
        Call call("aten::avg_pool3d.out");
        call.tensor({2, 3, 11, 7, 9}).list({kernel, 1, 1}).list({stride, 1, 1}).list({padding, 0, 0});
        call.flag(false).flag(counts_padding).none().out({2, 3, out, 7, 9}).expect_same(kPriorityOptimized, 1e-6);
      }
    }
    Call call("aten::avg_pool3d.out");  // any other window
    call.tensor({2, 6, 7, 9}).list({2}).list({}).list({1, 0, 1}).flag(true).flag(false).none();
    call.out({2, 4, 4, 5}).expect_same(kPriorityOptimized, 1e-6);
  });
}

TEST(Pooling, WhatIsNoWindowIsRefused) {
  for (const Pool& p : {Pool{3, 3, 0, 1, 0, 0}, Pool{3, 3, 1, 1, 2, 0}, Pool{0, 1, 1, 1, 0, 0}, Pool{9, 1, 1, 1, 0, 0},
                        Pool{1, 1, 1, 1, 0, 0, 0}, Pool{3, 1, 1, 1, -1, 0}}) {
    Call call("et::max_pool2d.out");
    call.tensor({1, 4, 5, 5}, kChannelsLast).list({p.kernel_h, p.kernel_w}).list({p.stride_h, p.stride_w});
    call.list({p.pad_h, p.pad_w}).list({p.dilation, p.dilation}).flag(false).out({1, 4, 5, 5}, kChannelsLast);
    EXPECT_EQ(call.error(kPriorityOptimized), Error::InvalidArgument);
  }
  Call call("aten::avg_pool2d.out");
  call.tensor({1, 4, 5, 5}, kChannelsLast).list({1}).list({1}).list({0}).flag(false).flag(true).integer(0);
  EXPECT_EQ(call.out({1, 4, 5, 5}, kChannelsLast).error(kPriorityOptimized), Error::InvalidArgument);
}

}  // namespace
}  // namespace et::kernels::testing
