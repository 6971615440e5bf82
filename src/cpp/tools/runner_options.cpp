#include "tools/runner_options.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>

namespace et::tools {
namespace {

/// Stores an argument; otherwise says what it is not ("no number").
using Setter = std::function<std::string(const char*)>;

/// One option: its name (with the published one behind it, where that is another), what follows it (nullptr: nothing),
/// what it does, and how it is stored.
struct Option {
  const char* name;
  const char* argument;
  const char* help;
  Setter set;

  std::string_view own_name() const { return std::string_view(name).substr(0, std::string_view(name).find('|')); }
  bool name_is(std::string_view given) const {
    return given == own_name() || (own_name().size() < std::strlen(name) && given == name + own_name().size() + 1);
  }
};

constexpr uint64_t kMostRuns = 10'000'000;  // each keeps its time: 80 MB
constexpr uint64_t kMostDebugBytes = uint64_t{1} << 40;
constexpr uint64_t kMostThreads = 4096;  // as in Python's set_num_threads

bool to_number(const char* text, uint64_t* out) {
  char* end;
  errno = 0;
  *out = std::strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

template <typename T>
Setter number(T* out, uint64_t most = UINT64_MAX) {
  return [out, most](const char* text) -> std::string {
    uint64_t value;
    if (!to_number(text, &value)) {
      return "no number";
    }
    if (value > most) {
      return "more than " + std::to_string(most);
    }
    *out = static_cast<T>(value);
    return "";
  };
}
Setter real(double* out) {
  return [out](const char* text) -> std::string {
    char* end;
    *out = std::strtod(text, &end);
    return *text != '\0' && *end == '\0' && *out >= 0 ? "" : "no number of at least 0";
  };
}
Setter text(std::string* out) {
  return [out](const char* value) {
    *out = value;
    return *value == '\0' ? "no name" : "";
  };
}
Setter list(std::vector<std::string>* out) {
  return [out](const char* value) {
    out->emplace_back(value);
    return *value == '\0' ? "no name" : "";
  };
}
Setter flag(bool* out) {
  return [out](const char*) {
    *out = true;
    return "";
  };
}

void print_help(const std::vector<Option>& options) {
  std::printf("Runs a method of a .pte file.\n\n    executor_runner --model model.pte [options]\n\n");
  for (const Option& option : options) {
    const std::string name = std::string(option.own_name()) + (option.argument == nullptr ? "" : " ") +
                             (option.argument == nullptr ? "" : option.argument);
    std::printf("  %-26s %s\n", name.c_str(), option.help);
  }
}

}  // namespace

ParseResult parse_arguments(int argc, char** argv, RunnerOptions* o) {
  const std::vector<Option> options = {
      {"--model|--model-path", "FILE", "the .pte file", text(&o->model)},
      {"--data", "FILE", "a .ptd file with external weights; may be repeated", list(&o->data_files)},
      {"--pack-cache", "DIR", "keep packed weights there, for later processes", text(&o->pack_cache)},
      {"--method|--method-name", "NAME", "method to run (forward)", text(&o->method)},
      {"--input", "FILE", "a .npy file, or raw bytes (.bin) of the method's shape; once a tensor input, in order",
       list(&o->inputs)},
      {"--seed", "N", "of generated inputs, used where no --input is given (0)", number(&o->seed)},
      {"--runs|--num-executions", "N", "how often to run (1)", number(&o->runs, kMostRuns)},
      {"--warmup", "N", "runs before those that are timed (0)", number(&o->warmup, kMostRuns)},
      {"--threads", "N", "threads; 0 = all processors (0)", number(&o->threads, kMostThreads)},
      {"--print-outputs", nullptr, "print the outputs", flag(&o->print_outputs)},
      {"--output-dir", "DIR", "write tensor output i to DIR/output_i.npy", text(&o->output_dir)},
      {"--planned-memory", nullptr, "print what memory the method takes", flag(&o->planned_memory)},
      {"--trace", "FILE", "write a Chrome trace, print time by operator", text(&o->trace)},
      {"--etdump|--etdump-path", "FILE", "write an ETDump, for Inspector", text(&o->etdump)},
      {"--debug-output|--debug-output-path", "FILE", "record intermediate values too, and write them",
       text(&o->debug_output)},
      {"--debug-buffer-size", "N", "bytes for them (256 MiB)", number(&o->debug_nbytes, kMostDebugBytes)},
      {"--bundled-program|--bundled-program-path", "FILE",
       "a .bpte in the place of --model: run and check its test cases", text(&o->bundled_program)},
      {"--test-case|--testset-idx", "N", "only this one of them", number(&o->test_case, kMostRuns)},
      {"--rtol", "X", "relative tolerance of the check (1e-5)", real(&o->rtol)},
      {"--atol", "X", "absolute tolerance of the check (1e-8)", real(&o->atol)},
      {"--read-file", nullptr, "read the file into memory instead of mapping it", flag(&o->read_file)},
      {"--max-backward-jumps", "N", "limit of loops", number(&o->max_backward_jumps)},
  };
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "-h") == 0) {
      print_help(options);
      return ParseResult::kDone;
    }
    const Option* option = nullptr;
    const char* value = nullptr;
    const char* const equals = std::strchr(argv[i], '=');
    std::string given(argv[i], equals == nullptr ? std::strlen(argv[i]) : static_cast<size_t>(equals - argv[i]));
    std::replace(given.begin(), given.end(), '_', '-');  // published names have these
    for (const Option& candidate : options) {
      if (candidate.name_is(given)) {
        option = &candidate;
        value = equals == nullptr ? nullptr : equals + 1;
      }
    }
    if (option == nullptr) {
      std::fprintf(stderr, "executor_runner: what is '%s'? See --help.\n", argv[i]);
      return ParseResult::kError;
    }
    if (option->argument != nullptr && value == nullptr) {
      if (i + 1 == argc) {
        std::fprintf(stderr, "executor_runner: %s needs %s\n", argv[i], option->argument);
        return ParseResult::kError;
      }
      value = argv[++i];
    }
    if (option->argument == nullptr && value != nullptr) {
      std::fprintf(stderr, "executor_runner: %s takes no value\n", std::string(option->own_name()).c_str());
      return ParseResult::kError;
    }
    if (const std::string wrong = option->set(value); !wrong.empty()) {
      std::fprintf(stderr, "executor_runner: %s: '%s' is %s\n", std::string(option->own_name()).c_str(), value,
                   wrong.c_str());
      return ParseResult::kError;
    }
  }
  if (o->model.empty() == o->bundled_program.empty()) {
    std::fprintf(stderr, "executor_runner: give --model or --bundled-program, one of them. See --help.\n");
    return ParseResult::kError;
  }
  return ParseResult::kRun;
}

}  // namespace et::tools
