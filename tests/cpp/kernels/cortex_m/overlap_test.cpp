// Convolutions and maximum poolings that write over their own input: as near to it as ops/image_windows.h allows they
// give what they give apart from it, bit for bit, and nearer they are refused.
#include "kernel_harness.h"
#include "kernels/cortex_m/kernels.h"
#include "ops/image_windows.h"

namespace et::kernels::testing {
namespace {

struct Image {
  std::vector<int64_t> sizes, strides = std::vector<int64_t>(4);
  std::vector<uint8_t> order = dim_order(4, kChannelsLast);
  TensorImpl impl;

  explicit Image(std::vector<int64_t> of) : sizes(std::move(of)) { place(nullptr); }
  size_t nbytes() const { return static_cast<size_t>(sizes[0] * sizes[1] * sizes[2] * sizes[3]); }
  void place(char* at) {
    impl = TensorImpl(ScalarType::Char, 4, sizes.data(), strides.data(), order.data(), at, nbytes());
  }
};

/// The arguments of a call.
class Call {
 public:
  Call& add(EValue value) {
    values_.push_back(value);
    args_.push_back(&values_.back());
    return *this;
  }
  Call& add_pair(int64_t* pair) {
    items_.emplace_back();
    for (size_t d = 0; d < 2; ++d) {
      values_.emplace_back(pair[d]);
      items_.back().push_back(&values_.back());
    }
    lists_.push_back({items_.back().data(), pair, 2, false});
    return add(EValue(&lists_.back()));
  }

  /// False when the kernel of this folder does not take it.
  bool run(const char* op, bool (*fits)(cortex_m::Arguments)) {
    const Span<EValue* const> span(args_.data(), args_.size());
    if (!fits(span)) {
      return false;
    }
    const Kernel* found[4];
    EXPECT_GE(test_registry().find(op, found), 1u);
    ExactAllocator temp, data;
    runtime::RandomState state;
    runtime::KernelContext context(&temp, &data, nullptr, &state, nullptr);
    EXPECT_EQ(found[0]->run(context, span, nullptr), Error::Ok);
    context.reset_temp();
    return true;
  }

 private:
  std::deque<EValue> values_;
  std::vector<EValue*> args_;
  std::deque<std::vector<EValue*>> items_;
  std::deque<runtime::BoxedList<int64_t>> lists_;
};

/// An operator on images of random sizes.
class Operator {
 public:
  explicit Operator(uint32_t seed) : random_(seed) {}
  virtual ~Operator() = default;

  /// What it computes with the image at `in` and the result at `out` of a memory; empty when it is refused.
  std::vector<char> run(size_t in, size_t out) {
    std::vector<char> memory(std::max(in + input_.nbytes(), out + output_.nbytes()), 0x5a);
    std::copy(given_.begin(), given_.end(), memory.begin() + static_cast<ptrdiff_t>(in));
    input_.place(memory.data() + in);
    output_.place(memory.data() + out);
    if (!call()) {
      return {};
    }
    return {memory.begin() + static_cast<ptrdiff_t>(out),
            memory.begin() + static_cast<ptrdiff_t>(out + output_.nbytes())};
  }
  std::vector<char> run_apart() { return run(0, input_.nbytes()); }

  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  const ops::Distances& least() const { return least_; }
  /// The image and the result, the one so far behind the other, share a byte.
  bool meet_in_front(size_t distance) const { return distance < output_.nbytes(); }
  bool meet_behind(size_t distance) const { return distance < input_.nbytes(); }

 protected:
  virtual bool call() = 0;
  std::vector<char> random_bytes(size_t count) {
    std::vector<char> bytes(count);
    for (char& byte : bytes) {
      byte = static_cast<char>(random_());
    }
    return bytes;
  }
  /// Of dimension `d`, windows and the sizes of both images.
  void set(size_t d, int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
    input_.sizes[d + 2] = in, output_.sizes[d + 2] = out;
    kernel_[d] = kernel, stride_[d] = stride, padding_[d] = padding, dilation_[d] = dilation;
    const auto put = [d](int32_t* to, int64_t value) { to[d] = static_cast<int32_t>(value); };
    put(windows_.in, in), put(windows_.out, out), put(windows_.kernel, kernel);
    put(windows_.stride, stride), put(windows_.padding, padding), put(windows_.dilation, dilation);
  }

  std::mt19937 random_;
  Image input_{{1, 1, 1, 1}}, output_{{1, 1, 1, 1}};
  ops::ImageWindows windows_;
  ops::Distances least_;
  int64_t kernel_[2], stride_[2], padding_[2], dilation_[2];
  std::vector<char> given_;
};

class Pool final : public Operator {
 public:
  explicit Pool(uint32_t seed) : Operator(seed) {
    const int64_t channels = between(1, between(0, 3) == 0 ? 90 : 9);
    input_.sizes = output_.sizes = {1, channels, 0, 0};
    ceil_ = between(0, 1) == 1;
    for (size_t d = 0; d < 2; ++d) {
      const int64_t kernel = between(1, 4), stride = between(1, 3), padding = between(0, kernel / 2);
      const int64_t size = std::max<int64_t>(kernel - 2 * padding, 1) + between(0, 9);
      int64_t windows = (size + 2 * padding - kernel + (ceil_ ? stride - 1 : 0)) / stride + 1;
      windows -= ceil_ && (windows - 1) * stride >= size + padding ? 1 : 0;
      set(d, size, windows, kernel, stride, padding, 1);
    }
    given_ = random_bytes(input_.nbytes());
    least_ = ops::distances(windows_, static_cast<int32_t>(channels), static_cast<int32_t>(channels), 1);
  }

 private:
  bool call() override {
    Call call;
    call.add(EValue(Tensor(&input_.impl))).add_pair(kernel_).add_pair(stride_).add_pair(padding_).add_pair(dilation_);
    return call.add(EValue(ceil_))
        .add(EValue(Tensor(&output_.impl)))
        .run("et::max_pool2d.out", &cortex_m::fits_max_pool2d);
  }

  bool ceil_;
};

class Convolution final : public Operator {
 public:
  explicit Convolution(uint32_t seed) : Operator(seed) {
    const int64_t kind = between(0, 2);  // any, pointwise, depthwise
    const int64_t in_channels = between(1, between(0, 3) == 0 ? 64 : 9);
    const int64_t out_channels = kind == 2 ? in_channels : between(1, between(0, 3) == 0 ? 64 : 9);
    groups_ = kind == 2 ? in_channels : 1;
    input_.sizes = {1, in_channels, 0, 0};
    weight_.sizes = {out_channels, kind == 2 ? 1 : in_channels, 1, 1};
    output_.sizes = {1, out_channels, 0, 0};
    for (size_t d = 0; d < 2; ++d) {
      const bool is_point = kind == 1;
      const int64_t kernel = is_point ? 1 : between(1, 5), dilation = between(1, 2);
      const int64_t stride = is_point && between(0, 3) != 0 ? 1 : between(1, 3);
      const int64_t padding = is_point && between(0, 3) != 0 ? 0 : between(0, kernel);
      const int64_t reach = dilation * (kernel - 1) + 1;
      const int64_t size = std::max<int64_t>(reach - 2 * padding, 1) + between(0, 9);
      weight_.sizes[d + 2] = kernel;
      set(d, size, (size + 2 * padding - reach) / stride + 1, kernel, stride, padding, dilation);
    }
    given_ = random_bytes(input_.nbytes());
    weights_ = random_bytes(weight_.nbytes());
    weight_.place(weights_.data());
    may_overlap_ = ops::may_overlap(windows_, 1, in_channels, out_channels, groups_, &least_);
  }

  bool may_overlap() const { return may_overlap_; }

 private:
  bool call() override {
    TensorImpl scales(ScalarType::Float, 1, &one_, &scale_stride_, &scale_order_, &weight_scale_, sizeof(float));
    Call call;
    call.add(EValue(Tensor(&input_.impl))).add(EValue(0.02)).add(EValue(int64_t{-3}));
    call.add(EValue(Tensor(&weight_.impl))).add(EValue(Tensor(&scales))).add(EValue());
    call.add_pair(stride_).add_pair(padding_).add_pair(dilation_);
    call.add(EValue(false)).add_pair(no_padding_).add(EValue(groups_)).add(EValue(0.6)).add(EValue(int64_t{5}));
    call.add(EValue(int64_t{-128})).add(EValue(int64_t{127})).add(EValue(Tensor(&output_.impl)));
    return call.run("et::quantized_convolution.out", &cortex_m::fits_quantized_convolution);
  }

  Image weight_{{1, 1, 1, 1}};
  bool may_overlap_;
  int64_t groups_;
  int64_t no_padding_[2] = {0, 0};
  std::vector<char> weights_;
  float weight_scale_ = 0.01f;
  int64_t one_ = 1, scale_stride_ = 1;
  uint8_t scale_order_ = 0;
};

/// True when both places nearest to the image share bytes with it.
bool gives_the_same_over_its_input(Operator& one) {
  const std::vector<char> expected = one.run_apart();
  EXPECT_FALSE(expected.empty());
  const auto in_front = static_cast<size_t>(one.least().in_front), behind = static_cast<size_t>(one.least().behind);
  const auto more = static_cast<size_t>(one.between(0, 40));
  EXPECT_EQ(one.run(in_front, 0), expected) << in_front << " in front";
  EXPECT_EQ(one.run(in_front + more, 0), expected) << in_front + more << " in front";
  EXPECT_EQ(one.run(0, behind), expected) << behind << " behind";
  EXPECT_EQ(one.run(0, behind + more), expected) << behind + more << " behind";
  if (in_front > 0 && one.meet_in_front(in_front - 1)) {
    EXPECT_TRUE(one.run(in_front - 1, 0).empty()) << "too near in front";
  }
  if (behind - 1 > 0 && one.meet_behind(behind - 1)) {
    EXPECT_TRUE(one.run(0, behind - 1).empty()) << "too near behind";
  }
  return one.meet_in_front(in_front) && one.meet_behind(behind);
}

TEST(CortexMOverlap, ConvolutionsOverTheirInputGiveWhatTheyGiveApartFromIt) {
  int num_met = 0;
  for (uint32_t seed = 0; seed < 3000 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Convolution convolution(seed);
    ASSERT_TRUE(convolution.may_overlap());
    num_met += gives_the_same_over_its_input(convolution) ? 1 : 0;
  }
  EXPECT_GT(num_met, 1000);  // else they were apart in most cases
}

TEST(CortexMOverlap, MaximumPoolingsOverTheirInputGiveWhatTheyGiveApartFromIt) {
  int num_met = 0;
  for (uint32_t seed = 0; seed < 3000 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Pool pool(seed);
    num_met += gives_the_same_over_its_input(pool) ? 1 : 0;
  }
  EXPECT_GT(num_met, 1000);
}

TEST(CortexMOverlap, DistancesOfLayersOfKnownNetworks) {
  // DS-CNN: 64 channels, 25 x 5; a window of 3 x 3 begins a row and a pixel in front, and its pixel ends one behind.
  const ops::ImageWindows window{{25, 5}, {25, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}};
  const ops::Distances depthwise = ops::distances(window, 64, 64, 1);
  EXPECT_EQ(depthwise.in_front, 7 * 64);
  EXPECT_EQ(depthwise.behind, 7 * 64);
  const ops::ImageWindows point{{48, 48}, {48, 48}, {1, 1}, {1, 1}, {0, 0}, {1, 1}};
  const ops::Distances wider = ops::distances(point, 8, 16, ops::kPixelsAtOnce);  // MobileNetV1-0.25
  EXPECT_EQ(wider.in_front, 48 * 48 * 8 + 4 * 8);
  EXPECT_EQ(wider.behind, 4 * 8);
}

}  // namespace
}  // namespace et::kernels::testing
