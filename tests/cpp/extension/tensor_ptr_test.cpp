// TensorPtr: what makes one, what it owns, and what is refused.
#include <cmath>
#include <numeric>
#include <random>

#include "extension/tensor/tensor.h"
#include "messages.h"

namespace et::test {
namespace {

using namespace executorch::extension;  // NOLINT: as a user writes
using executorch::aten::ScalarType;

class TensorPtrTest : public MessagesTest {};

template <typename T>
std::vector<T> elements(const TensorPtr& tensor) {
  const T* const data = tensor->const_data_ptr<T>();
  return std::vector<T>(data, data + tensor->numel());
}

std::vector<int64_t> sizes(const TensorPtr& tensor) { return {tensor->sizes().begin(), tensor->sizes().end()}; }

TEST_F(TensorPtrTest, OwnsListsAndScalars) {
  const TensorPtr a = make_tensor_ptr({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(a->scalar_type(), ScalarType::Int);
  EXPECT_EQ(sizes(a), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(elements<int32_t>(a)[5], 6);
  EXPECT_EQ(elements<float>(make_tensor_ptr({1.0f, 2.0f})), (std::vector<float>{1, 2}));
  EXPECT_EQ(make_tensor_ptr({1.0, 2.0})->scalar_type(), ScalarType::Double);
  EXPECT_EQ(elements<float>(make_tensor_ptr({1.5, 2.0}, ScalarType::Float)), (std::vector<float>{1.5, 2}));
  EXPECT_EQ(elements<bool>(make_tensor_ptr({true, false, true})), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(elements<bool>(make_tensor_ptr({2}, std::vector<bool>{false, true})), (std::vector<bool>{false, true}));
  EXPECT_EQ(elements<int64_t>(make_tensor_ptr(std::vector<int64_t>{7})), (std::vector<int64_t>{7}));
  const TensorPtr scalar = make_tensor_ptr(2.5f);
  EXPECT_EQ(scalar->dim(), 0);
  EXPECT_EQ(elements<float>(scalar), (std::vector<float>{2.5}));
  EXPECT_EQ(elements<uint8_t>(make_tensor_ptr({3}, std::vector<uint8_t>{1, 2, 3})), (std::vector<uint8_t>{1, 2, 3}));
  std::vector<int32_t> narrow = {1, 2};
  std::vector<size_t> wide = {1, 2};
  EXPECT_EQ(sizes(make_tensor_ptr(narrow, {1.0f, 2.0f})), sizes(make_tensor_ptr(wide, {1.0f, 2.0f})));
  EXPECT_EQ(make_tensor_ptr({0, 4}, std::vector<float>())->numel(), 0);
}

TEST_F(TensorPtrTest, TakesAVectorWithoutACopy) {
  std::vector<float> data(1000, 3);
  const float* const before = data.data();
  const TensorPtr tensor = make_tensor_ptr({10, 100}, std::move(data));
  EXPECT_EQ(tensor->const_data_ptr<float>(), before);
}

TEST_F(TensorPtrTest, TakesBytesAsElements) {
  const float values[] = {1, -2};
  std::vector<uint8_t> bytes(sizeof(values));
  std::memcpy(bytes.data(), values, sizeof(values));
  EXPECT_EQ(elements<float>(make_tensor_ptr({2}, bytes, ScalarType::Float)), (std::vector<float>{1, -2}));
}

TEST_F(TensorPtrTest, KnowsOrdersAndStrides) {
  const TensorPtr ordered = make_tensor_ptr({1, 2, 2, 3}, std::vector<float>(12), {0, 2, 3, 1});
  EXPECT_EQ(ordered->strides()[1], 1);
  EXPECT_EQ(ordered->strides()[3], 2);
  const TensorPtr strided = make_tensor_ptr({2, 3}, std::vector<float>(6), {}, {1, 2});
  EXPECT_EQ(runtime::dim_order(*strided)[0], 1);
  EXPECT_NE(make_tensor_ptr({2, 1, 3}, std::vector<float>(6), {}, {3, 77, 1}), nullptr) << "a stride that says nothing";
  const TensorPtr both = make_tensor_ptr({2, 3}, std::vector<float>(6), {1, 0}, {1, 2});
  ASSERT_NE(both, nullptr);
  EXPECT_EQ(clone_tensor_ptr(both)->strides()[0], 1) << "a clone lies in the same order";
  EXPECT_EQ(empty_like(both)->strides()[0], 1);
}

TEST_F(TensorPtrTest, BorrowsAndCallsTheDeleter) {
  float data[6] = {1, 2, 3, 4, 5, 6};
  int deleted = 0;
  {
    const TensorPtr tensor = from_blob(data, {2, 3}, ScalarType::Float, executorch::aten::TensorShapeDynamism::kStatic,
                                       [&](void* at) { deleted += at == data ? 1 : 100; });
    const TensorPtr view = make_tensor_ptr(tensor, {3, 2});
    EXPECT_EQ(view->const_data_ptr(), data);
    EXPECT_EQ(sizes(view), (std::vector<int64_t>{3, 2}));
    EXPECT_EQ(deleted, 0);
  }
  EXPECT_EQ(deleted, 1);
  EXPECT_EQ(from_blob(data, {2, 3}, {1, 2})->strides()[0], 1);
  int64_t indices[] = {4};
  EXPECT_EQ(from_blob(indices, {1})->scalar_type(), ScalarType::Long) << "the pointer says it";
  EXPECT_EQ(from_blob(static_cast<void*>(data), {6})->scalar_type(), ScalarType::Float);
  const TensorPtr built =
      for_blob(data, {2, 3}).dim_order({1, 0}).type(ScalarType::Int).deleter([&](void*) { ++deleted; });
  EXPECT_EQ(built->scalar_type(), ScalarType::Int);
  EXPECT_EQ(for_blob(data, {-1}).deleter([&](void*) { ++deleted; }).make_tensor_ptr(), nullptr);
  EXPECT_EQ(deleted, 2) << "memory that was handed over is given back on an error";
}

TEST_F(TensorPtrTest, ClonesAndConverts) {
  TensorPtr original = make_tensor_ptr({1.5f, -2.5f, 3.0f});
  const TensorPtr clone = clone_tensor_ptr(original);
  original->mutable_data_ptr<float>()[0] = 9;
  EXPECT_EQ(elements<float>(clone)[0], 1.5f);
  EXPECT_EQ(elements<int8_t>(clone_tensor_ptr(clone, ScalarType::Char)), (std::vector<int8_t>{1, -2, 3}));
  EXPECT_EQ(static_cast<float>(elements<Half>(clone_tensor_ptr(clone, ScalarType::Half))[1]), -2.5f);
  EXPECT_EQ(clone_tensor_ptr(clone, ScalarType::Byte), nullptr);
  said({"element 1 is -2.5, which torch.uint8 cannot hold"});
}

TEST_F(TensorPtrTest, ConvertsEveryPairOfRealDtypesAsCppDoes) {
  std::mt19937 generator(7);
  for (int round = 0; round < 200; ++round) {
    const double value = std::ldexp(std::uniform_real_distribution<double>(-1, 1)(generator), round % 70);
    const auto whole = static_cast<int64_t>(value);
    if (std::fabs(value) < 9e18) {
      EXPECT_EQ(elements<int64_t>(make_tensor_ptr(value, ScalarType::Long))[0], whole);
      EXPECT_EQ(elements<double>(make_tensor_ptr(whole, ScalarType::Double))[0], static_cast<double>(whole));
    }
    EXPECT_EQ(elements<float>(make_tensor_ptr(value, ScalarType::Float))[0], static_cast<float>(value));
    const TensorPtr narrow = make_tensor_ptr(value, ScalarType::Short);
    EXPECT_EQ(narrow != nullptr, std::trunc(value) >= -32768 && std::trunc(value) <= 32767) << value;
  }
  EXPECT_EQ(elements<uint64_t>(make_tensor_ptr(UINT64_MAX))[0], UINT64_MAX);
  EXPECT_EQ(make_tensor_ptr(UINT64_MAX, ScalarType::Long), nullptr);
  EXPECT_EQ(make_tensor_ptr(std::nanf(""), ScalarType::Int), nullptr);
  EXPECT_TRUE(std::isinf(elements<float>(make_tensor_ptr(1e300, ScalarType::Float))[0]));
  EXPECT_EQ(make_tensor_ptr({1.0f}, ScalarType::ComplexFloat), nullptr);
}

TEST_F(TensorPtrTest, FillsWithValues) {
  EXPECT_EQ(elements<float>(full({2}, 2.5)), (std::vector<float>{2.5, 2.5}));
  EXPECT_EQ(elements<int64_t>(ones({2}, ScalarType::Long)), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(elements<uint8_t>(zeros({3}, ScalarType::Byte)), (std::vector<uint8_t>(3)));
  EXPECT_EQ(elements<bool>(full_like(zeros({1}, ScalarType::Bool), 1)), (std::vector<bool>{true}));
  EXPECT_EQ(scalar_tensor(3, ScalarType::Int)->dim(), 0);
  const std::vector<float> uniform = elements<float>(rand({1000}));
  EXPECT_TRUE(std::all_of(uniform.begin(), uniform.end(), [](float x) { return x >= 0 && x < 1; }));
  const std::vector<float> normal = elements<float>(randn({4000}));
  EXPECT_NEAR(std::accumulate(normal.begin(), normal.end(), 0.0) / 4000, 0, 0.1);
  const std::vector<int64_t> drawn = elements<int64_t>(randint(-2, 3, {1000}));
  EXPECT_EQ(*std::min_element(drawn.begin(), drawn.end()), -2);
  EXPECT_EQ(*std::max_element(drawn.begin(), drawn.end()), 2);
  EXPECT_NE(elements<float>(rand({8})), elements<float>(rand({8})));
  EXPECT_EQ(randint(3, 3, {1}), nullptr);
}

TEST_F(TensorPtrTest, ResizesWithinItsMemory) {
  const TensorPtr tensor = ones({4, 3});
  EXPECT_EQ(resize_tensor_ptr(tensor, {2, 3}), Error::Ok);
  EXPECT_EQ(tensor->numel(), 6);
  EXPECT_EQ(resize_tensor_ptr(tensor, {4, 3}), Error::Ok);
  EXPECT_EQ(resize_tensor_ptr(tensor, {5, 3}), Error::OutOfResources);
  EXPECT_EQ(resize_tensor_ptr(tensor, {-1, 3}), Error::InvalidArgument);
  EXPECT_EQ(resize_tensor_ptr(nullptr, {1}), Error::InvalidArgument);
}

TEST_F(TensorPtrTest, RefusesInWords) {
  float data[6] = {};
  EXPECT_EQ(make_tensor_ptr({2, 3}, std::vector<float>(5)), nullptr);
  said({"torch.float32 (2, 3) takes 24 bytes, 20 were given"});
  EXPECT_EQ(make_tensor_ptr({2, 3}, {1, 2, 3}), nullptr);
  said({"torch.int32 (2, 3) has 6 elements, 3 were given"});
  EXPECT_EQ(make_tensor_ptr({2, -3}, std::vector<float>(6)), nullptr);
  said({"a size of (2, -3) is negative"});
  EXPECT_EQ(make_tensor_ptr({2, 3}, std::vector<float>(6), {0, 0}), nullptr);
  said({"its dim_order must name each of 2 dimensions once"});
  EXPECT_EQ(make_tensor_ptr({2, 3}, std::vector<float>(6), {}, {4, 1}), nullptr);
  said({"strides (4, 1) are not those of a dense tensor of sizes (2, 3), which are (3, 1)"});
  EXPECT_EQ(make_tensor_ptr({2, 3}, std::vector<float>(6), {}, {1}), nullptr);
  said({"are of different length"});
  EXPECT_EQ(from_blob(static_cast<float*>(nullptr), {1}), nullptr);
  EXPECT_EQ(from_blob(reinterpret_cast<float*>(reinterpret_cast<char*>(data) + 1), {1}), nullptr);
  said({"which must be a multiple of 4"});
  EXPECT_EQ(empty({INT64_MAX, INT64_MAX}), nullptr);
  said({"are more than a machine has memory for"});
  EXPECT_EQ(empty({int64_t{1} << 60}), nullptr);
  EXPECT_EQ(empty({0, INT64_MAX, INT64_MAX}), nullptr);
  EXPECT_EQ(from_blob(data, std::vector<int>(17, 1)), nullptr);
  said({"it has 17 dimensions, at most 16 are allowed"});
  EXPECT_EQ(make_tensor_ptr(TensorPtr()), nullptr);
  EXPECT_EQ(clone_tensor_ptr(TensorPtr()), nullptr);
  EXPECT_EQ(ones_like(nullptr), nullptr);
  EXPECT_EQ(make_tensor_ptr(ones({2}), {3}), nullptr);
  said({"a view cannot be made: torch.float32 (3,) has more elements than torch.float32 (2,)"});
  EXPECT_EQ(from_blob(data, {1}, static_cast<ScalarType>(99)), nullptr);
  said({"99 is no dtype"});
}

TEST_F(TensorPtrTest, ValuesOwnWhatTheyShow) {
  EValue value;
  {
    const TensorPtr tensor = make_tensor_ptr({4.0f});
    value = tensor;
  }
  EXPECT_EQ(value.toTensor().const_data_ptr<float>()[0], 4);
  EXPECT_EQ(EValue(std::string("a text of more than sixteen letters")).toString(),
            "a text of more than sixteen letters");
  EXPECT_EQ(EValue(3).toInt(), 3);
  EXPECT_EQ(EValue(0.5f).toDouble(), 0.5);
  EXPECT_TRUE(EValue(true).isBool());
  EXPECT_TRUE(EValue(TensorPtr()).isNone()) << "a null tensor is nothing";
  EXPECT_TRUE(EValue(Tensor()).isNone());
  EXPECT_EQ(EValue(2).toScalar().to<double>(), 2);
  EXPECT_EQ(value.tryToInt().error(), Error::InvalidType);
  said({"the value is Tensor, not Int"});
  EXPECT_EQ(EValue(3).toTensor().numel(), 0);
  said({"the value is Int, not Tensor"});
  EXPECT_EQ(value.toString(), "");
  EXPECT_EQ(EValue(3).toIntList().size(), 0u);
}

}  // namespace
}  // namespace et::test
