// Bytes without their zeros: what comes back, what a damaged entry is told.
#include "numerics/sparse_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace et {
namespace {

using Bytes = std::vector<uint8_t>;

/// `count` elements of which every `step`-th is not zero, none when `step` is 0.
template <typename T>
Bytes elements(size_t count, size_t step) {
  Bytes out(count * sizeof(T));
  for (size_t i = 0; step != 0 && i < count; i += step) {
    const T value = static_cast<T>(0x81828384u + 37 * i) | T{1};
    std::memcpy(&out[i * sizeof(T)], &value, sizeof(T));
  }
  return out;
}

Bytes packed(const Bytes& dense, ScalarType dtype) {
  const SparseLayout layout = sparse_layout(dense, dtype);
  Bytes out(layout.nbytes);
  write_sparse_bytes(layout, dense, out.data());
  return out;
}

/// The message that an entry is refused with; "" when it is read.
std::string refusal(const Bytes& entry) {
  static std::string message;
  message.clear();
  const LogHook before =
      set_log_hook([](LogLevel, const char*, int, const char* text, size_t length) { message.assign(text, length); });
  SparseBytes sparse;
  // Exactly as long as the entry is, for the address sanitizer.
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[entry.size()]);
  std::copy(entry.begin(), entry.end(), exact.get());
  const Error error = read_sparse_bytes("sparse:name", {exact.get(), entry.size()}, &sparse);
  if (error == Error::Ok) {
    const std::unique_ptr<uint8_t[]> dense(new uint8_t[sparse.nbytes()]);
    unpack(sparse, dense.get());
  }
  set_log_hook(before);
  EXPECT_EQ(error == Error::Ok, message.empty());
  EXPECT_TRUE(error == Error::Ok || error == Error::InvalidProgram);
  return message;
}

TEST(SparseBytes, ComeBackAsTheyWere) {
  for (const size_t count : {1, 7, 8, 9, 63, 64, 65, 1000}) {
    for (const size_t step : {0, 1, 2, 3, 7, 20}) {
      for (const auto& [dense, dtype] : {std::pair(elements<uint8_t>(count, step), ScalarType::Char),
                                         std::pair(elements<uint16_t>(count, step), ScalarType::Half),
                                         std::pair(elements<uint32_t>(count, step), ScalarType::Float)}) {
        const Bytes entry = packed(dense, dtype);
        SparseBytes sparse;
        ASSERT_EQ(read_sparse_bytes("k", entry, &sparse), Error::Ok);
        ASSERT_EQ(sparse.nbytes(), dense.size());
        EXPECT_EQ(sparse.num_values, step == 0 ? 0 : (count + step - 1) / step);
        EXPECT_EQ(entry.size(), 16 + (count + 63) / 64 * 8 + sparse.num_values * sparse.element_size);
        Bytes out(dense.size(), 0x55);
        unpack(sparse, out.data());
        EXPECT_EQ(out, dense) << count << " elements, each " << step << "-th";
      }
    }
  }
}

TEST(SparseBytes, SignsOfZerosAreDroppedWhereElementsAreFloats) {
  const uint32_t floats[] = {0x80000000u, 0, 0x3F800000u, 0x80000001u};
  Bytes dense(sizeof(floats));
  std::memcpy(dense.data(), floats, sizeof(floats));
  EXPECT_EQ(sparse_layout(dense, ScalarType::Float).num_values, 2u);
  EXPECT_EQ(sparse_layout(dense, ScalarType::Int).num_values, 3u);
  EXPECT_EQ(sparse_layout({dense.data(), 4}, ScalarType::Half).num_values, 0u);
  EXPECT_EQ(sparse_layout({dense.data(), 4}, ScalarType::Char).num_values, 1u);
  SparseBytes sparse;
  const Bytes entry = packed(dense, ScalarType::Float);
  ASSERT_EQ(read_sparse_bytes("k", entry, &sparse), Error::Ok);
  uint32_t out[4];
  unpack(sparse, out);
  EXPECT_EQ(out[0], 0u);
  EXPECT_EQ(out[2], floats[2]);
  EXPECT_EQ(out[3], floats[3]) << "the smallest number is none of the zeros";
}

TEST(SparseBytes, SomeBytesHaveNone) {
  const Bytes dense(6);
  EXPECT_EQ(sparse_layout(dense, ScalarType::Float).element_size, 0u);
  EXPECT_EQ(sparse_layout(dense, ScalarType::Half).element_size, 2u);
  EXPECT_EQ(sparse_layout(Bytes(16), ScalarType::Double).element_size, 0u);
  EXPECT_EQ(sparse_layout({}, ScalarType::Char).element_size, 0u);
}

/// Each field of an entry, and its length.
TEST(SparseBytes, DamagedOnesAreRefused) {
  const Bytes good = packed(elements<uint16_t>(100, 3), ScalarType::Half);  // 34 values, a mask of 16 bytes
  ASSERT_EQ(refusal(good), "");
  const auto with = [&good](size_t at, const Bytes& bytes) {
    Bytes bad = good;
    std::copy(bytes.begin(), bytes.end(), bad.begin() + static_cast<std::ptrdiff_t>(at));
    return bad;
  };
  const auto contains = [](const std::string& message, const std::string& text) {
    return message.find("'sparse:name'") != std::string::npos && message.find(text) != std::string::npos;
  };
  EXPECT_PRED2(contains, refusal(with(0, {'e'})), "no sparse data");
  EXPECT_PRED2(contains, refusal(with(4, {1})), "version 1");
  EXPECT_PRED2(contains, refusal(with(6, {1})), "version");
  for (const uint8_t size : {0, 3, 5, 8, 255}) {
    EXPECT_PRED2(contains, refusal(with(5, {size})), "sparse elements of");
  }
  EXPECT_PRED2(contains, refusal(with(5, {1})), "bits are set");
  EXPECT_PRED2(contains, refusal(with(5, {4})), "bits are set");
  EXPECT_PRED2(contains, refusal(with(8, Bytes(8, 0))), "0 bytes of elements");
  EXPECT_PRED2(contains, refusal(with(8, {201})), "201 bytes of elements of 2");
  EXPECT_PRED2(contains, refusal(with(8, Bytes(8, 0xFE))), "too few for the bits");
  EXPECT_PRED2(contains, refusal(with(8, {0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF})), "too few for the bits");
  EXPECT_PRED2(contains, refusal(with(8, {0, 0, 0, 0, 1})), "too few for the bits");
  EXPECT_PRED2(contains, refusal(with(8, {198})), "bits are set behind");  // element 99 was the last, and is stored
  EXPECT_PRED2(contains, refusal(with(16, {0xFF})), "bits are set, but there are 68 bytes");
  EXPECT_PRED2(contains, refusal(with(16, {0})), "bits are set, but");
  EXPECT_PRED2(contains, refusal(with(16 + 12, {0x1F})), "bits are set behind");
  EXPECT_PRED2(contains, refusal(with(16 + 15, {0x80})), "bits are set behind");
  Bytes longer = good;
  longer.push_back(0);
  EXPECT_PRED2(contains, refusal(longer), "69 bytes of elements");
  longer.push_back(0);
  EXPECT_PRED2(contains, refusal(longer), "70 bytes of elements");
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(refusal(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size))), "") << size;
  }
}

TEST(SparseBytes, DamagedInAnyBitTheyAreReadOrRefused) {
  const Bytes good = packed(elements<uint8_t>(90, 2), ScalarType::Char);
  size_t num_read = 0;
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes bad = good;
    bad[bit / 8] = static_cast<uint8_t>(bad[bit / 8] ^ 1u << bit % 8);
    num_read += refusal(bad).empty();
  }
  EXPECT_EQ(num_read, 8u * 45 + 3) << "the values; and sizes of 91, 88 and 94 bytes are as good as 90";
}

}  // namespace
}  // namespace et
