// Files of external weights that are damaged in thousands of ways are refused or read; nothing crashes, hangs or leaks.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "hostile_data_file.h"
#include "mutations.h"

namespace et::test {
namespace {

std::vector<Bytes> data_file_seeds() {
  std::vector<Bytes> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(ET_DATA_FILE_DIR)) {
    std::ifstream file(entry.path(), std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  std::sort(seeds.begin(), seeds.end());  // a number of ET_SEED means the same everywhere
  return seeds;
}

TEST(DataFile, DamagedBytes) {
  const std::vector<Bytes> seeds = data_file_seeds();
  ASSERT_GE(seeds.size(), 2u);
  run_mutations(number_from("ET_MUTATIONS", 8000), [&seeds](Random& random) {
    const Bytes& seed = seeds[random.below(seeds.size())];
    const Bytes file = mutate_bytes(seed, seeds[random.below(seeds.size())], random);
    return run_hostile_data_file(file.data(), file.size());
  });
}

TEST(DataFile, CutOffAnywhere) {
  for (const Bytes& seed : data_file_seeds()) {
    for (size_t size = 0; size < seed.size(); ++size) {
      EXPECT_EQ(run_hostile_data_file(seed.data(), size), Outcome::kRefused) << size << " of " << seed.size();
    }
  }
}

}  // namespace
}  // namespace et::test
