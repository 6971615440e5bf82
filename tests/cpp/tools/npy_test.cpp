// .npy files and orders of dimensions.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "tools/npy.h"
#include "tools/strided_order.h"

namespace et::tools {
namespace {

class NpyTest : public ::testing::Test {
 protected:
  ~NpyTest() override { std::remove(path_.c_str()); }
  void write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }

  const std::string path_ = ::testing::TempDir() + "array.npy";
};

TEST_F(NpyTest, RoundTripsEveryDtypeAndRank) {
  for (const ScalarType dtype :
       {ScalarType::Byte, ScalarType::Long, ScalarType::Half, ScalarType::Float, ScalarType::Bool, ScalarType::BFloat16,
        ScalarType::ComplexDouble, ScalarType::UInt16}) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{}, {3}, {2, 3}, {2, 0, 3}}) {
      NpyArray array{dtype, sizes, {}};
      size_t n = element_size(dtype);
      for (const int64_t size : sizes) {
        n *= static_cast<size_t>(size);
      }
      for (size_t i = 0; i < n; ++i) {
        array.data.push_back(static_cast<uint8_t>(i * 7));
      }
      ASSERT_EQ(write_npy(path_, array), Error::Ok);
      const auto back = read_npy(path_);
      ASSERT_TRUE(back.ok()) << to_string(dtype);
      EXPECT_EQ(back->dtype, dtype);
      EXPECT_EQ(back->sizes, sizes);
      EXPECT_EQ(back->data, array.data);
    }
  }
}

TEST_F(NpyTest, BadFilesAreRefused) {
  const auto file = [](const std::string& header, const std::string& data) {
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + data;
  };
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  write(file(good, "12345678"));
  EXPECT_TRUE(read_npy(path_).ok());
  for (const std::string& bad :
       {std::string(), std::string("PK"), file(good, "1234567"), file(good, "123456789"), file("{}", ""),
        file("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", "12345678"),
        file("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", "12345678"),
        file("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999), }", "12345678"),
        file("{'descr': '<f4', 'fortran_order': False, 'shape': 2, }", "12345678"),
        std::string("\x93NUMPY\x01\x00\xff\xff", 10) + "..."}) {
    write(bad);
    EXPECT_EQ(read_npy(path_).error(), Error::InvalidArgument) << bad;
  }
  EXPECT_EQ(read_npy(path_ + ".missing").error(), Error::AccessFailed);
}

TEST(StridedOrderTest, ChannelsLastAndBack) {
  const int64_t sizes[] = {1, 2, 2, 3};
  const uint8_t order[] = {0, 2, 3, 1};
  uint8_t row_major[12];
  uint8_t ordered[12];
  uint8_t back[12];
  for (uint8_t i = 0; i < 12; ++i) {
    row_major[i] = i;
  }
  to_dim_order(sizes, order, 1, row_major, ordered);
  EXPECT_EQ(ordered[0], 0);
  EXPECT_EQ(ordered[1], 6) << "the second channel of the first pixel";
  EXPECT_EQ(ordered[2], 1);
  from_dim_order(sizes, order, 1, ordered, back);
  EXPECT_TRUE(std::equal(back, back + 12, row_major));
}

}  // namespace
}  // namespace et::tools
