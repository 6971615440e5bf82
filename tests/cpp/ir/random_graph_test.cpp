// Random graphs: text round-trips, verification, and edits that keep the use lists right. Random bytes: the parser
// returns.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"

namespace et::ir {
namespace {

constexpr unsigned kSeeds = 200;

class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed) {}

  std::unique_ptr<Program> make() {
    auto program = std::make_unique<Program>();
    program->methods.push_back(std::make_unique<Graph>("m" + std::to_string(pick(9))));
    Graph& graph = *program->methods.back();
    std::vector<Value*> values;
    for (int i = 0; i <= pick(3); ++i) {
      values.push_back(graph.add_input("x", type()));
    }
    fill(*program, graph, values, 0);
    graph.outputs = {{values.back()}, {int64_t{3}}, {}};
    program->next_debug_handle = next_handle_;
    return program;
  }

  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

 private:
  Type type() {
    std::vector<Dim> dims;
    for (int i = pick(4); i > 0; --i) {
      const Dim choices[] = {Dim(pick(5)), Dim("s0", 1, 8), Dim("2*s0", 2, 16), Dim("u1", 0, kUnbounded)};
      dims.push_back(choices[pick(4)]);
    }
    static constexpr ScalarType kTypes[] = {ScalarType::Float, ScalarType::Long, ScalarType::Bool,
                                            ScalarType::BFloat16};
    TensorType tensor = TensorType::contiguous(kTypes[pick(4)], std::move(dims));
    std::shuffle(tensor.dim_order.begin(), tensor.dim_order.end(), random_);
    return Type::of(std::move(tensor));
  }

  Argument argument(const std::vector<Value*>& values, int depth) {
    switch (pick(depth > 2 ? 6 : 7)) {
      case 0: return {values[static_cast<size_t>(pick(static_cast<int>(values.size())))]};
      case 1: return {int64_t{pick(100) - 50}};
      case 2: return {static_cast<double>(pick(1000)) / 7};
      case 3: return {pick(2) == 0};
      case 4: return {std::string("s\n\"") + static_cast<char>(pick(256))};
      case 5: return {};
      default: {
        Argument::List list;
        for (int i = pick(4); i > 0; --i) {
          list.push_back(argument(values, depth + 1));
        }
        return {std::move(list)};
      }
    }
  }

  void fill(Program& program, Graph& graph, std::vector<Value*>& values, int depth) {
    for (int i = pick(12); i >= 0; --i) {
      if (depth < 3 && pick(8) == 0) {
        Node* node = graph.create_node("cond", {{values.front()}, {Argument::List{}}});
        for (const char* name : {"true", "false"}) {
          Graph* region = node->add_region(name);
          std::vector<Value*> inner = values;
          fill(program, *region, inner, depth + 1);
          region->outputs = {{inner.back()}};
        }
        values.push_back(node->add_result("cond", type()));
        continue;
      }
      std::vector<Argument> arguments;
      for (int k = pick(4); k > 0; --k) {
        arguments.push_back(argument(values, 0));
      }
      Node* node = graph.create_node(pick(2) == 0 ? "test::op" : "test::other.Overload", std::move(arguments));
      node->debug_handle = next_handle_++;
      node->tag = pick(4) == 0 ? "tag " + std::to_string(pick(3)) : "";
      if (pick(2) == 0) {
        node->source = {"fx" + std::to_string(i), pick(2) == 0 ? "a.b" : "", pick(2) == 0 ? "f.py" : "", pick(100), ""};
      }
      for (int k = pick(3); k >= 0; --k) {
        values.push_back(node->add_result("v", type()));
      }
    }
  }

  std::mt19937 random_;
  uint32_t next_handle_ = 1;
};

std::string problems(const Program& program) {
  Diagnostics diagnostics;
  (void)verify(program, &diagnostics);
  return diagnostics.empty() ? "" : diagnostics.front().to_string();
}

TEST(RandomGraphs, PrintParsePrint) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto program = RandomProgram(seed).make();
    const std::string text = to_text(*program);
    EXPECT_EQ(problems(*program), "");
    ParseError error;
    auto again = parse(text, &error);
    ASSERT_TRUE(again.ok()) << error.to_string() << "\n" << text;
    ASSERT_EQ(to_text(**again), text);
    EXPECT_EQ(problems(**again), "");
  }
}

TEST(RandomGraphs, EditsKeepUseListsRight) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomProgram maker(seed);
    const auto program = maker.make();
    Graph& graph = *program->methods[0];
    Value* x = graph.inputs()[0].get();
    for (int i = 0; i < 10 && !graph.nodes().empty(); ++i) {
      Node* node = graph.nodes().begin()->get();
      for (int k = maker.pick(static_cast<int>(graph.nodes().size())); k > 0; --k) {
        node = graph.next(node);
      }
      for (const auto& result : node->results()) {
        graph.replace_all_uses(result.get(), x);
        ASSERT_TRUE(graph.is_unused(result.get()));
      }
      graph.erase(node);
      ASSERT_EQ(problems(*program), "");
    }
  }
}

TEST(RandomBytes, TheParserReturns) {
  std::string text = to_text(*RandomProgram(7).make());
  std::mt19937 random(1);
  const char* more = std::getenv("ET_FUZZ_ITERATIONS");
  for (int i = 0, count = more == nullptr ? 1000 : std::atoi(more); i < count; ++i) {
    std::string mutated = text;
    for (unsigned k = random() % 4 + 1; k > 0 && !mutated.empty(); --k) {
      const size_t at = random() % mutated.size();
      switch (random() % 3) {
        case 0: mutated[at] = static_cast<char>(random()); break;
        case 1: mutated.erase(at, random() % 8); break;
        default: mutated.insert(at, text.substr(random() % text.size(), random() % 12)); break;
      }
    }
    ParseError error;
    auto program = parse(mutated, &error);
    if (program.ok()) {
      ParseError second;
      const std::string printed = to_text(**program);
      auto again = parse(printed, &second);
      ASSERT_TRUE(again.ok()) << second.to_string() << "\n" << mutated << "\n" << printed;
      ASSERT_EQ(to_text(**again), printed) << mutated;
      (void)problems(**program);
    } else {
      EXPECT_GT(error.line, 0u);
      EXPECT_FALSE(error.message.empty());
    }
  }
}

}  // namespace
}  // namespace et::ir
