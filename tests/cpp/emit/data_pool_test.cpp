#include "emit/data_pool.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

namespace et::emit {
namespace {

TEST(DataPool, StoresEqualBytesOnce) {
  const std::string a(1000, 'a');
  const std::string same(1000, 'a');
  std::string other(1000, 'a');
  other[517] = 'b';  // between the sampled windows
  DataPool pool(16);
  EXPECT_EQ(pool.add(a.data(), a.size()), 1u);
  EXPECT_EQ(pool.add(other.data(), other.size()), 2u);
  EXPECT_EQ(pool.add(same.data(), same.size()), 1u);
  EXPECT_EQ(pool.add(a.data(), 999), 3u) << "a prefix is another constant";
  EXPECT_EQ(pool.offsets(), (std::vector<uint64_t>{0, 0, 1008, 2016}));
  EXPECT_EQ(pool.nbytes(), 3015u) << "the last one is not padded";
}

TEST(DataPool, EmptyBytesLieInsideTheSegment) {
  const char byte = 1;
  DataPool pool(16);
  pool.add(&byte, 1);
  const uint32_t index = pool.add(nullptr, 0);
  EXPECT_EQ(pool.offsets()[index], 0u);
  EXPECT_EQ(pool.nbytes(), 1u);
}

TEST(DataPool, FindsWhatItHolds) {
  const std::string a(100, 'a');
  const std::string b(50, 'b');
  DataPool pool(16);
  EXPECT_EQ(pool.find(a.data(), a.size()), std::nullopt);
  pool.add(a.data(), a.size());
  pool.add(b.data(), b.size());
  const std::string same = b;
  EXPECT_EQ(pool.find(same.data(), same.size()), 112u);
  EXPECT_EQ(pool.find(same.data(), 49), std::nullopt);
}

TEST(SegmentPool, ViewsTakeNoRoom) {
  const std::string a(100, 'a');
  SegmentPool pool(128);
  pool.add_shared(a.data(), a.size());
  EXPECT_EQ(pool.add_view(16, 32), 1u);
  EXPECT_EQ(pool.segments()[1].offset, 16u);
  EXPECT_EQ(pool.segments()[1].nbytes, 32u);
  EXPECT_EQ(pool.nbytes(), 100u);
  EXPECT_EQ(pool.pieces().size(), 1u);
}

TEST(SegmentPool, AlignsLargeSegmentsAsAsked) {
  const std::string a(100, 'a');
  const std::string large(4096, 'b');
  SegmentPool pool(128);
  pool.add_shared(a.data(), a.size());
  pool.add_shared(large.data(), large.size());
  EXPECT_EQ(pool.segments()[1].offset, 128u);
}

TEST(SegmentPool, AlignsSegmentsAndSharesEqualOnes) {
  const std::string a(100, 'a');
  const std::string b(10, 'b');
  SegmentPool pool(128);
  EXPECT_EQ(pool.add_shared(a.data(), a.size()), 0u);
  EXPECT_EQ(pool.add_shared(b.data(), b.size()), 1u);
  EXPECT_EQ(pool.add_shared(a.data(), a.size()), 0u);
  ASSERT_EQ(pool.segments().size(), 2u);
  EXPECT_EQ(pool.segments()[1].offset, 112u) << "small ones are not padded to the alignment of large ones";
  EXPECT_EQ(pool.nbytes(), 122u);
}

TEST(File, WritesPaddingBetweenPieces) {
  const std::string piece = "xyz";
  File file;
  file.head = {1, 2};
  file.pieces.push_back({piece.data(), piece.size(), 8});
  file.nbytes = 12;
  std::string bytes(12, '?');
  MemorySink sink(bytes.data(), bytes.size());
  ASSERT_EQ(file.write(sink), Error::Ok);
  EXPECT_EQ(bytes, std::string("\1\2\0\0\0\0\0\0xyz\0", 12));
  MemorySink small(bytes.data(), 11);
  EXPECT_EQ(file.write(small), Error::OutOfResources);
}

TEST(Save, RenamesWhenTheFileIsWhole) {
  const std::string path = testing::TempDir() + "et_save_test.pte";
  std::ofstream(path) << "old";
  File file;
  file.head = {'n', 'e', 'w'};
  file.nbytes = 3;
  ASSERT_EQ(save(file, path), Error::Ok);
  std::ifstream stream(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), "new");
  std::remove(path.c_str());
}

TEST(Save, LeavesNothingBehindWhenItFails) {
  const std::string path = testing::TempDir() + "et_unfinished.pte";
  {
    FileSink sink(path);
    ASSERT_EQ(sink.open(), Error::Ok);
    ASSERT_EQ(sink.write("abc", 3), Error::Ok);
  }
  EXPECT_FALSE(std::ifstream(path).good());
  File file;
  file.nbytes = 0;
  EXPECT_EQ(save(file, testing::TempDir() + "no/such/folder/x.pte"), Error::AccessFailed);
}

}  // namespace
}  // namespace et::emit
