// Packed weights are found again under everything that decides how they are packed, number by number.
#include <gtest/gtest.h>

#include <vector>

#include "backends/xnnpack/kernels/library.h"
#include "networks.h"
#include "runtime/host/heap_shared_cache.h"
#include "runtime/host/module.h"
#include "threads/thread_pool.h"

namespace et::backends::xnnpack {
namespace {

constexpr float kWeight[4] = {};
constexpr size_t kNotFound = SIZE_MAX;

size_t look_up(const PackedWeightsScope& scope) {
  const xnn_weights_cache_look_up_key key{0, kWeight, nullptr};
  return scope.cache()->look_up(scope.cache()->context, &key);
}

void insert(const PackedWeightsScope& scope) {
  const xnn_weights_cache_look_up_key key{0, kWeight, nullptr};
  void* const packed = scope.cache()->reserve_space(scope.cache()->context, 64);
  EXPECT_EQ(scope.cache()->look_up_or_insert(scope.cache()->context, &key, packed, 64),
            reinterpret_cast<size_t>(packed));
}

/// A graph whose weights all have one form.
struct Graph {
  WeightForm form{};
  const void* name = kWeight;       // of kWeight
  bool may_be_found = true;         // once packed
  std::vector<const void*> said{};  // weights, as the library names them, that will be and that have been packed

  PackedWeightsScope::Owner owner() {
    return {[](const void* graph, const void** weight, const void*, WeightForm* out) {
              *out = static_cast<const Graph*>(graph)->form;
              *weight = static_cast<const Graph*>(graph)->name;
              return true;
            },
            [](void* graph, const void* weight) { static_cast<Graph*>(graph)->said.push_back(weight); },
            [](void* graph, const void* weight) {
              static_cast<Graph*>(graph)->said.push_back(weight);
              return static_cast<Graph*>(graph)->may_be_found;
            },
            this};
  }
};

TEST(PackedWeights, OfAGraphAreNamedByAllOfTheirForm) {
  runtime::HeapSharedCache shared;
  Graph graph{{{PackedWeightsScope::kGraph, 2, 2}}};
  insert(PackedWeightsScope(&shared, graph.owner()));
  EXPECT_NE(look_up(PackedWeightsScope(&shared, graph.owner())), kNotFound);
  for (size_t i = 0; i < graph.form.numbers.size(); ++i) {
    Graph other{graph.form};
    other.form.numbers[i] ^= uint64_t{1} << (i * 2);
    EXPECT_EQ(look_up(PackedWeightsScope(&shared, other.owner())), kNotFound) << "number " << i;
  }
  for (size_t i = 0; i < graph.form.addresses.size(); ++i) {
    Graph other{graph.form};
    other.form.addresses[i] = &shared;
    EXPECT_EQ(look_up(PackedWeightsScope(&shared, other.owner())), kNotFound) << "address " << i;
  }
}

TEST(PackedWeights, OfAGraphAreNamedByTheAddressThatItsOwnerGives) {
  runtime::HeapSharedCache shared;
  const float first = 0, second = 0;
  Graph graph{{{PackedWeightsScope::kGraph}}, &first};
  insert(PackedWeightsScope(&shared, graph.owner()));
  EXPECT_NE(look_up(PackedWeightsScope(&shared, graph.owner())), kNotFound);
  Graph other{{{PackedWeightsScope::kGraph}}, &second};
  EXPECT_EQ(look_up(PackedWeightsScope(&shared, other.owner())), kNotFound) << "the memory has another weight now";
}

TEST(PackedWeights, TheOwnerHearsWhatIsMissingAndWhatIsPacked) {
  runtime::HeapSharedCache shared;
  Graph graph{{PackedWeightsScope::kGraph}};
  const float name = 0;
  graph.name = &name;
  EXPECT_EQ(look_up(PackedWeightsScope(&shared, graph.owner())), kNotFound);
  EXPECT_EQ(graph.said, (std::vector<const void*>{kWeight}));
  graph.may_be_found = false;
  insert(PackedWeightsScope(&shared, graph.owner()));
  EXPECT_EQ(look_up(PackedWeightsScope(&shared, graph.owner())), kNotFound) << "its owner refused it";
  graph.may_be_found = true;
  insert(PackedWeightsScope(&shared, graph.owner()));
  graph.said.clear();
  EXPECT_NE(look_up(PackedWeightsScope(&shared, graph.owner())), kNotFound);
  EXPECT_TRUE(graph.said.empty()) << "found: nothing is packed";
}

TEST(PackedWeights, OfABranchAreFoundInItsScope) {
  runtime::HeapSharedCache shared;
  Graph graph{{PackedWeightsScope::kGraph}};
  const PackedWeightsScope scope(&shared, graph.owner());
  size_t packed = 0;
  {
    const PackedWeightsScope::Branch branch(scope);
    const xnn_weights_cache_look_up_key key{0, kWeight, nullptr};
    EXPECT_EQ(branch.cache()->look_up(branch.cache()->context, &key), kNotFound);
    void* const memory = branch.cache()->reserve_space(branch.cache()->context, 64);
    packed = branch.cache()->look_up_or_insert(branch.cache()->context, &key, memory, 64);
  }
  EXPECT_EQ(look_up(scope), packed);
}

// What threads pack ahead is what the graph looks for: nothing is packed a second time.
TEST(PackedWeights, TakeTheSameMemoryWithThreadsAndWithout) {
  const std::string layers = test::weight("w1", "f32", {600, 512}) + test::weight("w2", "f32", {40, 600}) + R"(
method @forward(%x: f32[64, 512]) {
  %w1 = constant @w1 : f32[600, 512]
  %w2 = constant @w2 : f32[40, 600]
  %y = aten::linear(%x, %w1, none) : f32[64, 600]
  %r = aten::relu(%y) : f32[64, 600]
  %z = aten::linear(%r, %w2, none) : f32[64, 40]
  return %z
}
)";
  const std::vector<uint8_t> bytes = test::lowered(layers);
  size_t nbytes[2];
  for (const size_t threads : {1, 2}) {
    threads::ThreadPool* const pool = threads::make_pool(threads);
    runtime::HostOptions options;
    options.kernels = &test::all_kernels();
    options.backends = &test::all_backends();
    options.pool = pool;
    auto program = runtime::HostProgram::from_buffer(nullptr, bytes.data(), bytes.size(), options);
    ASSERT_TRUE(program.ok());
    ASSERT_TRUE((*program)->load_method("forward").ok());
    nbytes[threads - 1] = (*program)->packed_nbytes();
    (*program).reset();
    threads::destroy_pool(pool);
  }
  EXPECT_GT(nbytes[0], 600u * 512 * 4);
  EXPECT_EQ(nbytes[0], nbytes[1]);
}

TEST(PackedWeights, OfAKernelAreNamedByKindSizesAndFactors) {
  runtime::HeapSharedCache shared;
  insert(PackedWeightsScope(&shared, kWeight, {1, 4}, nullptr, 1, {7, 8}));
  EXPECT_NE(look_up(PackedWeightsScope(&shared, kWeight, {1, 4}, nullptr, 1, {7, 8})), kNotFound);
  EXPECT_EQ(look_up(PackedWeightsScope(&shared, kWeight, {4, 1}, nullptr, 1, {7, 8})), kNotFound);
  EXPECT_EQ(look_up(PackedWeightsScope(&shared, kWeight, {1, 4}, nullptr, 2, {7, 8})), kNotFound);
  EXPECT_EQ(look_up(PackedWeightsScope(&shared, kWeight, {1, 4}, nullptr, 1, {8, 7})), kNotFound);
  EXPECT_EQ(look_up(PackedWeightsScope(&shared, kWeight, {1, 4}, kWeight, 1, {7, 8})), kNotFound);
  EXPECT_EQ(look_up(PackedWeightsScope(&shared, kWeight + 1, {1, 4}, nullptr, 1, {7, 8})), kNotFound);
}

/// Two programs over one mapped file, which has all of kWeight.
class PackedWeightsOfAFile : public testing::Test {
 protected:
  struct Program {
    explicit Program(runtime::HeapSharedCache& file) {
      shared.add_file({reinterpret_cast<const uint8_t*>(kWeight), sizeof(kWeight)}, &file);
      homes[0] = &file;
    }
    PackedWeightsScope::Owner owner() {
      PackedWeightsScope::Owner owner = graph.owner();
      owner.home = [](const void* graph, const void*) { return static_cast<const ShareGraph*>(graph)->home; };
      owner.homes = homes;
      return owner;
    }
    struct ShareGraph : Graph {
      runtime::SharedCache* home = nullptr;
    };
    runtime::HeapSharedCache shared;
    ShareGraph graph{};
    runtime::SharedCache* homes[1];
  };
  runtime::HeapSharedCache file_;
  Program a_{file_}, b_{file_};
};

TEST_F(PackedWeightsOfAFile, IsTheCacheOfWhatLiesInItAlone) {
  const float elsewhere = 0;
  EXPECT_EQ(a_.shared.cache_of({kWeight, nullptr}), &file_);
  EXPECT_EQ(a_.shared.cache_of({kWeight, kWeight + 3}), &file_);
  EXPECT_EQ(a_.shared.cache_of({kWeight, &elsewhere}), &a_.shared) << "the bias is the program's";
  EXPECT_EQ(a_.shared.cache_of({kWeight + 4}), &a_.shared) << "behind its end";
  EXPECT_EQ(a_.shared.cache_of({nullptr}), &a_.shared);
}

TEST_F(PackedWeightsOfAFile, AreFoundByAnotherProgram) {
  a_.graph.home = b_.graph.home = &file_;
  EXPECT_EQ(look_up(PackedWeightsScope(&a_.shared, a_.owner())), kNotFound);
  insert(PackedWeightsScope(&file_, kWeight, {1, 4}, nullptr, 1));  // a kernel's, which is no graph's
  EXPECT_EQ(look_up(PackedWeightsScope(&b_.shared, b_.owner())), kNotFound);
  const xnn_weights_cache_look_up_key key{0, kWeight, nullptr};
  size_t packed = 0;
  {
    const PackedWeightsScope scope(&a_.shared, a_.owner());
    EXPECT_EQ(look_up(scope), kNotFound);
    void* const memory = scope.cache()->reserve_space(scope.cache()->context, 64);
    packed = scope.cache()->look_up_or_insert(scope.cache()->context, &key, memory, 64);
    EXPECT_EQ(packed, reinterpret_cast<size_t>(memory)) << "reserved where it stays";
  }
  EXPECT_EQ(look_up(PackedWeightsScope(&b_.shared, b_.owner())), packed);
  b_.graph.home = nullptr;
  EXPECT_EQ(look_up(PackedWeightsScope(&b_.shared, b_.owner())), kNotFound) << "this one keeps its weights to itself";
}

TEST_F(PackedWeightsOfAFile, OutliveTheProgramThatPackedThem) {
  const xnn_weights_cache_look_up_key key{0, kWeight, nullptr};
  size_t packed = 0;
  {
    Program first(file_);
    first.graph.home = &file_;
    const PackedWeightsScope scope(&first.shared, first.owner());
    void* const memory = scope.cache()->reserve_space(scope.cache()->context, 64);  // without a look: it moves
    static_cast<char*>(memory)[63] = 7;
    packed = scope.cache()->look_up_or_insert(scope.cache()->context, &key, memory, 64);
    EXPECT_NE(packed, reinterpret_cast<size_t>(memory));
  }
  a_.graph.home = &file_;
  EXPECT_EQ(look_up(PackedWeightsScope(&a_.shared, a_.owner())), packed);
  EXPECT_EQ(reinterpret_cast<const char*>(packed)[63], 7);
}

TEST_F(PackedWeightsOfAFile, OfAKernelAreFoundByAnotherProgram) {
  insert(PackedWeightsScope(&a_.shared, kWeight, {1, 4}, nullptr, 1));
  EXPECT_NE(look_up(PackedWeightsScope(&b_.shared, kWeight, {1, 4}, nullptr, 1)), kNotFound);
  insert(PackedWeightsScope(&a_.shared, kWeight, {1, 4}, nullptr, 2, {7}));
  EXPECT_EQ(look_up(PackedWeightsScope(&b_.shared, kWeight, {1, 4}, nullptr, 2, {7})), kNotFound) << "7 may be a name";
}

}  // namespace
}  // namespace et::backends::xnnpack
