/// The command line of executor_runner.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace et::tools {

struct RunnerOptions {
  std::string model;
  std::vector<std::string> data_files;
  std::string pack_cache;
  std::string method = "forward";
  std::vector<std::string> inputs;  // one a tensor input, in order; generated where there are fewer
  uint64_t seed = 0;                // of generated inputs
  size_t runs = 1;
  size_t warmup = 0;
  size_t threads = 0;  // 0: all processors
  bool print_outputs = false;
  std::string output_dir;
  bool planned_memory = false;
  std::string trace;
  std::string etdump;
  std::string debug_output;
  size_t debug_nbytes = size_t{256} << 20;
  std::string bundled_program;
  size_t test_case = SIZE_MAX;  // all of them
  double rtol = 1e-5;
  double atol = 1e-8;
  bool read_file = false;           // instead of mapping it
  uint64_t max_backward_jumps = 0;  // 0: the runtime's own limit
};

enum class ParseResult { kRun, kDone, kError };

/// Reads the arguments. Prints help (kDone) or what is wrong (kError).
ParseResult parse_arguments(int argc, char** argv, RunnerOptions* options);

}  // namespace et::tools
