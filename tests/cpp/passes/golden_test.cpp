// Runs the blocks of golden/*.ir. A block:
//
//   // pass: eliminate-no-ops [option…]
//   // what it shows
//   method @m(…) { … }
//   =>
//   method @m(…) { … }          or:  unchanged          or:  error OperatorMissing: part of a message
//
// Options are those of PassOptions: compatible, quantized-io, no-channels-last, unplanned-inputs, unplanned-outputs;
// no-evaluator; custom-op (mylib::some is known); and more pass ids, which run first (to bring a graph to the stage).
// Every pass must have a file named after it with at least one block that says `unchanged`. ET_UPDATE_GOLDENS=1
// rewrites the outcomes; read the diff.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/rewrite.h"
#include "test_evaluator.h"

namespace et::passes {

Error TestEvaluator::evaluate(const ir::Node& node, const ir::ConstantTable& constants,
                              std::vector<ir::Constant>* results) {
  const auto input = [&](size_t i) -> const ir::Constant& {
    return constants.find(node.args()[i].value()->producer()->symbol)->second;
  };
  const ir::TensorType& type = node.result()->type.tensor;
  if (type.dtype != ScalarType::Float) {
    return Error::NotSupported;
  }
  float* out = nullptr;
  ir::Constant result = new_constant(type, &out);
  const auto numel = static_cast<size_t>(type.numel());
  if (node.op == "aten::permute_copy" && type.rank() == 2) {
    const auto* in = static_cast<const float*>(input(0).data);
    const auto rows = static_cast<size_t>(type.dims[0].max);
    const auto columns = static_cast<size_t>(type.dims[1].max);
    for (size_t i = 0; i < numel; ++i) {
      out[i] = in[(i % columns) * rows + i / columns];
    }
  } else if (node.op == "aten::mul.Tensor") {
    const auto columns = type.rank() == 2 ? static_cast<size_t>(type.dims[1].max) : numel;
    const auto at = [&](size_t which, size_t i) {  // equal shapes, or a row or column of a matrix
      const ir::Constant& in = input(which);
      const bool is_whole = in.type == type;
      const bool is_row = !is_whole && in.type.dims[0].max == 1;
      return static_cast<const float*>(in.data)[is_whole ? i : is_row ? i % columns : i / columns];
    };
    for (size_t i = 0; i < numel; ++i) {
      out[i] = at(0, i) * at(1, i);
    }
  } else if (node.op == "aten::full") {
    std::fill_n(out, numel, static_cast<float>(*number_of(node.args()[1])));
  } else {
    return Error::NotSupported;
  }
  results->push_back(std::move(result));
  return Error::Ok;
}

namespace {

struct Block {
  std::string file;
  size_t line = 0;
  std::string header;  ///< the comment lines
  std::string pass;
  std::vector<std::string> options;
  std::string input;
  std::string expected;
};

std::vector<std::string> words(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) {
    result.push_back(word);
  }
  return result;
}

std::string strip(const std::string& text) {
  const size_t first = text.find_first_not_of("\n ");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of("\n ") - first + 1);
}

std::vector<Block> read_blocks(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::vector<Block> blocks;
  bool after_arrow = false;
  bool in_header = false;
  size_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.rfind("// pass:", 0) == 0) {
      Block& block = blocks.emplace_back();
      block.file = path.filename().string();
      block.line = number;
      std::vector<std::string> parts = words(line.substr(8));
      block.pass = parts.at(0);
      block.options.assign(parts.begin() + 1, parts.end());
      block.header = line + "\n";
      after_arrow = false;
      in_header = true;
    } else if (blocks.empty()) {
      continue;
    } else if (in_header && line.rfind("//", 0) == 0) {
      blocks.back().header += line + "\n";
    } else if (line == "=>") {
      after_arrow = true;
    } else {
      in_header = false;
      (after_arrow ? blocks.back().expected : blocks.back().input) += line + "\n";
    }
  }
  return blocks;
}

std::string outcome(const Block& block) {
  ir::ParseError parse_error;
  auto program = ir::parse(block.input, &parse_error);
  if (!program.ok()) {
    return "parse error " + parse_error.to_string();
  }
  ir::Diagnostics diagnostics;
  TestEvaluator evaluator;
  PassContext context{**program, diagnostics};
  context.evaluator = &evaluator;
  std::vector<std::string_view> ids;
  for (const std::string& option : block.options) {
    if (option == "compatible")
      context.options.compatible = true;
    else if (option == "quantized-io")
      context.options.quantized_io = true;
    else if (option == "no-channels-last")
      context.options.channels_last = false;
    else if (option == "unplanned-inputs")
      context.options.plan_inputs = false;
    else if (option == "unplanned-outputs")
      context.options.plan_outputs = false;
    else if (option == "no-evaluator")
      context.evaluator = nullptr;
    else if (option == "custom-op")
      context.custom_ops = {{"mylib::some", {"mylib::some.out"}}, {"mylib::change_", {"mylib::change_", 0b1}}};
    else
      ids.push_back(option);
  }
  PassManager prepare;
  if (prepare.run(ids, **program, context) != Error::Ok) {
    return "preparation failed: " + diagnostics.front().to_string();
  }
  const std::string before = to_text(**program);
  PassManager manager;
  const std::string_view id = block.pass;
  const Error error = manager.run({&id, 1}, **program, context);
  if (error != Error::Ok) {
    std::string text;
    for (const ir::Diagnostic& diagnostic : diagnostics) {
      text += std::string("error ") + to_string(diagnostic.code) + ": " + diagnostic.to_string() + "\n";
    }
    return strip(text);
  }
  const std::string after = to_text(**program);
  EXPECT_EQ(after != before, manager.timings()[0].num_changed != 0)
      << block.file << ":" << block.line << ": the pass does not report truly whether it changed anything";
  return after == before ? "unchanged" : strip(after);
}

std::vector<std::filesystem::path> golden_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(ET_TEST_DIR) + "/golden")) {
    if (entry.path().extension() == ".ir") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(Goldens, EveryBlockComesOut) {
  const bool update = std::getenv("ET_UPDATE_GOLDENS") != nullptr;
  for (const std::filesystem::path& path : golden_files()) {
    std::vector<Block> blocks = read_blocks(path);
    std::string rewritten;
    for (const Block& block : blocks) {
      SCOPED_TRACE(block.file + ":" + std::to_string(block.line));
      const std::string actual = outcome(block);
      if (!update) {
        EXPECT_EQ(actual, strip(block.expected));
        EXPECT_EQ(actual, outcome(block)) << "two runs differ";
      }
      rewritten += (rewritten.empty() ? "" : "\n") + block.header + strip(block.input) + "\n=>\n" + actual + "\n";
    }
    if (update) {
      std::ofstream(path) << rewritten;
    }
  }
}

TEST(Goldens, EveryPassHasAFileWithACaseWhereItMustNotFire) {
  for (const auto& pass : all_passes()) {
    const PassInfo info = pass->info();
    std::string file = info.id;
    std::replace(file.begin(), file.end(), '-', '_');
    bool fires = false;
    bool stays = false;
    for (const Block& block : read_blocks(std::string(ET_TEST_DIR) + "/golden/" + file + ".ir")) {
      EXPECT_EQ(block.pass, info.id) << block.file << ":" << block.line;
      stays = stays || strip(block.expected) == "unchanged" || strip(block.expected).rfind("error", 0) == 0;
      fires = fires || strip(block.expected).rfind("method", 0) == 0 ||
              strip(block.expected).rfind("constant", 0) == 0 || strip(block.expected).rfind("buffer", 0) == 0;
    }
    EXPECT_TRUE(fires) << info.id << " has no block in golden/" << file << ".ir in which it fires";
    EXPECT_TRUE(stays) << info.id << " has no block in golden/" << file << ".ir in which it must not fire";
  }
}

}  // namespace
}  // namespace et::passes
