// Where filters without zeros lie while they are packed: one over the other where the library asks for each, apart
// elsewhere.
#include "backends/xnnpack/runtime/unpacked_filters.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/xnnpack/runtime/node_types.h"

namespace et::backends::xnnpack {
namespace {

constexpr size_t kSize = 1000;

/// Two linear layers, the second of which may have another kind of node, with sparse filters of 1s and of 2s.
class UnpackedFiltersTest : public ::testing::Test {
 protected:
  UnpackedFiltersTest() {
    model_.values.resize(4);
    for (uint32_t i = 0; i < 2; ++i) {
      dense_[i].assign(kSize, 0);
      std::memset(dense_[i].data(), static_cast<int>(i + 1), kSize / 3);
      const SparseLayout layout = sparse_layout(dense_[i], ScalarType::Char);
      entries_[i].resize(layout.nbytes);
      write_sparse_bytes(layout, dense_[i], entries_[i].data());
      SparseConstant sparse{runtime::FreeableBuffer(entries_[i].data(), entries_[i].size()), {}};
      EXPECT_EQ(read_sparse_bytes("", entries_[i], &sparse.bytes), Error::Ok);
      model_.sparse.push_back(std::move(sparse));
      model_.values[1 + i].sparse = i;
      model_.values[1 + i].data = entries_[i].data();
      Node node;
      node.type = find_node_type(payload::NodeUnion_FullyConnected);
      node.num_inputs = 2;
      node.inputs[1] = 1 + i;
      model_.nodes.push_back(node);
    }
  }

  bool holds(const void* data, size_t i) const { return std::memcmp(data, dense_[i].data(), kSize) == 0; }
  const void* data_of(const UnpackedFilters& filters, size_t i) const { return filters.data_of(model_.values[1 + i]); }

  std::vector<uint8_t> dense_[2], entries_[2];
  Model model_;
};

TEST_F(UnpackedFiltersTest, AreWrittenOneOverTheOther) {
  UnpackedFilters filters(model_, nullptr);
  ASSERT_EQ(filters.prepare(true), Error::Ok);
  const auto *const first = static_cast<const uint8_t*>(data_of(filters, 0)), *const second =
                                                                                  static_cast<const uint8_t*>(
                                                                                      data_of(filters, 1));
  EXPECT_NE(first, second);
  EXPECT_LT(second - first, static_cast<std::ptrdiff_t>(kSize)) << "they share memory";
  EXPECT_EQ(filters.name_of(first), entries_[0].data());
  EXPECT_EQ(filters.name_of(second), entries_[1].data());
  EXPECT_EQ(filters.name_of(&filters), &filters) << "what is no filter names itself";
  filters.write(first);
  EXPECT_TRUE(holds(first, 0));
  EXPECT_TRUE(filters.packed(first));
  filters.write(second);
  EXPECT_TRUE(holds(second, 1));
  EXPECT_TRUE(filters.packed(second));
  EXPECT_FALSE(filters.was_missed());
  EXPECT_FALSE(filters.packed(first)) << "the second is there";
  EXPECT_TRUE(filters.was_missed());
}

TEST_F(UnpackedFiltersTest, AreThereBeforeWhereNobodyAsks) {
  UnpackedFilters filters(model_, nullptr);
  ASSERT_EQ(filters.prepare(false), Error::Ok);
  EXPECT_TRUE(holds(data_of(filters, 0), 0));
  EXPECT_TRUE(holds(data_of(filters, 1), 1));
  EXPECT_TRUE(filters.packed(data_of(filters, 0)));
}

TEST_F(UnpackedFiltersTest, OfDepthwiseConvolutionsAreThereBefore) {
  model_.nodes[1].type = find_node_type(payload::NodeUnion_DepthwiseConv2d);
  UnpackedFilters filters(model_, nullptr);
  ASSERT_EQ(filters.prepare(true), Error::Ok);
  filters.write(data_of(filters, 0));
  EXPECT_TRUE(holds(data_of(filters, 0), 0));
  EXPECT_TRUE(holds(data_of(filters, 1), 1));
  EXPECT_TRUE(filters.packed(data_of(filters, 1)));
}

TEST_F(UnpackedFiltersTest, DenseConstantsLieWhereTheyLie) {
  model_.values[3].data = dense_[0].data();
  UnpackedFilters filters(model_, nullptr);
  ASSERT_EQ(filters.prepare(true), Error::Ok);
  EXPECT_EQ(filters.data_of(model_.values[3]), dense_[0].data());
  EXPECT_EQ(filters.data_of(model_.values[0]), nullptr);
}

}  // namespace
}  // namespace et::backends::xnnpack
