// et_opt, as a user calls it.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "run_tool.h"

namespace et::tools {
namespace {

const std::string kOpt = ET_OPT;

constexpr char kModel[] = R"(method @forward(%x: f32[1, 2, 4, 4], %w: f32[3, 2, 1, 1]) {
  %a = aten::clone(%x, none) : f32[1, 2, 4, 4]
  %c = aten::convolution(%a, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : f32[1, 3, 4, 4]
  %y = aten::relu(%c) : f32[1, 3, 4, 4]
  return %y
}
)";

/// The model in a file of its own.
std::string model(const char* text = kModel) {
  const std::string path = ::testing::TempDir() + "et_opt_test.ir";
  std::ofstream(path) << text;
  return path;
}

TEST(EtOptTest, RunsBothPipelines) {
  const Finished r = run(kOpt + " " + model());
  EXPECT_EQ(r.status, 0) << r.output;
  EXPECT_TRUE(r.has("et::convolution_clamp.out(")) << r.output;
  EXPECT_FALSE(r.has("aten::clone")) << r.output;
}

TEST(EtOptTest, WhatItPrintsItReads) {
  const Finished once = run(kOpt + " --before-delegation " + model());
  ASSERT_EQ(once.status, 0) << once.output;
  const Finished again = run(kOpt + " --before-delegation " + model(once.output.c_str()));
  EXPECT_EQ(again.output, once.output);
  const Finished piped = run(kOpt + " --before-delegation - < " + model());
  EXPECT_EQ(piped.output, once.output);
}

TEST(EtOptTest, RunsThePassesThatAreNamed) {
  const Finished r = run(kOpt + " --pass=eliminate-no-ops " + model());
  EXPECT_EQ(r.status, 0) << r.output;
  EXPECT_TRUE(r.has("aten::relu(")) << r.output;
  EXPECT_FALSE(r.has("aten::clone")) << r.output;
  const Finished off = run(kOpt + " --disable=fuse-activation " + model());
  EXPECT_TRUE(off.has("aten::relu.out(")) << off.output;
}

TEST(EtOptTest, ExtensionsDoNotRunForACompatibleFile) {
  const Finished r = run(kOpt + " --compatible " + model());
  EXPECT_EQ(r.status, 0) << r.output;
  EXPECT_TRUE(r.has("aten::relu.out(")) << r.output;
  EXPECT_FALSE(r.has("et::")) << r.output;
}

TEST(EtOptTest, ShowsWhatPassesDo) {
  const Finished each = run(kOpt + " --dump-each --timings " + model());
  EXPECT_TRUE(each.has("// after eliminate-no-ops")) << each.output;
  EXPECT_TRUE(each.has("fuse-activation")) << each.output;
  const Finished list = run(kOpt + " --list");
  EXPECT_EQ(list.status, 0);
  EXPECT_TRUE(list.has("to-out-variants")) << list.output;
  EXPECT_TRUE(list.has("(required)")) << list.output;
}

TEST(EtOptTest, SaysWhatIsWrong) {
  const Finished syntax = run(kOpt + " " + model("method @forward( {"));
  EXPECT_EQ(syntax.status, 1);
  EXPECT_TRUE(syntax.has("et_opt_test.ir:1:")) << syntax.output;
  const Finished pass = run(kOpt + " --pass=no-such-pass " + model());
  EXPECT_EQ(pass.status, 1);
  EXPECT_TRUE(pass.has("there is no pass 'no-such-pass'")) << pass.output;
  const Finished required = run(kOpt + " --disable=to-out-variants " + model());
  EXPECT_EQ(required.status, 1);
  EXPECT_TRUE(required.has("cannot be left out")) << required.output;
  EXPECT_EQ(run(kOpt + " /nowhere/model.ir").status, 2);
  EXPECT_EQ(run(kOpt + " --what").status, 2);
}

}  // namespace
}  // namespace et::tools
