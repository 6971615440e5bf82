// Each rule of the verifier is broken once; the text form breaks most of them, the rest is done by hand.
#include "ir/verifier.h"

#include <gtest/gtest.h>

#include "ir/parser.h"

namespace et::ir {
namespace {

std::unique_ptr<Program> parsed(const std::string& text) {
  ParseError error;
  Result<std::unique_ptr<Program>> program = parse(text, &error);
  EXPECT_TRUE(program.ok()) << error.to_string() << "\n" << text;
  return program.ok() ? std::move(program.get()) : nullptr;
}

std::string verdict(const Program& program) {
  Diagnostics diagnostics;
  const Error error = verify(program, &diagnostics);
  EXPECT_EQ(error == Error::Ok, diagnostics.empty());
  std::string all;
  for (const Diagnostic& diagnostic : diagnostics) {
    all += diagnostic.to_string() + "\n";
  }
  return all;
}

std::string method(const std::string& body, const std::string& attributes = "") {
  return "method @m(%x: f32[2, 3], %p: bool, %n: int)" + attributes + " {\n" + body + "\n}";
}

#define EXPECT_BREACH(text, part)                                                    \
  do {                                                                               \
    const std::unique_ptr<Program> program = parsed(text);                           \
    ASSERT_NE(program, nullptr);                                                     \
    EXPECT_NE(verdict(*program).find(part), std::string::npos) << verdict(*program); \
  } while (false)

TEST(Verifier, AcceptsAWellFormedMethod) {
  const auto program = parsed(method(R"(
    %w = constant @w : f32[2, 3]
    %s = aten::add.Tensor(%x, %w, 1) : f32[2, 3] handle(1)
    %t = aten::add.Tensor(%s, 2.5, 1) : f32[2, 3] handle(2)
    %y = cond(%p, [%t]) : f32[2, 3] {
      region @true(%a: f32[2, 3]) {
        %r = aten::relu(%a) : f32[2, 3]
        return %r
      }
      region @false(%b: f32[2, 3]) {
        return %s
      }
    }
    return %y, 3, none)"));
  EXPECT_EQ(verdict(*program), "");
}

TEST(Verifier, Types) {
  EXPECT_BREACH("method @m(%x: f32[2, 3]<0, 0>) { return }", "no permutation");
  EXPECT_BREACH("method @m(%x: f32[2, 3]<0>) { return }", "no permutation");
  EXPECT_BREACH("method @m(%x: f32[s0:{5..3}]) { return }", "wrong bounds 5 and 3");
  EXPECT_BREACH("method @m(%x: f32[\"s0; rm\":{1..3}]) { return }", "no expression");
  const auto program = parsed("method @m(%x: f32[2]) { return }");
  program->methods[0]->inputs()[0]->type.tensor =
      TensorType::contiguous(ScalarType::Float, std::vector<Dim>(17, Dim(1)));
  EXPECT_NE(verdict(*program).find("more than 16 dims"), std::string::npos);
}

TEST(Verifier, SymbolsAndDelegates) {
  EXPECT_BREACH("constant @w : f32[2]\n" + method("%w = constant @w : f32[3] return"),
                "the table says that @w is torch.float32 (2,)");
  EXPECT_BREACH(method("%w = constant @w(1) : f32[3] return"), "has no argument");
  EXPECT_BREACH(method("%w = delegate @0(%x) : f32[3] return"), "has no delegate \"0\"");
  EXPECT_BREACH(method("%w = delegate @x(%x) : f32[3] return"), "has no delegate \"x\"");
  auto program = parsed(method("%w = constant @w : f32[3] return"));
  program->constants.clear();
  EXPECT_NE(verdict(*program).find("the program's table has no constant @w"), std::string::npos);
}

TEST(Verifier, SchemasAtEachStage) {
  EXPECT_BREACH(method("%y = aten::relu(%x, 1) : f32[2, 3] return"), "the schema has 1 arguments, the node 2");
  EXPECT_BREACH(method("%y = aten::relu(none) : f32[2, 3] return"), "argument 'self' must be Tensor");
  EXPECT_EQ(verdict(*parsed(method("%y = aten::relu(%p) : f32[2, 3] return"))), "");  // lift-scalars makes it a tensor
  EXPECT_BREACH(method("%y = aten::relu.out(%p) : f32[2, 3] return", " stage(lowered)"),
                "argument 'self' must be Tensor");
  EXPECT_BREACH(method("%y = aten::permute_copy(%x, 1) : f32[2, 3] return"), "argument 'dims' must be");
  EXPECT_BREACH(method("%y = aten::cat([%x, none], 0) : f32[4, 3] return"), "argument 'tensors' must be");
  EXPECT_BREACH(method("%y = aten::copy_(%x, %x, false) : f32[2, 3] return"), "functional");
  EXPECT_BREACH(method("%y = aten::add.out(%x, 2, 1) : f32[2, 3] return", " stage(lowered)"),
                "argument 'other' must be Tensor");
  EXPECT_EQ(verdict(*parsed(method("%y = aten::add.out(%x, %x, 1) : f32[2, 3] return", " stage(lowered)"))), "");
}

TEST(Verifier, ControlFlow) {
  EXPECT_BREACH(method("%y = cond(%p, []) : f32[2] { region @t() { return %x } } return"), "has 2 region(s), not 1");
  EXPECT_BREACH(method("%y = cond(%p, []) : f32[2] { region @t() { return %x } region @f() { return } } return"),
                "the node has 1 results, its region @f returns 0");
  EXPECT_BREACH(method("%y = aten::relu(%x) : f32[2] { region @t() { return %x } } return"), "only cond");
}

TEST(Verifier, Writes) {
  EXPECT_BREACH(method("return writes {buffer @b = %x}"), "there is no such tensor");
  EXPECT_BREACH("buffer @b : f32[4]\n" + method("return writes {buffer @b = %x}"), "it holds torch.float32 (4,)");
  EXPECT_BREACH(method("return writes {input 1 = %x}"), "there is no such tensor");
  EXPECT_BREACH(method("return writes {input 0 = %x, input 0 = %x}"), "input 0 is written twice");
  EXPECT_BREACH(method("cond(%p, []) { region @t() { return writes {buffer @b = %x} } region @f() { return } } return"),
                "a region has writes");
}

TEST(Verifier, AliasesAndAllocations) {
  EXPECT_BREACH(method("%y = op(%x) : f32[2] alias(%x) return"), "which the edge stage does not have");
  EXPECT_BREACH(method("%y = op(%x) : f32[99] alias(%x) return", " stage(lowered)"), "less memory than it needs");
  EXPECT_BREACH(method("%y = alias(%x) : f32[2] return", " stage(lowered)"), "an alias node has one argument");
  EXPECT_BREACH(method("%y = op(%x) : f32[2] at(1, 0) return", " stage(lowered)"), "planned stage");
  EXPECT_BREACH(method("%y = op(%x) : f32[2] at(1, 4) return", " stage(planned) arenas(0, 8)"), "outside its arena");
  EXPECT_BREACH(method("%y = op(%x) : f32[2] at(2, 0) return", " stage(planned) arenas(0, 8)"), "outside its arena");
  EXPECT_BREACH(method("%y = op(%x) : f32[2] at(1, 0) %z = op(%y) : f32[2] alias(%y) at(1, 8) return",
                       " stage(planned) arenas(0, 80)"),
                "does not lie where");
  EXPECT_BREACH(method("return", " arenas(0, 8)"), "a graph of the edge stage has no arenas");
}

TEST(Verifier, HandlesAndMethods) {
  EXPECT_BREACH(method("%y = op(%x) : f32[2] handle(1) %z = op(%x) : f32[2] handle(1) return"),
                "stands at another node");
  EXPECT_BREACH("constant_method @m = (1)\n" + method("return"), "two methods are called \"m\"");
  EXPECT_BREACH("delegate \"\" = \"\"", "no backend id");
}

TEST(Verifier, OrderAndUseLists) {
  auto program = parsed(method("%y = op(%x) : f32[2] %z = op(%y) : f32[2] return %z"));
  Graph& graph = *program->methods[0];
  graph.move_before(graph.nodes().back().get(), graph.nodes().front().get());
  EXPECT_NE(verdict(*program).find("%y is used where it is not defined"), std::string::npos);
  program =
      parsed(method("%y = cond(%p, []) : f32[2] { region @t() { %i = op(%x) : f32[2] return %i } "
                    "region @f() { return %x } } return %y"));
  Graph* region = program->methods[0]->nodes().front()->regions[0].get();
  program->methods[0]->outputs = {{region->nodes().front()->result()}};
  EXPECT_NE(verdict(*program).find("%i is used where it is not defined"), std::string::npos);
}

}  // namespace
}  // namespace et::ir
