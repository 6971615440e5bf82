// The manager: order, switches, verification, and the two pipelines as a whole.
#include "passes/pass_manager.h"

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "ir/printer.h"
#include "passes/pipeline.h"

namespace et::passes {
namespace {

constexpr char kModel[] = R"(
constant @w : f32[4, 8] = splat(0.5)
constant @unused : f32[2] = splat(1.0)
buffer @steps : i64[] = [0]
method @forward(%x: f32[s0:{1..4}, 8]) {
  %steps = buffer @steps : i64[]
  %n = aten::add.Tensor(%steps, 1, 1) : i64[] handle(1)
  %w = constant @w : f32[4, 8]
  %c = aten::clone(%x, none) : f32[s0, 8] handle(2)
  %y = aten::linear(%c, %w, none) : f32[s0, 4] handle(3)
  %r = aten::relu(%y) : f32[s0, 4] handle(4)
  %s = aten::relu(%y) : f32[s0, 4] handle(5)
  %t = aten::add.Tensor(%r, %s, 1) : f32[s0, 4] handle(6)
  return %t, writes {buffer @steps = %n}
}
)";

struct Loaded {
  std::unique_ptr<ir::Program> program;
  ir::Diagnostics diagnostics;

  explicit Loaded(const char* text) {
    ir::ParseError error;
    auto parsed = ir::parse(text, &error);
    EXPECT_TRUE(parsed.ok()) << error.to_string();
    program = std::move(parsed.get());
  }
  PassContext context() { return PassContext{*program, diagnostics}; }
};

TEST(PassManager, RunsBothPipelines) {
  Loaded model(kModel);
  PassContext context = model.context();
  PassManager manager;
  ASSERT_EQ(manager.run(before_delegation(), *model.program, context), Error::Ok);
  ASSERT_EQ(manager.run(after_delegation(), *model.program, context), Error::Ok);
  drop_unused_symbols(*model.program);
  EXPECT_EQ(model.program->constants.count("unused"), 0u);
  const ir::Graph& graph = *model.program->methods[0];
  EXPECT_EQ(graph.stage, ir::Stage::kLowered);
  EXPECT_EQ(to_text(graph), R"(method @forward(%x: f32[s0:{1..4}, 8]) stage(lowered) {
  %steps = buffer @steps : i64[]
  %n = aten::add.Scalar_out(%steps, 1, 1) : i64[] alias(%steps) handle(1)
  %w = constant @w : f32[4, 8]
  %r = et::linear_clamp.out(%x, %w, none, 0, none) : f32[s0, 4] handle(3, 4, 5)
  %t = aten::add.out(%r, %r, 1) : f32[s0, 4] alias(%r) handle(6)
  return %t, writes {buffer @steps = %n}
}
)");
}

TEST(PassManager, EachPassCanBeSwitchedOff) {
  for (const auto& pass : all_passes()) {
    const PassInfo info = pass->info();
    Loaded model(kModel);
    PassContext context = model.context();
    ManagerOptions options;
    options.disabled = {info.id};
    PassManager manager(options);
    const Error error = manager.run(before_delegation(), *model.program, context);
    if (info.is_required) {
      EXPECT_EQ(error, Error::InvalidArgument);
      continue;
    }
    EXPECT_EQ(error, Error::Ok) << info.id;
    EXPECT_EQ(manager.run(after_delegation(), *model.program, context), Error::Ok) << info.id;
    for (const PassTiming& timing : manager.timings()) {
      EXPECT_NE(timing.id, info.id);
    }
  }
}

TEST(PassManager, NamesMistakes) {
  Loaded model(kModel);
  PassContext context = model.context();
  ManagerOptions options;
  options.disabled = {"no-such-pass"};
  EXPECT_EQ(PassManager(options).run(before_delegation(), *model.program, context), Error::NotFound);
  const std::string_view unknown[] = {"other"};
  EXPECT_EQ(PassManager().run(unknown, *model.program, context), Error::NotFound);
  const std::string_view lowered[] = {"remove-views"};
  EXPECT_EQ(PassManager().run(lowered, *model.program, context), Error::InvalidState);
  ASSERT_EQ(model.diagnostics.size(), 3u);
  EXPECT_EQ(model.diagnostics[0].message, "there is no pass 'no-such-pass' to disable");
}

TEST(PassManager, VerifiesBeforeTheFirstPass) {
  Loaded model("method @m(%x: f32[2]) { %y = aten::relu(1, 2) : f32[2] return %y }");
  PassContext context = model.context();
  EXPECT_EQ(PassManager().run(before_delegation(), *model.program, context), Error::InvalidProgram);
}

TEST(PassManager, TellsWhatHappened) {
  Loaded model(kModel);
  PassContext context = model.context();
  std::vector<std::string> seen;
  ManagerOptions options;
  options.on_pass = [&](std::string_view id, const ir::Graph& method, Changed changed) {
    seen.push_back(std::string(id) + " " + method.name + (changed == Changed::kYes ? " changed" : ""));
  };
  PassManager manager(options);
  const std::string_view ids[] = {"eliminate-no-ops", "eliminate-no-ops"};
  ASSERT_EQ(manager.run(ids, *model.program, context), Error::Ok);
  EXPECT_EQ(seen, (std::vector<std::string>{"eliminate-no-ops forward changed", "eliminate-no-ops forward"}));
}

TEST(Registry, IdsAreUnique) {
  std::set<std::string> ids;
  for (const auto& pass : all_passes()) {
    EXPECT_TRUE(ids.insert(pass->info().id).second) << "two passes are called " << pass->info().id;
    EXPECT_NE(std::string(pass->info().summary), "");
    EXPECT_NE(make_pass(pass->info().id), nullptr);
  }
}

}  // namespace
}  // namespace et::passes
