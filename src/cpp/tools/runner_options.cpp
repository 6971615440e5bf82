#include "tools/runner_options.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

namespace et::tools {
namespace {

/// Stores an argument; otherwise says what it is not ("no number").
using Setter = std::function<std::string(const char*)>;

/// One option: its name, what follows it (nullptr: nothing), what it does, and how it is stored.
struct Option {
  const char* name;
  const char* argument;
  const char* help;
  Setter set;
};

constexpr uint64_t kMostRuns = 10'000'000;  // each keeps its time: 80 MB
constexpr uint64_t kMostThreads = 4096;     // as in Python's set_num_threads

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
    const std::string name = std::string(option.name) + (option.argument == nullptr ? "" : " ") +
                             (option.argument == nullptr ? "" : option.argument);
    std::printf("  %-26s %s\n", name.c_str(), option.help);
  }
}

}  // namespace

ParseResult parse_arguments(int argc, char** argv, RunnerOptions* o) {
  const std::vector<Option> options = {
      {"--model", "FILE", "the .pte file", text(&o->model)},
      {"--data", "FILE", "a .ptd file with external weights; may be repeated", list(&o->data_files)},
      {"--method", "NAME", "method to run (forward)", text(&o->method)},
      {"--input", "FILE", "a .npy file, or raw bytes (.bin) of the method's shape; once a tensor input, in order",
       list(&o->inputs)},
      {"--seed", "N", "of generated inputs, used where no --input is given (0)", number(&o->seed)},
      {"--runs", "N", "how often to run (1)", number(&o->runs, kMostRuns)},
      {"--warmup", "N", "runs before those that are timed (0)", number(&o->warmup, kMostRuns)},
      {"--threads", "N", "threads; 0 = all processors (0)", number(&o->threads, kMostThreads)},
      {"--print-outputs", nullptr, "print the outputs", flag(&o->print_outputs)},
      {"--output-dir", "DIR", "write tensor output i to DIR/output_i.npy", text(&o->output_dir)},
      {"--planned-memory", nullptr, "print what memory the method takes", flag(&o->planned_memory)},
      {"--trace", "FILE", "write a Chrome trace, print time by operator", text(&o->trace)},
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
    for (const Option& candidate : options) {
      const size_t length = std::strlen(candidate.name);
      if (std::strcmp(argv[i], candidate.name) == 0) {
        option = &candidate;
      } else if (std::strncmp(argv[i], candidate.name, length) == 0 && argv[i][length] == '=') {
        option = &candidate;
        value = argv[i] + length + 1;
      }
    }
    if (option == nullptr) {
      std::fprintf(stderr, "executor_runner: what is '%s'? See --help.\n", argv[i]);
      return ParseResult::kError;
    }
    if (option->argument != nullptr && value == nullptr) {
      if (i + 1 == argc) {
        std::fprintf(stderr, "executor_runner: %s needs %s\n", option->name, option->argument);
        return ParseResult::kError;
      }
      value = argv[++i];
    }
    if (option->argument == nullptr && value != nullptr) {
      std::fprintf(stderr, "executor_runner: %s takes no value\n", option->name);
      return ParseResult::kError;
    }
    if (const std::string wrong = option->set(value); !wrong.empty()) {
      std::fprintf(stderr, "executor_runner: %s: '%s' is %s\n", option->name, value, wrong.c_str());
      return ParseResult::kError;
    }
  }
  if (o->model.empty()) {
    std::fprintf(stderr, "executor_runner: --model is missing. See --help.\n");
    return ParseResult::kError;
  }
  return ParseResult::kRun;
}

}  // namespace et::tools
