// et_opt: text IR in, passes, text IR out. For working on passes, for bug reports, and for looking at what a model
// becomes.
//
//   et_opt model.ir                                  both pipelines, from Edge to kernel calls
//   et_opt --pass=fuse-linear,fold-constants model.ir
//   et_opt --dump-each --disable=fuse-activation -   reads standard input, prints the method after each pass that
//   changed it
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "driver/portable_evaluator.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "kernels/portable/register.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"

namespace et::tools {
namespace {

constexpr char kUsage[] = R"(usage: et_opt [options] FILE.ir | -

  --pass=ID[,ID…]       these passes instead of both pipelines
  --before-delegation   only the passes before regions become delegates
  --disable=ID[,ID…]    leave passes out
  --compatible          published operators only
  --no-channels-last    keep images row-major
  --unplanned-inputs    the caller gives memory for inputs
  --unplanned-outputs   the caller gives memory for outputs
  --no-fold             do not compute constants
  --data=N              print data of constants up to N elements (16)
  --dump-each           print each method after each pass that changed it, to standard error
  --timings             print what each pass took, to standard error
  --list                print all passes
)";

struct Options {
  std::string file;
  std::vector<std::string> passes;
  passes::ManagerOptions manager;
  passes::PassOptions pass;
  ir::PrintOptions print;
  bool before_delegation_only = false;
  bool fold = true;
  bool dump_each = false;
  bool timings = false;
  bool list = false;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> items;
  std::istringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) {
    items.push_back(item);
  }
  return items;
}

/// The value of "--name=value"; nullptr when `argument` is another option.
const char* value_of(const char* argument, const char* name) {
  const size_t length = std::strlen(name);
  return std::strncmp(argument, name, length) == 0 && argument[length] == '=' ? argument + length + 1 : nullptr;
}

bool parse_options(int argc, char** argv, Options& options) {
  options.print.max_data_elements = 16;
  for (int i = 1; i < argc; ++i) {
    const char* argument = argv[i];
    const std::string word = argument;
    if (const char* ids = value_of(argument, "--pass")) {
      options.passes = split(ids);
    } else if (const char* disabled = value_of(argument, "--disable")) {
      for (const std::string& id : split(disabled)) {
        options.manager.disabled.insert(id);
      }
    } else if (const char* count = value_of(argument, "--data")) {
      options.print.max_data_elements = std::strtoull(count, nullptr, 10);
    } else if (word == "--before-delegation") {
      options.before_delegation_only = true;
    } else if (word == "--compatible") {
      options.pass.compatible = true;
    } else if (word == "--no-channels-last") {
      options.pass.channels_last = false;
    } else if (word == "--unplanned-inputs") {
      options.pass.plan_inputs = false;
    } else if (word == "--unplanned-outputs") {
      options.pass.plan_outputs = false;
    } else if (word == "--no-fold") {
      options.fold = false;
    } else if (word == "--dump-each") {
      options.dump_each = true;
    } else if (word == "--timings") {
      options.timings = true;
    } else if (word == "--list") {
      options.list = true;
    } else if (options.file.empty() && (word == "-" || argument[0] != '-')) {
      options.file = word;
    } else {
      std::fprintf(stderr, "et_opt: what is '%s'?\n%s", argument, kUsage);
      return false;
    }
  }
  if (options.file.empty() && !options.list) {
    std::fputs(kUsage, stderr);
    return false;
  }
  return true;
}

bool read(const std::string& file, std::string& text) {
  std::ostringstream content;
  if (file == "-") {
    content << std::cin.rdbuf();
  } else {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) {
      std::fprintf(stderr, "et_opt: cannot read %s\n", file.c_str());
      return false;
    }
    content << stream.rdbuf();
  }
  text = content.str();
  return true;
}

void list_passes() {
  for (const auto& pass : passes::all_passes()) {
    const passes::PassInfo info = pass->info();
    std::printf("%-34s%s%s\n", info.id, info.summary, info.is_required ? " (required)" : "");
  }
}

Error run_passes(const Options& options, ir::Program& program, passes::PassContext& context,
                 passes::PassManager& manager) {
  if (!options.passes.empty()) {
    const std::vector<std::string_view> ids(options.passes.begin(), options.passes.end());
    return manager.run(ids, program, context);
  }
  ET_RETURN_IF_ERROR(manager.run(passes::before_delegation(), program, context));
  if (!options.before_delegation_only) {
    ET_RETURN_IF_ERROR(manager.run(passes::after_delegation(), program, context));
  }
  passes::drop_unused_symbols(program);
  return Error::Ok;
}

int run(Options& options) {
  if (options.list) {
    list_passes();
    return 0;
  }
  std::string text;
  if (!read(options.file, text)) {
    return 2;
  }
  ir::ParseError parse_error;
  auto program = ir::parse(text, &parse_error);
  if (!program.ok()) {
    std::fprintf(stderr, "%s:%s\n", options.file.c_str(), parse_error.to_string().c_str());
    return 1;
  }
  if (options.dump_each) {
    options.manager.on_pass = [&](std::string_view id, const ir::Graph& method, passes::Changed changed) {
      if (changed == passes::Changed::kYes) {
        std::fprintf(stderr, "// after %.*s\n%s\n", static_cast<int>(id.size()), id.data(),
                     to_text(method, options.print).c_str());
      }
    };
  }
  ir::Diagnostics diagnostics;
  runtime::KernelRegistry portable;
  if (kernels::portable::register_portable_kernels(portable) != Error::Ok) {
    return 1;
  }
  driver::PortableEvaluator evaluator(portable);
  passes::PassContext context{**program, diagnostics, options.pass};
  context.evaluator = options.fold ? &evaluator : nullptr;
  passes::PassManager manager(options.manager);
  const Error error = run_passes(options, **program, context, manager);
  for (const ir::Diagnostic& diagnostic : diagnostics) {
    std::fprintf(stderr, "%s: %s\n", to_string(diagnostic.code), diagnostic.to_string().c_str());
  }
  if (options.timings) {
    for (const passes::PassTiming& timing : manager.timings()) {
      std::fprintf(stderr, "%-34s%10.3f ms  verify %10.3f ms  changed %" PRIu32 "\n", timing.id.c_str(),
                   static_cast<double>(timing.duration_ns) * 1e-6,
                   static_cast<double>(timing.verify_duration_ns) * 1e-6, timing.num_changed);
    }
  }
  if (error != Error::Ok) {
    return 1;
  }
  std::fputs(to_text(**program, options.print).c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace et::tools

int main(int argc, char** argv) {
  et::tools::Options options;
  return et::tools::parse_options(argc, argv, options) ? et::tools::run(options) : 2;
}
