// Headers of .pte and .ptd files: what is written is read, what is wrong is refused.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "schema/pte_header.h"

namespace et::schema {
namespace {

std::vector<uint8_t> pte(const FileLayout& layout, size_t size) {
  std::vector<uint8_t> file(size);
  std::memcpy(file.data() + 4, "ET12", 4);
  write_pte_header(layout, file.data() + kHeaderOffset);
  return file;
}
Result<FileLayout> parse(const std::vector<uint8_t>& file) {
  const size_t n = file.size() < kHeaderPrefixSize ? file.size() : kHeaderPrefixSize;
  return parse_pte_header({file.data(), n}, file.size());
}

TEST(PteHeaderTest, RoundTrips) {
  const auto layout = parse(pte({200, 256, 100}, 356));
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->flatbuffer_size, 200u);
  EXPECT_EQ(layout->segment_base_offset, 256u);
  EXPECT_EQ(layout->segment_data_size, 100u);
}

TEST(PteHeaderTest, IsOptional) {
  std::vector<uint8_t> file(100);
  std::memcpy(file.data() + 4, "ET12", 4);
  const auto layout = parse(file);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->flatbuffer_size, 100u);
  EXPECT_EQ(layout->segment_base_offset, 0u);
}

TEST(PteHeaderTest, AnOlderHeaderHasNoDataSize) {
  std::vector<uint8_t> file = pte({200, 256, 0}, 356);
  file[12] = 24;
  const auto layout = parse(file);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->segment_data_size, 100u) << "all that follows";
}

TEST(PteHeaderTest, BadHeadersAreRefused) {
  const std::vector<FileLayout> bad = {
      {357, 0, 0},             // program longer than the file
      {10, 256, 100},          // shorter than its headers
      {200, 100, 100},         // segments inside the program
      {200, 400, 0},           // segments behind the file
      {200, 256, 101},         // segments that end behind the file
      {200, 256, UINT64_MAX},  // overflow
      {UINT64_MAX, 256, 100},
      {200, UINT64_MAX - 10, 100},
  };
  for (const FileLayout& layout : bad) {
    EXPECT_EQ(parse(pte(layout, 356)).error(), Error::InvalidProgram);
  }
  std::vector<uint8_t> file = pte({200, 256, 100}, 356);
  file[12] = 8;
  EXPECT_EQ(parse(file).error(), Error::InvalidProgram) << "header too short";
  file[12] = 32;
  file[5] = 'X';
  EXPECT_EQ(parse(file).error(), Error::InvalidProgram) << "another format";
  for (size_t size = 0; size < 16; ++size) {
    EXPECT_EQ(parse(std::vector<uint8_t>(size)).error(), Error::InvalidProgram);
  }
}

TEST(FlatTensorHeaderTest, RoundTripsAndRefuses) {
  std::vector<uint8_t> file(500);
  std::memcpy(file.data() + 4, "FT01", 4);
  write_flat_tensor_header({320, 384, 116}, file.data() + kHeaderOffset);
  const auto layout = parse_flat_tensor_header({file.data(), kHeaderPrefixSize}, file.size());
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->flatbuffer_size, 320u);
  EXPECT_EQ(layout->segment_base_offset, 384u);
  EXPECT_EQ(parse_flat_tensor_header({file.data(), kHeaderPrefixSize}, 499).error(), Error::InvalidExternalData);
  EXPECT_EQ(parse_flat_tensor_header({file.data(), 40}, 40).error(), Error::InvalidExternalData);
  file[8] = 'X';
  EXPECT_EQ(parse_flat_tensor_header({file.data(), kHeaderPrefixSize}, file.size()).error(),
            Error::InvalidExternalData);
}

}  // namespace
}  // namespace et::schema
