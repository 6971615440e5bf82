// Programs in the Edge dialect, compiled, loaded and run.
#include "driver/compile.h"

#include "driver/check_kernels.h"
#include "runner.h"

namespace et::driver {
namespace {

using Rows = std::vector<std::vector<float>>;

TEST(Compile, FoldsPlansEmitsAndRuns) {
  Runner runner(R"(
constant @a : f32[3] = [1.0, 2.0, 3.0]
constant @b : f32[3] = [10.0, 10.0, 10.0]
method @forward(%x: f32[3]) {
  %a = constant @a : f32[3]
  %b = constant @b : f32[3]
  %ab = aten::mul.Tensor(%a, %b) : f32[3]
  %y = aten::add.Tensor(%x, %ab, 1) : f32[3]
  %z = aten::relu(%y) : f32[3]
  return %z, %x
})");
  ASSERT_EQ(runner.error(), Error::Ok);
  EXPECT_EQ(runner.compiled().program->constants.size(), 1u) << "what was folded is not stored";
  EXPECT_EQ(runner.run({{1, -30, 3}}), (Rows{{11, 0, 33}, {1, -30, 3}}));
  EXPECT_EQ(runner.run({{0, 0, 0}}), (Rows{{10, 20, 30}, {0, 0, 0}}));
}

TEST(Compile, KeepsStateBetweenCallsAndSharesItBetweenMethods) {
  Runner runner(R"(
buffer @sum : f32[2] shared = [1.0, 2.0]
method @add(%x: f32[2]) {
  %s = buffer @sum : f32[2]
  %n = aten::add.Tensor(%s, %x, 1) : f32[2]
  return %n, writes {buffer @sum = %n}
}
method @get() {
  %s = buffer @sum : f32[2]
  %n = aten::neg(%s) : f32[2]
  return %n
})");
  ASSERT_EQ(runner.error(), Error::Ok);
  EXPECT_EQ(runner.run({{1, 1}}, "add"), (Rows{{2, 3}}));
  EXPECT_EQ(runner.run({{1, 1}}, "add"), (Rows{{3, 4}}));
  EXPECT_EQ(runner.run({}, "get"), (Rows{{-3, -4}}));
}

TEST(Compile, BranchesAndLoops) {
  Runner runner(R"(
method @forward(%x: f32[2]) {
  %s = aten::sum.dim_IntList(%x, [0], false, none) : f32[]
  %p = aten::gt.Scalar(%s, 0) : bool[]
  %r = cond(%p) : f32[2] {
    region @true() {
      %t = aten::add.Tensor(%x, %x, 1) : f32[2]
      return %t
    }
    region @false() {
      %f = aten::neg(%x) : f32[2]
      return %f
    }
  }
  %i, %y = while_loop(0, %r) : int(u0:{0..}), f32[2] {
    region @condition(%ci: int(u1:{0..}), %cx: f32[2]) {
      %q = executorch_prim::lt.Scalar(%ci, 3) : bool
      return %q
    }
    region @body(%bi: int(u2:{0..}), %bx: f32[2]) {
      %n = executorch_prim::add.Scalar(%bi, 1) : int(u2 + 1:{0..})
      %d = aten::add.Tensor(%bx, %x, 1) : f32[2]
      return %n, %d
    }
  }
  return %y, %r
})");
  ASSERT_EQ(runner.error(), Error::Ok);
  EXPECT_EQ(runner.run({{1, 2}}), (Rows{{5, 10}, {2, 4}}));
  EXPECT_EQ(runner.run({{-1, -2}}), (Rows{{-2, -4}, {1, 2}}));
}

TEST(Compile, MapStacksItsResults) {
  Runner runner(R"(
method @forward(%x: f32[4]) {
  %v = aten::view_copy(%x, [2, 2]) : f32[2, 2]
  %m = map(%v) : f32[2, 2] {
    region @body(%row: f32[2]) {
      %n = aten::neg(%row) : f32[2]
      return %n
    }
  }
  return %m
})");
  ASSERT_EQ(runner.error(), Error::Ok);
  EXPECT_EQ(runner.run({{1, 2, 3, 4}}), (Rows{{-1, -2, -3, -4}}));
}

TEST(Compile, NamesOperatorsWithoutKernels) {
  Runner runner(R"(
method @forward(%x: f32[2]) {
  %y = my::op(%x) : f32[2]  // fx: op, in layers.0, model.py:12 forward
  %z = my::other(%y) : f32[2]  // fx: other, model.py:13 forward
  return %z
})");
  EXPECT_EQ(runner.error(), Error::OperatorMissing);
  ASSERT_EQ(runner.diagnostics().size(), 2u);
  EXPECT_EQ(runner.diagnostics()[0].source.line, 12);
  EXPECT_NE(runner.diagnostics()[0].message.find("register a kernel"), std::string::npos);
}

TEST(Compile, TakesTheUsersWordForTheirKernels) {
  CompileOptions options;
  options.kernels = &kernels();
  options.custom_ops["my::op"] = {"my::op.out"};
  options.target_kernels.insert("my::op.out");
  Compiled compiled;
  ir::Diagnostics diagnostics;
  EXPECT_EQ(compile(parsed(R"(
method @forward(%x: f32[2]) {
  %y = my::op(%x) : f32[2]
  return %y
})"),
                    options, compiled, diagnostics),
            Error::Ok);
}

TEST(Compile, PassesCanBeLeftOutByName) {
  const std::string text = R"(
constant @a : f32[1] = [1.0]
method @forward(%x: f32[1]) {
  %a = constant @a : f32[1]
  %n = aten::neg(%a) : f32[1]
  %y = aten::add.Tensor(%x, %n, 1) : f32[1]
  return %y
})";
  CompileOptions options;
  options.disabled_passes = {"fold-constants"};
  Runner runner(text, options);
  ASSERT_EQ(runner.error(), Error::Ok);
  EXPECT_EQ(runner.compiled().program->constants.count("a"), 1u);
  EXPECT_EQ(runner.run({{3}}), (Rows{{2}}));
  options.disabled_passes = {"no-such-pass"};
  EXPECT_EQ(Runner(text, options).error(), Error::NotFound);
}

TEST(Compile, TheCallerGivesOutputs) {
  CompileOptions options;
  options.memory.common.lifetimes.plan_outputs = false;
  Runner runner(R"(
method @forward(%x: f32[4]) {
  %a = aten::neg(%x) : f32[4]
  %v = aten::view_copy(%a, [2, 2]) : f32[2, 2]
  return %v
})",
                options);
  ASSERT_EQ(runner.error(), Error::Ok);
  const ir::Value* output = runner.compiled().program->methods[0]->outputs[0].value();
  EXPECT_EQ(output->allocation.memory_id, 0u);
}

TEST(CheckKernels, RefusesElementTypesThatNoKernelHas) {
  Runner runner(R"(
method @forward(%x: i32[2]) {
  %y = aten::_softmax(%x, 0, false) : i32[2]  // fx: softmax, model.py:3 forward
  return %y
})");
  EXPECT_EQ(runner.error(), Error::NotSupported);
  ASSERT_EQ(runner.diagnostics().size(), 1u);
  EXPECT_NE(runner.diagnostics()[0].message.find("torch.int32"), std::string::npos);
}

}  // namespace
}  // namespace et::driver
