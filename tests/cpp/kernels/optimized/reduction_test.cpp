// Norms, softmax and reductions, in both dim orders.

#include "instruction_sets.h"
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

TEST(LayerNorm, MatchesPortable) {
  for (const int64_t columns : {1, 5, 16, 33, 384, 1000}) {
    for (const bool affine : {true, false}) {
      Call call("aten::native_layer_norm.out");
      call.tensor({3, 40, columns}).list({columns});
      affine ? call.tensor({columns}).tensor({columns}) : call.none().none();
      // One column: its deviation is rounding only, whatever the kernel.
      call.number(1e-5)
          .out({3, 40, columns})
          .out({3, 40, 1})
          .out({3, 40, 1})
          .expect_same(kPriorityOptimized, columns == 1 ? 1e-3 : 3e-6);
    }
  }
  Call("aten::native_layer_norm.out")
      .tensor({4, 6, 7})
      .list({6, 7})
      .tensor({6, 7})
      .none()
      .number(1e-5)
      .out({4, 6, 7})
      .out({4, 1, 1})
      .out({4, 1, 1})
      .expect_same(kPriorityOptimized, 3e-6);
}

TEST(GroupNorm, MatchesPortable) {
  for (const int64_t groups : {1, 2, 8}) {
    Call("aten::native_group_norm.out")
        .tensor({2, 8, 5, 7})
        .tensor({8})
        .tensor({8})
        .integer(2)
        .integer(8)
        .integer(35)
        .integer(groups)
        .number(1e-5)
        .out({2, 8, 5, 7})
        .out({2, groups})
        .out({2, groups})
        .expect_same(kPriorityOptimized, 3e-6);
  }
}

TEST(GroupNorm, OfChannelsLastImages) {
  for_each_instruction_set([] {
    for (const int64_t groups : {1, 3, 21}) {
      for (const int64_t width : {1, 7, 60}) {  // one block of pixels, and several
        for (const bool has_parameters : {false, true}) {
          Call call("aten::native_group_norm.out");
          call.tensor({2, 21, 5, width}, kChannelsLast, -1.0f, 3.0f);
          has_parameters ? call.tensor({21}).tensor({21}) : call.none().none();
          call.integer(2).integer(21).integer(5 * width).integer(groups).number(1e-5);
          call.out({2, 21, 5, width}, kChannelsLast).out({2, groups}).out({2, groups});
          call.expect_same(kPriorityOptimized, 5e-6);
        }
      }
    }
  });
  // Another order, other sizes than the image's, and sizes whose product wraps.
  const auto error = [](Order out, int64_t batch, int64_t channels, int64_t spatial, uint8_t priority) {
    Call call("aten::native_group_norm.out");
    call.tensor({2, 4, 3, 5}, kChannelsLast).none().none().integer(batch).integer(channels).integer(spatial);
    call.integer(2).number(1e-5).out({2, 4, 3, 5}, out).out({2, 2}).out({2, 2});
    return call.error(priority);
  };
  EXPECT_EQ(error(kRowMajor, 2, 4, 15, runtime::kPriorityPortable), Error::InvalidArgument);
  for (const uint8_t priority : {runtime::kPriorityPortable, kPriorityOptimized}) {
    EXPECT_EQ(error(kChannelsLast, 4, 2, 15, priority), Error::InvalidArgument);
    EXPECT_EQ(error(kChannelsLast, int64_t{1} << 62, 4, 120, priority), Error::InvalidArgument);
  }
}

TEST(BatchNorm, OfTrainingMatchesPortable) {
  struct Shape {
    std::vector<int64_t> sizes;
    Order order;
  };
  const Shape shapes[] = {{{2, 19, 6, 7}, kRowMajor}, {{2, 19, 6, 7}, kChannelsLast}, {{40, 700}, kRowMajor},
                          {{1, 3, 2000}, kRowMajor},  {{700, 3}, kRowMajor},          {{3, 5, 1, 1}, kChannelsLast}};
  for (const auto& [sizes, order] : shapes) {
    const int64_t channels = sizes[1];
    for (const bool affine : {true, false}) {
      Call call("aten::_native_batch_norm_legit.no_stats_out");
      call.tensor(sizes, order, -1.0f, 9.0f);
      affine ? call.tensor({channels}).tensor({channels}) : call.none().none();
      call.flag(true)
          .number(0.1)
          .number(1e-5)
          .out(sizes, order)
          .out({channels})
          .out({channels})
          .expect_same(kPriorityOptimized, 5e-6);
    }
  }
}

TEST(Renorm, MatchesPortable) {
  for (const double order : {1.0, 2.0, std::numeric_limits<double>::infinity(), 3.0}) {
    for (const int64_t dim : {0, 1, 2, -1}) {
      for (const std::vector<int64_t>& sizes :
           {std::vector<int64_t>{3, 5, 7}, {2, 40, 600}, {600, 2, 1}, {4, 1, 33}, {1, 513, 9}}) {
        Call("aten::renorm.out")
            .tensor(sizes)
            .number(order)
            .integer(dim)
            .number(2.5)
            .out(sizes)
            .expect_same(kPriorityOptimized, 1e-6);
      }
    }
  }
  Call("aten::renorm.out")
      .tensor({3, 300})
      .set(1, NAN)
      .set(301, INFINITY)
      .number(2.0)
      .integer(0)
      .number(1.0)
      .out({3, 300})
      .expect_same(kPriorityOptimized, 1e-6);
  Call("aten::renorm.out")
      .tensor({3, 300})
      .set(1, NAN)
      .number(std::numeric_limits<double>::infinity())
      .integer(1)
      .number(1.0)
      .out({3, 300})
      .expect_same(kPriorityOptimized, 1e-6);
}

TEST(Renorm, AndBatchNormOnEveryInstructionSet) {
  for_each_instruction_set([&] {
    for (const int64_t dim : {0, 1}) {
      Call("aten::renorm.out")
          .tensor({9, 37})
          .number(2.0)
          .integer(dim)
          .number(2.5)
          .out({9, 37})
          .expect_same(kPriorityOptimized, 1e-6);
    }
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{9, 37}, {2, 3, 37}}) {
      Call("aten::_native_batch_norm_legit.no_stats_out")
          .tensor(sizes)
          .none()
          .none()
          .flag(true)
          .number(0.1)
          .number(1e-5)
          .out(sizes)
          .out({sizes[1]})
          .out({sizes[1]})
          .expect_same(kPriorityOptimized, 5e-6);
    }
  });
}

TEST(BatchNorm, MatchesPortableInBothDimOrders) {
  for (const Order order : {kRowMajor, kChannelsLast}) {
    Call("aten::_native_batch_norm_legit_no_training.out")
        .tensor({2, 19, 6, 7}, order)
        .tensor({19})
        .tensor({19})
        .tensor({19})
        .tensor({19}, kRowMajor, 0.5f, 2)
        .number(0.1)
        .number(1e-5)
        .out({2, 19, 6, 7}, order)
        .out({0})
        .out({0})
        .expect_same(kPriorityOptimized, 2e-6);
  }
  Call("aten::_native_batch_norm_legit_no_training.out")
      .tensor({30, 19})
      .none()
      .none()
      .tensor({19})
      .tensor({19}, kRowMajor, 0.5f, 2)
      .number(0.1)
      .number(1e-5)
      .out({30, 19})
      .out({0})
      .out({0})
      .expect_same(kPriorityOptimized, 2e-6);
}

TEST(Softmax, MatchesPortableAlongEveryDim) {
  for (const char* name : {"aten::_softmax.out", "aten::_log_softmax.out"}) {
    for (const int64_t dim : {0, 1, 2, -1}) {
      for (const Order order : {kRowMajor, kReversed}) {
        Call(name)
            .tensor({5, 70, 37}, order)
            .integer(dim)
            .flag(false)
            .out({5, 70, 37}, order)
            .expect_same(kPriorityOptimized, 1e-6);
      }
    }
    Call(name).tensor({}).integer(0).flag(false).out({}).expect_same(kPriorityOptimized, 1e-6);
  }
}

TEST(Softmax, EveryLength) {
  for_each_instruction_set([] {
    for (const char* name : {"aten::_softmax.out", "aten::_log_softmax.out"}) {
      for (int64_t n = 1; n < 75; ++n) {
        Call(name)
            .tensor({3, n}, kRowMajor, -95.0f, 5.0f)
            .integer(1)
            .flag(false)
            .out({3, n})
            .expect_same(kPriorityOptimized, 1e-6);
        Call(name)
            .tensor({3, n}, kRowMajor, -95.0f, 5.0f)
            .integer(0)
            .flag(false)
            .out({3, n})
            .expect_same(kPriorityOptimized, 1e-6);
      }
      Call(name)
          .tensor({2, 5003}, kRowMajor, -20.0f, 0.0f)
          .integer(1)
          .flag(false)
          .out({2, 5003})
          .expect_same(kPriorityOptimized, 1e-6);
    }
  });
}

TEST(Softmax, Doubles) {
  for (const char* name : {"aten::_softmax.out", "aten::_log_softmax.out"}) {
    for (int64_t dim = 0; dim < 3; ++dim) {
      for (const int64_t n : {1, 3, 8, 65}) {
        Call(name)
            .numbers(ScalarType::Double, {3, n, 5})
            .integer(dim)
            .flag(false)
            .out({3, n, 5}, kRowMajor, ScalarType::Double)
            .expect_same(kPriorityOptimized, 1e-15);
      }
    }
    Call(name)
        .numbers(ScalarType::Double, {1000})
        .integer(0)
        .flag(false)
        .out({1000}, kRowMajor, ScalarType::Double)
        .expect_same(kPriorityOptimized, 1e-15);
    for (const double special : {double{NAN}, double{HUGE_VAL}, -double{HUGE_VAL}, 1e300, -800.0}) {
      for (const int64_t dim : {0, 1}) {
        Call(name)
            .numbers(ScalarType::Double, {6, 11})
            .set_double(7, special)
            .set_double(64, special)
            .integer(dim)
            .flag(false)
            .out({6, 11}, kRowMajor, ScalarType::Double)
            .expect_same(kPriorityOptimized, 1e-15);
      }
    }
  }
}

TEST(Glu, MatchesPortable) {
  for (const int64_t n : {2, 6, 34, 1002}) {
    Call("aten::glu.out").tensor({n}, kRowMajor, -9, 9).integer(0).out({n / 2}).expect_same(kPriorityOptimized, 1e-6);
    Call("aten::glu.out").tensor({3, n, 5}).integer(1).out({3, n / 2, 5}).expect_same(kPriorityOptimized, 1e-6);
    Call("aten::glu.out").tensor({70, n}).integer(-1).out({70, n / 2}).expect_same(kPriorityOptimized, 1e-6);
    Call("aten::glu.out").tensor({n, 33}).integer(0).out({n / 2, 33}).expect_same(kPriorityOptimized, 1e-6);
  }
  Call("aten::glu.out").tensor({4, 0, 2}).integer(0).out({2, 0, 2}).expect_same(kPriorityOptimized);
  for (const float special : {NAN, HUGE_VALF, -HUGE_VALF, -0.0f, 200.0f, -200.0f}) {
    Call("aten::glu.out")
        .tensor({5, 40})
        .set(7, special)
        .set(33, special)
        .set(180, special)
        .integer(1)
        .out({5, 20})
        .expect_same(kPriorityOptimized, 1e-6);
  }
  EXPECT_FALSE(
      Call("aten::glu.out").tensor({4, 6}, kReversed).integer(1).out({4, 3}, kReversed).fits(kPriorityOptimized));
}

TEST(Softmax, MaskedAndBrokenRows) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const char* name : {"aten::_softmax.out", "aten::_log_softmax.out"}) {
    Call call(name);
    call.tensor({3, 20});
    for (size_t i = 0; i < 20; ++i) {
      call.set(20 + i, -inf);
    }
    call.set(0, -inf)
        .set(7, -inf)
        .set(45, std::nanf(""))
        .integer(1)
        .flag(false)
        .out({3, 20})
        .expect_same(kPriorityOptimized, 1e-6);
  }
}

struct Reduction {
  std::vector<int64_t> dims;
  std::vector<int64_t> kept, squeezed;  // output sizes with and without keepdim
};

TEST(Reduce, MatchesPortable) {
  const Reduction cases[] = {{{-1}, {3, 4, 50, 1}, {3, 4, 50}},  {{2, 3}, {3, 4, 1, 1}, {3, 4}},
                             {{1}, {3, 1, 50, 60}, {3, 50, 60}}, {{0}, {1, 4, 50, 60}, {4, 50, 60}},
                             {{0, 1}, {1, 1, 50, 60}, {50, 60}}, {{0, 1, 2, 3}, {1, 1, 1, 1}, {}}};
  for (const Reduction& c : cases) {
    for (const bool keep : {true, false}) {
      const std::vector<int64_t>& sizes = keep ? c.kept : c.squeezed;
      for (const char* name : {"aten::mean.out", "aten::sum.IntList_out"}) {
        Call(name)
            .tensor({3, 4, 50, 60})
            .list(c.dims)
            .flag(keep)
            .none()
            .out(sizes)
            .expect_same(kPriorityOptimized, 2e-5);
      }
      for (const char* name : {"aten::amax.out", "aten::amin.out"}) {
        Call(name)
            .tensor({3, 4, 50, 60})
            .set(77, std::nanf(""))
            .list(c.dims)
            .flag(keep)
            .out(sizes)
            .expect_same(kPriorityOptimized);
      }
    }
  }
}

TEST(Reduce, AveragesImagesInBothDimOrders) {
  for (const Order order : {kRowMajor, kChannelsLast}) {
    for (const Order out : {kRowMajor, kChannelsLast}) {
      Call("aten::mean.out")
          .tensor({2, 37, 7, 7}, order)
          .list({2, 3})
          .flag(true)
          .none()
          .out({2, 37, 1, 1}, out)
          .expect_same(kPriorityOptimized, 1e-5);
      Call("aten::_adaptive_avg_pool2d.out")
          .tensor({2, 300, 7, 7}, order)
          .list({1, 1})
          .out({2, 300, 1, 1}, out)
          .expect_same(kPriorityOptimized, 1e-5);
    }
    Call("aten::mean.out")
        .tensor({2, 37, 7, 7}, order)
        .list({-1, -2})
        .flag(false)
        .none()
        .out({2, 37})
        .expect_same(kPriorityOptimized, 1e-5);
  }
  EXPECT_FALSE(Call("aten::_adaptive_avg_pool2d.out")
                   .tensor({2, 3, 7, 7})
                   .list({2, 2})
                   .out({2, 3, 2, 2})
                   .fits(kPriorityOptimized));
  EXPECT_FALSE(
      Call("aten::mean.out").tensor({2, 3, 7, 7}).list({0, 2}).flag(false).none().out({3, 7}).fits(kPriorityOptimized))
      << "reduced dimensions that are not neighbours are the portable kernel's";
}

TEST(Reduce, VarianceOfRows) {
  for (const char* op : {"aten::var.correction_out", "aten::std.correction_out"}) {
    for (const double correction : {0.0, 1.0}) {
      Call(op)
          .tensor({6, 100})
          .list({1})
          .number(correction)
          .flag(true)
          .out({6, 1})
          .expect_same(kPriorityOptimized, 1e-5);
    }
  }
  Call("aten::var.correction_out")
      .tensor({6, 100})
      .list({-1})
      .none()
      .flag(false)
      .out({6})
      .expect_same(kPriorityOptimized, 1e-5);
  EXPECT_FALSE(Call("aten::var.correction_out")
                   .tensor({6, 100})
                   .list({0})
                   .none()
                   .flag(false)
                   .out({100})
                   .fits(kPriorityOptimized));
}

}  // namespace
}  // namespace et::kernels::testing
