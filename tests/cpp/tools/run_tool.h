/// Runs one of our programs as a user does, and gives what it printed.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace et::tools {

struct Finished {
  int status;          ///< exit status; -1 when a signal ended it
  std::string output;  ///< both streams

  bool has(const char* text) const { return output.find(text) != std::string::npos; }
};

inline Finished run(const std::string& command) {
  Finished result{-1, ""};
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) {
    return result;
  }
  char chunk[4096];
  for (size_t n; (n = std::fread(chunk, 1, sizeof(chunk), pipe)) > 0;) {
    result.output.append(chunk, n);
  }
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

}  // namespace et::tools
