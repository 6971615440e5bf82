// Operators that only rearrange, and the largest element of windows, against the plain kernels: bit for bit.
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

class CortexMMovement : public ::testing::TestWithParam<int> {
 protected:
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  Order order(size_t rank) {
    return static_cast<Order>(between(0, 2)) == kReversed ? kReversed
           : rank == 4 && random_() % 2 == 0              ? kChannelsLast
                                                          : kRowMajor;
  }
  std::vector<int64_t> sizes(size_t rank) {
    std::vector<int64_t> made;
    for (size_t d = 0; d < rank; ++d) {
      made.push_back(random_() % 40 == 0 ? 0 : random_() % 4 == 0 ? 1 : between(1, 11));
    }
    return made;
  }
  std::vector<int64_t> sizes() { return sizes(static_cast<size_t>(between(1, 5))); }
  static void expect_same(Call& call, const std::vector<int64_t>& sizes, Order order, ScalarType dtype) {
    call.out(sizes, order, dtype).expect_same(kPriorityOptimized);
  }

  std::mt19937 random_{static_cast<uint32_t>(GetParam())};
  ScalarType dtype_ = std::vector{ScalarType::Char, ScalarType::Byte, ScalarType::Float}[random_() % 3];
};

TEST_P(CortexMMovement, LargestOfWindows) {
  Call call("et::max_pool2d.out");
  std::vector<int64_t> in{between(1, 2), between(1, 37)}, out = in, kernel, stride, padding;
  const bool ceil = random_() % 2 == 0, has_stride = random_() % 4 != 0;
  for (int d = 0; d < 2; ++d) {
    kernel.push_back(between(1, 6));
    stride.push_back(has_stride ? between(1, 4) : kernel.back());
    padding.push_back(between(0, kernel.back() / 2));
    const int64_t size = kernel.back() + between(0, 8);
    const int64_t room = size + 2 * padding.back() - kernel.back();
    int64_t count = (room + (ceil ? stride.back() - 1 : 0)) / stride.back() + 1;
    count -= ceil && (count - 1) * stride.back() >= size + padding.back() ? 1 : 0;
    in.push_back(size);
    out.push_back(count);
  }
  call.bytes_of(ScalarType::Char, in, kChannelsLast).list(kernel);
  call.list(has_stride ? stride : std::vector<int64_t>{}).list(padding).list({1, 1}).flag(ceil);
  expect_same(call, out, kChannelsLast, ScalarType::Char);
}

TEST_P(CortexMMovement, OrdersInMemory) {
  const std::vector<int64_t> shape = sizes();
  Call call("dim_order_ops::_clone_dim_order.out");
  call.bytes_of(dtype_, shape, order(shape.size())).flag(false).none();
  expect_same(call, shape, order(shape.size()), dtype_);
}

TEST_P(CortexMMovement, Permutations) {
  const std::vector<int64_t> shape = sizes();
  const auto rank = static_cast<int64_t>(shape.size());
  std::vector<int64_t> dims(shape.size()), moved;
  std::iota(dims.begin(), dims.end(), 0);
  std::shuffle(dims.begin(), dims.end(), random_);
  for (int64_t& dim : dims) {
    moved.push_back(shape[static_cast<size_t>(dim)]);
    dim -= random_() % 2 == 0 ? rank : 0;
  }
  Call call("aten::permute_copy.out");
  call.bytes_of(dtype_, shape, order(shape.size())).list(dims);
  expect_same(call, moved, order(shape.size()), dtype_);

  std::vector<int64_t> swapped = shape;
  const int64_t first = between(0, rank - 1), second = between(0, rank - 1);
  std::swap(swapped[static_cast<size_t>(first)], swapped[static_cast<size_t>(second)]);
  Call transpose("aten::transpose_copy.int_out");
  transpose.bytes_of(dtype_, shape, order(shape.size())).integer(first - rank).integer(second);
  expect_same(transpose, swapped, order(shape.size()), dtype_);
}

TEST_P(CortexMMovement, Parts) {
  std::vector<int64_t> shape = sizes();
  const auto dim = static_cast<size_t>(between(0, static_cast<int64_t>(shape.size()) - 1));
  shape[dim] = between(1, 20);
  const int64_t size = shape[dim], start = between(0, size), end = between(0, size + 3);
  const int64_t step = random_() % 9 == 0 ? INT64_MAX : between(1, 4);
  std::vector<int64_t> part = shape;
  part[dim] = std::min(end, size) > start ? (std::min(end, size) - start - 1) / step + 1 : 0;
  Call slice("aten::slice_copy.Tensor_out");
  slice.bytes_of(dtype_, shape, order(shape.size())).integer(static_cast<int64_t>(dim)).integer(start - size);
  slice.integer(end).integer(step);
  if (start < size) {  // start - size would be 0 otherwise
    expect_same(slice, part, order(shape.size()), dtype_);
  }

  Call select("aten::select_copy.int_out");
  select.bytes_of(dtype_, shape, order(shape.size()))
      .integer(static_cast<int64_t>(dim))
      .integer(between(-size, size - 1));
  part = shape;
  part.erase(part.begin() + static_cast<long>(dim));
  expect_same(select, part, order(part.size()), dtype_);
}

TEST_P(CortexMMovement, Concatenations) {
  std::vector<int64_t> shape = sizes();
  const auto dim = static_cast<size_t>(between(0, static_cast<int64_t>(shape.size()) - 1));
  const auto count = static_cast<size_t>(between(1, 4));
  Call call("aten::cat.out");
  int64_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    shape[dim] = between(shape.size() == 1 ? 1 : 0, 9);
    total += shape[dim];
    call.bytes_of(dtype_, shape, order(shape.size()));
  }
  call.as_list(count).integer(static_cast<int64_t>(dim) -
                              (random_() % 2 == 0 ? static_cast<int64_t>(shape.size()) : 0));
  shape[dim] = total;
  expect_same(call, shape, order(shape.size()), dtype_);
}

TEST_P(CortexMMovement, Padding) {
  const std::vector<int64_t> shape = sizes();
  std::vector<int64_t> out = shape, pad;
  const int64_t padded = between(0, static_cast<int64_t>(shape.size()));
  for (int64_t k = 0; k < padded; ++k) {
    int64_t& size = out[out.size() - 1 - static_cast<size_t>(k)];
    pad.push_back(between(-2, 3));
    pad.push_back(between(-2, 3));
    if (size + pad[pad.size() - 1] + pad[pad.size() - 2] < 0) {
      pad[pad.size() - 1] = pad[pad.size() - 2] = 1;
    }
    size += pad[pad.size() - 1] + pad[pad.size() - 2];
  }
  Call call("aten::constant_pad_nd.out");
  call.bytes_of(ScalarType::Char, shape, order(shape.size())).list(pad).integer(between(-300, 300));
  expect_same(call, out, order(shape.size()), ScalarType::Char);
}

TEST_P(CortexMMovement, Splits) {
  const std::vector<int64_t> shape = sizes();
  const auto rank = static_cast<int64_t>(shape.size());
  const auto dim = static_cast<size_t>(between(0, rank - 1));
  const int64_t given_dim = static_cast<int64_t>(dim) - (random_() % 2 == 0 ? rank : 0);
  const auto expect_parts = [&](Call& call, const std::vector<std::vector<int64_t>>& parts) {
    for (const std::vector<int64_t>& part : parts) {
      call.out(part, order(part.size()), dtype_);
    }
    call.as_list(parts.size()).expect_same(kPriorityOptimized);
  };
  const auto part_of = [&](int64_t size) {
    std::vector<int64_t> part = shape;
    part[dim] = size;
    return part;
  };

  const int64_t size = shape[dim], split_size = between(1, 5);
  std::vector<std::vector<int64_t>> parts;
  for (int64_t start = 0; start < size || parts.empty(); start += split_size) {
    parts.push_back(part_of(std::min(split_size, size - start)));
  }
  Call split("aten::split_copy.Tensor_out");
  split.bytes_of(dtype_, shape, order(shape.size())).integer(split_size).integer(given_dim);
  expect_parts(split, parts);

  std::vector<int64_t> lengths;
  parts.clear();
  for (int64_t left = size; left > 0 || lengths.empty(); left -= lengths.back()) {
    lengths.push_back(between(0, left));
    parts.push_back(part_of(lengths.back()));
  }
  Call split_with_sizes("aten::split_with_sizes_copy.out");
  split_with_sizes.bytes_of(dtype_, shape, order(shape.size())).list(lengths).integer(given_dim);
  expect_parts(split_with_sizes, parts);

  std::vector<int64_t> selected = shape;
  selected.erase(selected.begin() + static_cast<long>(dim));
  Call unbind("aten::unbind_copy.int_out");
  unbind.bytes_of(dtype_, shape, order(shape.size())).integer(given_dim);
  expect_parts(unbind, std::vector<std::vector<int64_t>>(static_cast<size_t>(size), selected));
}

INSTANTIATE_TEST_SUITE_P(Seeds, CortexMMovement, ::testing::Range(0, 200));

TEST(CortexMMovement, WhatDoesNotFitIsAnErrorOfThePlainKernelToo) {
  const auto expect_both = [](Call& call) {
    EXPECT_EQ(call.error(kPriorityOptimized), Error::InvalidArgument);
    EXPECT_EQ(call.error(runtime::kPriorityPortable), Error::InvalidArgument);
  };
  Call cat("aten::cat.out");
  cat.bytes_of(ScalarType::Char, {2, 3}).bytes_of(ScalarType::Char, {2, 4}).as_list(2).integer(0);
  expect_both(cat.out({4, 3}, kRowMajor, ScalarType::Char));
  Call twice("aten::permute_copy.out");
  expect_both(twice.bytes_of(ScalarType::Char, {2, 3}).list({1, 1}).out({2, 3}, kRowMajor, ScalarType::Char));
  Call few("aten::permute_copy.out");
  expect_both(few.bytes_of(ScalarType::Char, {2, 3}).list({0}).out({2, 3}, kRowMajor, ScalarType::Char));
  for (const std::vector<int64_t>& pad :
       {std::vector<int64_t>{1}, {0, 0, 0, 0, 1, 1}, {-9, 1}, {INT64_MAX, INT64_MAX}}) {
    Call call("aten::constant_pad_nd.out");
    expect_both(call.bytes_of(ScalarType::Char, {2, 3}).list(pad).integer(0).out({2, 3}, kRowMajor, ScalarType::Char));
  }
  Call select("aten::select_copy.int_out");
  expect_both(select.bytes_of(ScalarType::Char, {2, 3}).integer(1).integer(3).out({2}, kRowMajor, ScalarType::Char));
  Call slice("aten::slice_copy.Tensor_out");
  slice.bytes_of(ScalarType::Char, {2, 3}).integer(1).integer(0).integer(3).integer(0);
  expect_both(slice.out({2, 3}, kRowMajor, ScalarType::Char));
  for (const int64_t split_size : {0, -1, 3}) {  // 3: two parts, of which only one is asked for
    Call split("aten::split_copy.Tensor_out");
    split.bytes_of(ScalarType::Char, {5, 3}).integer(split_size).integer(0).out({3, 3}, kRowMajor, ScalarType::Char);
    expect_both(split.as_list(1));
  }
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{4}, {6}, {-1}, {2, 3}, {}}) {
    Call split("aten::split_with_sizes_copy.out");
    split.bytes_of(ScalarType::Char, {5, 3}).list(sizes).integer(0).out({5, 3}, kRowMajor, ScalarType::Char);
    expect_both(split.as_list(1));
  }
  Call unbind("aten::unbind_copy.int_out");
  unbind.bytes_of(ScalarType::Char, {5, 3}).integer(2).out({3}, kRowMajor, ScalarType::Char);
  expect_both(unbind.as_list(1));
  Call pool("et::max_pool2d.out");
  pool.bytes_of(ScalarType::Char, {1, 4, 5, 5}, kChannelsLast).list({3, 3}).list({1, 1}).list({2, 2}).list({1, 1});
  expect_both(pool.flag(false).out({1, 4, 7, 7}, kChannelsLast, ScalarType::Char));
}

}  // namespace
}  // namespace et::kernels::testing
