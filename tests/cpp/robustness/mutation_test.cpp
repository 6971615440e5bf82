// Files that are damaged in thousands of ways are refused or run; nothing crashes, hangs or leaks. Run it under
// sanitizers (make sanitize) to see what a plain build does not. ET_MUTATIONS sets how many files, ET_SEED which ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "../runtime/program_builder.h"
#include "mutations.h"
#include "numerics/sparse_bytes.h"

namespace et::test {
namespace {

/// Files of the official exporter, kept small.
std::vector<Bytes> official_seeds() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(ET_SEED_DIR)) {
    if (entry.path().filename().string().rfind("official_", 0) == 0) {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

/// What official files do not have: our named data, unbound tensors, several methods with state, lists of tensors.
std::vector<Bytes> own_seeds() {
  std::vector<Bytes> seeds;
  {
    ProgramBuilder b;
    const int x = b.input(b.tensor({4, 3}, ScalarType::Float, fb::TensorShapeDynamism_DYNAMIC_BOUND));
    const int y = b.output(b.tensor({4, 3}, ScalarType::Float, fb::TensorShapeDynamism_DYNAMIC_BOUND));
    b.kernel("aten::relu", "out", {x, y, y});
    fb::shapes::ShapesT shapes;
    shapes.methods.push_back(std::make_unique<fb::shapes::MethodShapesT>());
    shapes.methods[0]->name = "forward";
    shapes.methods[0]->symbols.push_back(std::make_unique<fb::shapes::SymbolT>());
    shapes.methods[0]->symbols[0]->name = "batch";
    shapes.methods[0]->symbols[0]->upper = 4;
    shapes.methods[0]->inputs = {fb::shapes::SizeRelation(0, 0, 0, 0, 1, 0)};
    shapes.methods[0]->input_names = {"x"};
    b.named_data("executorch_py.shapes",
                 ProgramBuilder::pack<fb::shapes::Shapes>(shapes, fb::shapes::ShapesIdentifier()));
    fb::debug::DebugInfoT debug;
    debug.strings = {"", "aten.relu.default", "relu", "net.act", "model.py"};
    debug.methods.push_back(std::make_unique<fb::debug::MethodInfoT>());
    debug.methods[0]->name = "forward";
    debug.methods[0]->instructions = {fb::debug::InstructionInfo(1, 2, 3, 4, 5, 0, 1)};
    debug.methods[0]->debug_handles = {9};
    b.named_data("executorch_py.debug",
                 ProgramBuilder::pack<fb::debug::DebugInfo>(debug, fb::debug::DebugInfoIdentifier()));
    seeds.push_back(b.build());
  }
  {
    ProgramBuilder b;
    const int x = b.input(b.tensor({2}));
    const int y = b.output(b.tensor({2}));
    b.kernel("aten::relu", "out", {x, y, y});
    b.kernel("aten::relu", "out", {y, y, y});
    b.packed_debug({1, 2, 3, 4, 9, 3, 2, 14, 7, /**/ 1, 2, 0, 0, 0xac, 0x02, 0, 0}, {"", "op", "fxn", "mod", "a.py"});
    seeds.push_back(b.build());
  }
  {
    ProgramBuilder b;
    b.program().execution_plan.clear();
    b.add_method("bump");
    const int x = b.input(b.tensor({2}));
    const int s = b.state({2}, {1, 2}, "counter");
    b.kernel("aten::add", "out", {s, x, b.integer(1), s, s});
    b.add_method("read");
    const int t = b.state({2}, {1, 2}, "counter");
    const int list = b.tensor_list({t, t});
    const int y = b.output(b.open_tensor({4}));
    b.kernel("aten::cat", "out", {list, b.integer(0), y, y});
    seeds.push_back(b.build());
  }
  {
    ProgramBuilder b;
    const int x = b.input(b.open_tensor({2, 8}, ScalarType::Float, fb::TensorShapeDynamism_DYNAMIC_BOUND));
    const int n = b.integer(0);
    const int view = b.open_tensor({16}, ScalarType::Float, fb::TensorShapeDynamism_DYNAMIC_BOUND);
    const int y = b.output(b.open_tensor({16}, ScalarType::Float, fb::TensorShapeDynamism_DYNAMIC_UNBOUND));
    const int w = b.constant<float>({16, 8}, std::vector<float>(128, 0.5f));
    const int z = b.output(b.tensor({2, 16}, ScalarType::Float, fb::TensorShapeDynamism_DYNAMIC_BOUND));
    const int wt = b.tensor({8, 16});
    b.kernel("aten::sym_numel", "", {x, n});
    b.kernel("executorch_prim::et_view", "default", {x, b.int_list({n}), view});
    b.kernel("aten::relu", "out", {view, y, y});
    b.kernel("aten::permute_copy", "out", {w, b.int_list({b.integer(1), b.integer(0)}), wt, wt});
    b.kernel("aten::mm", "out", {x, wt, z, z});
    b.free(y);
    seeds.push_back(b.build());
  }
  {
    ProgramBuilder b;  // a constant without its zeros
    const int x = b.input(b.tensor({16, 8}));
    const int w = b.external({16, 8}, "w");
    const int y = b.output(b.tensor({16, 8}));
    b.kernel("aten::mul", "out", {x, w, y, y});
    float dense[128] = {};
    for (size_t i = 0; i < 128; i += 3) {
      dense[i] = static_cast<float>(i) + 1;
    }
    const Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(dense), sizeof(dense));
    const SparseLayout layout = sparse_layout(bytes, ScalarType::Float);
    std::string entry(layout.nbytes, '\0');
    write_sparse_bytes(layout, bytes, reinterpret_cast<uint8_t*>(entry.data()));
    b.named_data("sparse_constant:w", entry);
    seeds.push_back(b.build());
  }
  return seeds;
}

class MutationTest : public ::testing::Test {
 protected:
  MutationTest() : seeds_(official_seeds()) {
    for (Bytes& seed : own_seeds()) {
      seeds_.push_back(std::move(seed));
    }
  }

  static Outcome run(const Bytes& file) { return run_hostile_program(file.data(), file.size()); }

  std::vector<Bytes> seeds_;
};

TEST_F(MutationTest, SeedsRunAsTheyAre) {
  ASSERT_GE(seeds_.size(), 8u);
  for (const Bytes& seed : seeds_) {
    EXPECT_EQ(run(seed), Outcome::kRan);
  }
}

TEST_F(MutationTest, DamagedBytes) {
  run_mutations(number_from("ET_MUTATIONS", 8000), [this](Random& random) {
    const Bytes& seed = seeds_[random.below(seeds_.size())];
    return run(mutate_bytes(seed, seeds_[random.below(seeds_.size())], random));
  });
}

TEST_F(MutationTest, DamagedTables) {
  run_mutations(number_from("ET_MUTATIONS", 8000),
                [this](Random& random) { return run(mutate_tables(seeds_[random.below(seeds_.size())], random)); });
}

}  // namespace
}  // namespace et::test
