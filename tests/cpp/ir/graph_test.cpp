// Graph, Node, Value and GraphBuilder: use lists, names, regions, handles.
#include "ir/graph.h"

#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/printer.h"

namespace et::ir {
namespace {

Type f32(std::vector<Dim> dims) { return Type::of(TensorType::contiguous(ScalarType::Float, std::move(dims))); }

TEST(TensorType, SizesAtTheUpperBound) {
  const TensorType type = TensorType::contiguous(ScalarType::Half, {2, Dim("s0", 1, 64), 8});
  EXPECT_FALSE(type.is_static());
  EXPECT_TRUE(type.is_bounded());
  EXPECT_EQ(type.max_numel(), 2 * 64 * 8);
  EXPECT_EQ(type.max_nbytes(), 2 * 64 * 8 * 2);
}

TEST(TensorType, UnboundedAndOverflow) {
  EXPECT_EQ(TensorType::contiguous(ScalarType::Float, {Dim("u0", 0, kUnbounded)}).max_nbytes(), kUnbounded);
  const int64_t big = int64_t{1} << 40;
  EXPECT_EQ(TensorType::contiguous(ScalarType::Float, {big, big}).max_numel(), kUnbounded);
  EXPECT_EQ(TensorType::contiguous(ScalarType::Float, {big, big, 0}).max_numel(), 0);
  EXPECT_EQ(TensorType::contiguous(ScalarType::Float, {}).max_nbytes(), 4);
}

TEST(Graph, ReplaceAllUsesReachesListsOutputsAndWrites) {
  Graph graph("forward");
  Value* x = graph.add_input("x", f32({2}));
  Node* a = graph.create_node("aten::relu", {{x}});
  Value* ra = a->add_result("a", f32({2}));
  Node* b = graph.create_node("aten::cat", {{Argument::List{{ra}, {ra}, {x}}}, {int64_t{0}}});
  Value* rb = b->add_result("b", f32({6}));
  graph.outputs = {{ra}, {rb}};
  Write write;
  write.target = Write::Target::kInput;
  write.value = ra;
  graph.writes = {write};
  EXPECT_EQ(ra->users().size(), 2u);

  graph.replace_all_uses(ra, x);
  EXPECT_TRUE(graph.is_unused(ra));
  EXPECT_EQ(x->users().size(), 4u);  // relu once, cat three times
  EXPECT_EQ(graph.outputs[0].value(), x);
  EXPECT_EQ(graph.writes[0].value, x);
  graph.erase(a);
  EXPECT_EQ(x->users().size(), 3u);
  EXPECT_EQ(to_text(*b), "%b = aten::cat([%x, %x, %x], 0) : f32[6]");
}

TEST(Graph, NamesAreUniqueInTheMethodAndItsRegions) {
  Graph graph("forward");
  Value* x = graph.add_input("x", f32({2}));
  Node* branch = graph.create_node("cond", {});
  Graph* region = branch->add_region("true");
  EXPECT_EQ(region->add_input("x", f32({2}))->name, "x_1");
  EXPECT_EQ(graph.create_node("aten::relu", {{x}})->add_result("x", f32({2}))->name, "x_2");
  EXPECT_EQ(graph.create_node("aten::relu", {{x}})->add_result("layers.0 out", f32({2}))->name, "layers_0_out");
  EXPECT_EQ(region->method(), &graph);
}

TEST(Graph, ErasingANodeDropsUsesInsideItsRegions) {
  Graph graph("forward");
  Value* x = graph.add_input("x", f32({2}));
  Value* y = graph.add_input("y", f32({2}));
  Node* branch = graph.create_node("cond", {{x}});
  Graph* region = branch->add_region("true");
  region->create_node("aten::relu", {{y}})->add_result("r", f32({2}));
  region->outputs = {{y}};
  EXPECT_TRUE(graph.is_output(y));
  EXPECT_EQ(y->users().size(), 1u);
  graph.erase(branch);
  EXPECT_TRUE(graph.is_unused(y));
  EXPECT_TRUE(graph.is_unused(x));
}

TEST(Graph, NodesMoveAndKnowTheirNeighbours) {
  Graph graph("forward");
  Value* x = graph.add_input("x", f32({2}));
  Node* a = graph.create_node("a", {{x}});
  Node* c = graph.create_node("c", {{x}});
  Node* b = graph.create_node("b", {{x}}, c);
  EXPECT_EQ(graph.next(a), b);
  EXPECT_EQ(graph.previous(c), b);
  EXPECT_EQ(graph.previous(a), nullptr);
  graph.move_before(c, a);
  EXPECT_EQ(graph.next(c), a);
  EXPECT_EQ(graph.next(b), nullptr);
  graph.move_before(c, nullptr);
  EXPECT_EQ(graph.next(b), c);
}

TEST(Node, AbsorbMergesHandlesWithoutDoubles) {
  Graph graph("forward");
  Node* a = graph.create_node("a", {});
  Node* b = graph.create_node("b", {});
  a->debug_handle = 3;
  b->debug_handle = 2;
  b->merged_handles = {3, 7};
  a->absorb(*b);
  EXPECT_EQ(a->debug_handle, 3u);
  EXPECT_EQ(a->merged_handles, (std::vector<uint32_t>{2, 7}));
  EXPECT_EQ(a->all_handles(), (std::vector<uint32_t>{2, 3, 7}));
}

TEST(GraphBuilder, BuildsAMethodWithStateAndControlFlow) {
  Program program;
  GraphBuilder builder(program, "forward");
  Value* x = builder.add_input("x", f32({2}));
  Value* p = builder.add_input("p", Type::of(Kind::kBool));
  Buffer state;
  state.initial.type = TensorType::contiguous(ScalarType::Float, {2});
  Value* s = builder.add_buffer("state", state);
  EXPECT_EQ(builder.add_buffer("state", state), s);
  Node* branch =
      builder.add_node("cond", {{p}, {Argument::List{{x}}}}, {f32({2})}, {"y"}, {"cond_0", "", "model.py", 3, ""});
  Graph* yes = builder.begin_region(branch, "true");
  Value* a = builder.add_input("a", f32({2}));
  Node* sum = builder.add_node("aten::add.Tensor", {{a}, {s}, {int64_t{1}}}, {f32({2})});
  EXPECT_EQ(sum->graph(), yes);
  builder.end_region({{sum->result()}});
  builder.begin_region(branch, "false");
  Value* b = builder.add_input("b", f32({2}));
  builder.end_region({{b}});
  builder.set_outputs({{branch->result()}, {}});
  builder.add_buffer_write("state", branch->result());
  Diagnostics diagnostics;
  Result<Graph*> graph = builder.finish(&diagnostics);
  ASSERT_TRUE(graph.ok()) << diagnostics.front().to_string();
  EXPECT_EQ(to_text(program), R"(method @forward(%x: f32[2], %p: bool) {
  %state = buffer @state : f32[2]
  %y = cond(%p, [%x]) : f32[2] handle(1) {  // fx: cond_0, model.py:3
    region @true(%a: f32[2]) {
      %add = aten::add.Tensor(%a, %state, 1) : f32[2] handle(2)
      return %add
    }
    region @false(%b: f32[2]) {
      return %b
    }
  }
  return %y, none, writes {buffer @state = %y}
}
)");
}

TEST(GraphBuilder, RefusesOpenRegionsAndDoubleNames) {
  Program program;
  Diagnostics diagnostics;
  GraphBuilder first(program, "forward");
  Node* branch = first.add_node("cond", {}, {});
  first.begin_region(branch, "true");
  EXPECT_EQ(first.finish(&diagnostics).error(), Error::InvalidState);
  GraphBuilder second(program, "forward");
  EXPECT_EQ(second.finish(&diagnostics).error(), Error::InvalidArgument);
  EXPECT_EQ(diagnostics.size(), 2u);
}

}  // namespace
}  // namespace et::ir
