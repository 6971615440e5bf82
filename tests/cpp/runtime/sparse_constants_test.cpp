// Constants that a file holds without their zeros: where they lie, how long, and what damaged ones give.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../base/needs.h"
#include "runtime/host/sparse_constants.h"

namespace et::test {
namespace {

using runtime::FreeableBuffer;
using runtime::NamedDataEntry;
using runtime::NamedDataMap;
using runtime::SparseConstants;

/// One entry.
class OneEntry final : public NamedDataMap {
 public:
  OneEntry(std::string key, std::vector<uint8_t> bytes) : key_(std::move(key)), bytes_(std::move(bytes)) {}
  Result<FreeableBuffer> get(std::string_view key) const override {
    return key == key_ ? Result<FreeableBuffer>(FreeableBuffer(bytes_.data(), bytes_.size())) : Error::NotFound;
  }
  size_t num_entries() const override { return 1; }
  NamedDataEntry entry(size_t) const override { return {key_, bytes_.size(), false, {}}; }

 private:
  std::string key_;
  std::vector<uint8_t> bytes_;
};

/// 10,000 bytes, of which every third is not zero.
std::vector<uint8_t> dense() {
  std::vector<uint8_t> bytes(10'000);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    bytes[i] = static_cast<uint8_t>(1 + i % 255);
  }
  return bytes;
}

std::vector<uint8_t> sparse() {
  const std::vector<uint8_t> from = dense();
  const SparseLayout layout = sparse_layout({from.data(), from.size()}, ScalarType::Char);
  std::vector<uint8_t> out(layout.nbytes);
  write_sparse_bytes(layout, {from.data(), from.size()}, out.data());
  return out;
}

bool is_whole(const void* data) {
  const std::vector<uint8_t> expected = dense();
  return std::equal(expected.begin(), expected.end(), static_cast<const uint8_t*>(data));
}

bool is_zero(const void* data) {
  const auto* const bytes = static_cast<const uint8_t*>(data);
  return std::all_of(bytes, bytes + dense().size(), [](uint8_t byte) { return byte == 0; });
}

TEST(SparseConstants, AreFoundUnderTheirNamesBeforeThoseOfOtherFiles) {
  const OneEntry program("sparse_constant:w", sparse());
  const OneEntry w("w", {1, 2, 3}), v("v", {4, 5});
  NamedDataEntry entry;
  const SparseConstants constants(program, w);
  EXPECT_TRUE(constants.find("w", &entry));
  EXPECT_EQ(entry.key, "w");
  EXPECT_EQ(constants.get("w")->size(), 10'000u);
  EXPECT_FALSE(constants.find("v", nullptr));
  const SparseConstants others(program, v);
  EXPECT_EQ(others.get("v")->size(), 2u);
  EXPECT_EQ(others.get("u").error(), Error::NotFound);
  const OneEntry of_delegate("sparse:w", sparse());
  EXPECT_FALSE(SparseConstants(of_delegate, v).find("w", nullptr)) << "a delegate unpacks its own";
}

TEST(SparseConstants, StayWhileSomebodyReadsThem) {
  ET_NEEDS_PAGES();
  const OneEntry program("sparse_constant:w", sparse());
  const OneEntry none("none", {});
  const SparseConstants constants(program, none);
  Result<FreeableBuffer> first = constants.get("w");
  const void* const place = first->data();
  EXPECT_TRUE(is_whole(place));
  EXPECT_GT(constants.nbytes_not_in_file(), 5'000u);
  constants.release(place);
  EXPECT_TRUE(is_zero(place)) << "given back";
  constants.release(place);  // again, and of an address that is nobody's
  constants.release(&constants);

  Result<FreeableBuffer> second = constants.get("w");
  EXPECT_EQ(second->data(), place) << "packed weights are named by it";
  EXPECT_TRUE(is_whole(place));
  {
    Result<FreeableBuffer> third = constants.get("w");
    EXPECT_EQ(third->data(), place);
    constants.release(place);
    EXPECT_TRUE(is_whole(place)) << "one of two readers is done";
  }
  first->release();
  EXPECT_TRUE(is_whole(place)) << "the second one reads it";
  second->release();
  EXPECT_TRUE(is_zero(place));
  EXPECT_TRUE(is_whole(constants.get("w")->data()));
}

TEST(SparseConstants, DamagedOnesAreRefused) {
  const OneEntry none("none", {});
  for (const size_t i : {size_t{0}, size_t{4}, size_t{5}, size_t{9}, size_t{20}}) {
    std::vector<uint8_t> bytes = sparse();
    bytes[i] ^= 0x20;
    const OneEntry program("sparse_constant:w", bytes);
    EXPECT_EQ(SparseConstants(program, none).get("w").error(), Error::InvalidProgram) << i;
  }
}

}  // namespace
}  // namespace et::test
