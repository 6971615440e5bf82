// executor_runner and pte_dump, as a user calls them.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>

#include "run_tool.h"
#include "tools/npy.h"

namespace et::tools {
namespace {

const std::string kRunner = ET_RUNNER;
const std::string kLinear = ET_MODELS "/official_linear.pte";
const std::string kView = ET_MODELS "/official_view_dyn.pte";

TEST(RunnerTest, RunsAModelOnGeneratedInputs) {
  const Finished r =
      run(kRunner + " --model " + kLinear + " --runs 3 --warmup 1 --threads 1 --print-outputs --planned-memory");
  EXPECT_EQ(r.status, 0) << r.output;
  EXPECT_TRUE(r.has("of 3 runs: median")) << r.output;
  EXPECT_TRUE(r.has("output 0: torch.float32 (2, 3) = [")) << r.output;
  EXPECT_TRUE(r.has("planned buffer 1:")) << r.output;
}

TEST(RunnerTest, TakesAndGivesArrays) {
  const std::string folder = ::testing::TempDir();
  NpyArray x{ScalarType::Float, {2, 4}, std::vector<uint8_t>(32)};
  ASSERT_EQ(write_npy(folder + "x.npy", x), Error::Ok);
  std::ofstream(folder + "x.bin", std::ios::binary).write(reinterpret_cast<const char*>(x.data.data()), 32);
  const Finished npy = run(kRunner + " --model=" + kLinear + " --input " + folder + "x.npy --output-dir " + folder);
  EXPECT_EQ(npy.status, 0) << npy.output;
  const auto a = read_npy(folder + "output_0.npy");
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(a->sizes, (std::vector<int64_t>{2, 3}));
  const Finished bin =
      run(kRunner + " --model " + kLinear + " --read-file --input " + folder + "x.bin --output-dir " + folder);
  EXPECT_EQ(bin.status, 0) << bin.output;
  EXPECT_EQ(read_npy(folder + "output_0.npy")->data, a->data);
  x.sizes = {8};
  ASSERT_EQ(write_npy(folder + "x.npy", x), Error::Ok);
  const Finished wrong = run(kRunner + " --model " + kLinear + " --input " + folder + "x.npy");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_TRUE(wrong.has("is torch.float32 of rank 1, input 0 is torch.float32 of rank 2")) << wrong.output;
}

TEST(RunnerTest, Traces) {
  const std::string path = ::testing::TempDir() + "trace.json";
  const Finished r = run(kRunner + " --model " + kView + " --trace " + path);
  EXPECT_EQ(r.status, 0) << r.output;
  EXPECT_TRUE(r.has("aten::sin.out")) << r.output;
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(text.front(), '[');
  EXPECT_NE(text.find("\"executorch_prim::et_view.default\""), std::string::npos);
}

TEST(RunnerTest, SaysWhatIsWrong) {
  EXPECT_EQ(run(kRunner).status, 2);
  EXPECT_EQ(run(kRunner + " --nonsense").status, 2);
  EXPECT_EQ(run(kRunner + " --model " + kLinear + " --runs many").status, 2);
  EXPECT_EQ(run(kRunner + " --help").status, 0);
  const std::pair<const char*, const char*> bad_values[] = {
      {" --runs 18446744073709551615", "--runs: '18446744073709551615' is more than 10000000"},
      {" --warmup 99999999999999999999", "is no number"},
      {" --threads 5000", "--threads: '5000' is more than 4096"},
      {" --method ''", "--method: '' is no name"},
      {" --read-file=no", "--read-file takes no value"},
  };
  for (const auto& [arguments, message] : bad_values) {
    const Finished bad = run(kRunner + " --model " + kLinear + arguments);
    EXPECT_EQ(bad.status, 2) << arguments;
    EXPECT_TRUE(bad.has(message)) << bad.output;
  }
  const Finished missing = run(kRunner + " --model /nonexistent.pte");
  EXPECT_EQ(missing.status, 1);
  EXPECT_TRUE(missing.has("cannot open '/nonexistent.pte'")) << missing.output;
  const Finished method = run(kRunner + " --model " + kLinear + " --method predict");
  EXPECT_EQ(method.status, 1);
  EXPECT_TRUE(method.has("no method 'predict'; it has: forward")) << method.output;
}

TEST(RunnerTest, LinksNeitherTorchNorPython) {
  const Finished r = run("ldd " + kRunner);
  ASSERT_EQ(r.status, 0);
  EXPECT_FALSE(r.has("libtorch") || r.has("libc10")) << r.output;
  EXPECT_FALSE(r.has("libpython")) << r.output;
}

TEST(DumpTest, ShowsAProgram) {
  const Finished r = run(std::string(ET_DUMP) + " " + kView);
  EXPECT_EQ(r.status, 0);
  EXPECT_TRUE(r.has("call executorch_prim::et_view.default [7, 11, 12]")) << r.output;
  EXPECT_TRUE(r.has("tensor f32[8, 4] bound at memory 1+0")) << r.output;
  EXPECT_EQ(run(std::string(ET_DUMP) + " " + std::string(ET_DUMP)).status, 1);
}

}  // namespace
}  // namespace et::tools
