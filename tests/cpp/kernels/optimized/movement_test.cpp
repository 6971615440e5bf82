// Operators that move elements: bytes must be equal, for every element size and dim order.

#include "instruction_sets.h"
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

constexpr ScalarType kTypes[] = {ScalarType::Float, ScalarType::Byte, ScalarType::Half, ScalarType::Long};

TEST(Permute, MatchesPortable) {
  for (const ScalarType dtype : kTypes) {
    for (const std::vector<int64_t>& dims :
         {std::vector<int64_t>{0, 2, 1, 3}, {0, 1, 3, 2}, {3, 2, 1, 0}, {0, 2, 3, 1}, {0, 1, 2, 3}, {2, 3, 0, 1}}) {
      for (const std::vector<int64_t>& s : {std::vector<int64_t>{2, 5, 33, 37}, {1, 3, 40, 21}, {2, 17, 3, 35}}) {
        std::vector<int64_t> out;
        for (const int64_t d : dims) {
          out.push_back(s[static_cast<size_t>(d)]);
        }
        Call("aten::permute_copy.out")
            .bytes_of(dtype, s)
            .list(dims)
            .out(out, kRowMajor, dtype)
            .expect_same(kPriorityOptimized);
      }
    }
    Call("aten::transpose_copy.int_out")
        .bytes_of(dtype, {3, 130, 70})
        .integer(1)
        .integer(-1)
        .out({3, 70, 130}, kRowMajor, dtype)
        .expect_same(kPriorityOptimized);
    Call("aten::t_copy.out")
        .bytes_of(dtype, {64, 100})
        .out({100, 64}, kRowMajor, dtype)
        .expect_same(kPriorityOptimized);
  }
  Call("aten::t_copy.out").bytes_of(ScalarType::Float, {513, 300}).out({300, 513}).expect_same(kPriorityOptimized);
}

TEST(Pad, ReflectsAndReplicates) {
  const auto expect_padded = [](const char* name, ScalarType dtype, std::vector<int64_t> sizes,
                                const std::vector<int64_t>& padding, Order order = kRowMajor) {
    SCOPED_TRACE(name);
    Call call(name);
    call.bytes_of(dtype, sizes, order).list(padding);
    for (size_t k = 0; k < padding.size() / 2; ++k) {
      sizes[sizes.size() - 1 - k] += padding[2 * k] + padding[2 * k + 1];
    }
    call.out(sizes, order, dtype);
    if (order != kRowMajor) {
      EXPECT_FALSE(call.fits(kPriorityOptimized));
      return;
    }
    call.expect_same(kPriorityOptimized);
  };
  for (const ScalarType dtype : {ScalarType::Byte, ScalarType::Short, ScalarType::Long, ScalarType::ComplexDouble}) {
    for (const std::vector<int64_t>& padding : {std::vector<int64_t>{2, 3, 1, 4, 3, 0}, {0, 0, 0, 0, 0, 0}}) {
      const auto of = [&](size_t spatial) {
        return std::vector<int64_t>(padding.data(), padding.data() + 2 * spatial);
      };
      expect_padded("aten::reflection_pad1d.out", dtype, {3, 70}, of(1));
      expect_padded("aten::reflection_pad2d.out", dtype, {2, 3, 50, 90}, of(2));
      expect_padded("aten::reflection_pad2d.out", dtype, {3, 5, 4}, of(2));
      expect_padded("aten::reflection_pad3d.out", dtype, {2, 3, 4, 5, 6}, of(3));
      expect_padded("aten::replication_pad1d.out", dtype, {2, 3, 1}, of(1));
      expect_padded("aten::replication_pad2d.out", dtype, {2, 3, 50, 90}, of(2));
      expect_padded("aten::replication_pad3d.out", dtype, {3, 1, 1, 7}, of(3));
    }
    expect_padded("aten::replication_pad2d.out", dtype, {2, 3, 5, 9}, {-1, 2, 0, -2});
    expect_padded("aten::replication_pad2d.out", dtype, {2, 3, 5, 9}, {1, 2, 0, 2}, kChannelsLast);
  }
  Call call("aten::reflection_pad1d.out");
  EXPECT_EQ(call.tensor({3, 4}).list({4, 0}).out({3, 8}).error(kPriorityOptimized), Error::InvalidArgument);
}

TEST(DimOrder, ConvertsBothWays) {
  for (const ScalarType dtype : kTypes) {
    for (const std::vector<int64_t>& s :
         {std::vector<int64_t>{2, 3, 17, 19}, {1, 64, 56, 56}, {1, 1, 5, 5}, {4, 7, 1, 1}, {0, 3, 4, 4}}) {
      for (const Order from : {kRowMajor, kChannelsLast, kReversed}) {
        for (const Order to : {kRowMajor, kChannelsLast}) {
          Call("dim_order_ops::_to_dim_order_copy.out")
              .bytes_of(dtype, s, from)
              .flag(false)
              .none()
              .out(s, to, dtype)
              .expect_same(kPriorityOptimized);
        }
      }
    }
  }
}

TEST(Slices, MatchPortable) {
  Call("aten::slice_copy.Tensor_out")
      .tensor({6, 40, 5})
      .integer(1)
      .integer(3)
      .integer(30)
      .integer(1)
      .out({6, 27, 5})
      .expect_same(kPriorityOptimized);
  Call("aten::slice_copy.Tensor_out")
      .tensor({6, 40, 5})
      .integer(-1)
      .none()
      .none()
      .integer(2)
      .out({6, 40, 3})
      .expect_same(kPriorityOptimized);
  Call("aten::slice_copy.Tensor_out")
      .tensor({6, 40})
      .integer(0)
      .integer(-2)
      .integer(100)
      .integer(1)
      .out({2, 40})
      .expect_same(kPriorityOptimized);
  Call("aten::select_copy.int_out")
      .tensor({6, 40, 5})
      .integer(1)
      .integer(-1)
      .out({6, 5})
      .expect_same(kPriorityOptimized);
  Call("aten::expand_copy.out")
      .tensor({3, 1, 5})
      .list({2, -1, 4, 5})
      .flag(false)
      .out({2, 3, 4, 5})
      .expect_same(kPriorityOptimized);
  Call("aten::split_with_sizes_copy.out")
      .tensor({6, 40})
      .list({10, 30})
      .integer(1)
      .out({6, 10})
      .out({6, 30})
      .as_list(2)
      .expect_same(kPriorityOptimized);
}

TEST(Slices, SplitAndUnbind) {
  Call("aten::split_copy.Tensor_out")
      .tensor({6, 40})
      .integer(15)
      .integer(-1)
      .out({6, 15})
      .out({6, 15})
      .out({6, 10})
      .as_list(3)
      .expect_same(kPriorityOptimized);
  Call("aten::unbind_copy.int_out")
      .tensor({3, 40, 5})
      .integer(0)
      .out({40, 5})
      .out({40, 5})
      .out({40, 5})
      .as_list(3)
      .expect_same(kPriorityOptimized);
}

TEST(Nearest, MatchesPortable) {
  for (const Order order : {kRowMajor, kChannelsLast}) {
    Call("aten::upsample_nearest2d.vec_out")
        .tensor({2, 5, 7, 9}, order)
        .none()
        .doubles({2.0, 2.0})
        .out({2, 5, 14, 18}, order)
        .expect_same(kPriorityOptimized);
    Call("aten::upsample_nearest2d.vec_out")
        .tensor({2, 5, 7, 9}, order)
        .none()
        .doubles({1.7, 0.6})
        .out({2, 5, 11, 5}, order)
        .expect_same(kPriorityOptimized);
    Call("aten::upsample_nearest2d.vec_out")
        .tensor({2, 64, 20, 20}, order)
        .list({40, 33})
        .none()
        .out({2, 64, 40, 33}, order)
        .expect_same(kPriorityOptimized);
  }
}

TEST(Nearest, MatchesPortableForEveryRankAndElementSize) {
  for (const ScalarType dtype : kTypes) {
    for (const char* const kind : {"et::upsample_nearest", "et::_upsample_nearest_exact"}) {
      Call((std::string(kind) + "1d.vec_out").c_str())
          .bytes_of(dtype, {2, 3, 37})
          .none()
          .doubles({1.7})
          .out({2, 3, 62}, kRowMajor, dtype)
          .expect_same(kPriorityOptimized);
      Call((std::string(kind) + "3d.vec_out").c_str())
          .bytes_of(dtype, {1, 2, 5, 7, 6})
          .list({3, 14, 11})
          .none()
          .out({1, 2, 3, 14, 11}, kRowMajor, dtype)
          .expect_same(kPriorityOptimized);
    }
    for (const Order order : {kRowMajor, kChannelsLast}) {
      Call("et::_upsample_nearest_exact2d.vec_out")
          .bytes_of(dtype, {2, 5, 7, 9}, order)
          .none()
          .doubles({2.0, 0.6})
          .out({2, 5, 14, 5}, order, dtype)
          .expect_same(kPriorityOptimized);
    }
  }
}

TEST(Lines, MatchPortable) {
  for (const bool align_corners : {false, true}) {
    for (const int64_t length : {1, 9, 33, 70, 200}) {
      Call("et::upsample_linear1d.vec_out")
          .tensor({2, 3, 33})
          .list({length})
          .flag(align_corners)
          .none()
          .out({2, 3, length})
          .expect_same(kPriorityOptimized, 1e-6);
      Call("et::upsample_linear1d.vec_out")
          .numbers(ScalarType::Double, {1, 3, 33})
          .list({length})
          .flag(align_corners)
          .none()
          .out({1, 3, length}, kRowMajor, ScalarType::Double)
          .expect_same(kPriorityOptimized, 1e-14);
    }
  }
}

TEST(ChannelShuffle, MatchesPortable) {
  for (const ScalarType dtype : kTypes) {
    for (const int64_t groups : {1, 2, 4, 12}) {
      for (const Order order : {kRowMajor, kChannelsLast}) {
        Call("aten::channel_shuffle.out")
            .bytes_of(dtype, {2, 12, 5, 7}, order)
            .integer(groups)
            .out({2, 12, 5, 7}, order, dtype)
            .expect_same(kPriorityOptimized);
      }
    }
    Call("aten::channel_shuffle.out")
        .bytes_of(dtype, {3, 6, 1})
        .integer(3)
        .out({3, 6, 1}, kRowMajor, dtype)
        .expect_same(kPriorityOptimized);
  }
}

TEST(QuarterTurns, MatchPortable) {
  for (const ScalarType dtype : kTypes) {
    for (const int64_t k : {1, 2, 3, -3, 4}) {
      const std::vector<int64_t> out = k % 2 == 0 ? std::vector<int64_t>{70, 37} : std::vector<int64_t>{37, 70};
      Call("aten::rot90.out")
          .bytes_of(dtype, {70, 37})
          .integer(k)
          .list({0, 1})
          .out(out, kRowMajor, dtype)
          .expect_same(kPriorityOptimized);
    }
    Call("aten::rot90.out")
        .bytes_of(dtype, {5, 40, 33})
        .integer(1)
        .list({0, 1})
        .out({40, 5, 33}, kRowMajor, dtype)
        .expect_same(kPriorityOptimized);
  }
}

TEST(Cat, MatchesPortable) {
  Call("aten::cat.out")
      .tensor({2, 3, 4})
      .tensor({2, 5, 4})
      .as_list(2)
      .integer(1)
      .out({2, 8, 4})
      .expect_same(kPriorityOptimized);
  Call("aten::cat.out")
      .tensor({2, 3})
      .tensor({2, 3})
      .tensor({2, 3})
      .as_list(3)
      .integer(-1)
      .out({2, 9})
      .expect_same(kPriorityOptimized);
  Call("aten::cat.out")
      .tensor({2, 3, 8, 8}, kChannelsLast)
      .tensor({2, 5, 8, 8}, kChannelsLast)
      .as_list(2)
      .integer(1)
      .out({2, 8, 8, 8}, kChannelsLast)
      .expect_same(kPriorityOptimized);
}

TEST(Embedding, MatchesPortable) {
  Call("aten::embedding.out")
      .tensor({100, 33})
      .indices({4, 7}, 100)
      .integer(-1)
      .flag(false)
      .flag(false)
      .out({4, 7, 33})
      .expect_same(kPriorityOptimized);
  Call("aten::index_select.out")
      .tensor({100, 3, 5})
      .integer(0)
      .indices({9}, 100)
      .out({9, 3, 5})
      .expect_same(kPriorityOptimized);
  EXPECT_FALSE(Call("aten::index_select.out")
                   .tensor({100, 3})
                   .integer(1)
                   .indices({2}, 3)
                   .out({100, 2})
                   .fits(kPriorityOptimized));
}

TEST(MaxPool, MatchesPortableOnEveryInstructionSet) {
  for_each_instruction_set([&] {
    for (const int64_t stride : {1, 2, 3}) {
      const int64_t rows = (9 + 2 - 3) / stride + 1, columns = (70 + 2 - 5) / stride + 1;
      Call("et::max_pool2d.out")
          .numbers(ScalarType::Double, {2, 3, 9, 70})
          .list({3, 3})
          .list({stride, stride})
          .list({1, 1})
          .list({1, 2})
          .flag(false)
          .out({2, 3, rows, columns}, kRowMajor, ScalarType::Double)
          .expect_same(kPriorityOptimized);
    }
  });
}

TEST(Nonzero, MatchesPortableOnEveryInstructionSet) {
  for_each_instruction_set([&] {
    // None is zero: the harness has no outputs of unknown sizes. tests/ops has the others.
    Call("aten::nonzero.out")
        .tensor({3, 5, 400}, kRowMajor, 0.5f)
        .out({6000, 3}, kRowMajor, ScalarType::Long)
        .expect_same(kPriorityOptimized);
    for (const ScalarType dtype : {ScalarType::Half, ScalarType::Float, ScalarType::Long}) {
      Call("aten::nonzero.out")
          .bytes_of(dtype, {777})
          .out({777, 1}, kRowMajor, ScalarType::Long)
          .expect_same(kPriorityOptimized);
    }
  });
}

}  // namespace
}  // namespace et::kernels::testing
