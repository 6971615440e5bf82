/// Diagnostic: one thing that is wrong with a program, and the line of the user's model it comes from.
///
/// For: everything of the compiler that looks at a whole program and may find several faults (passes, emission, the
/// driver): it collects them and returns the code of the first. The Python border makes one exception of the list.
/// Not for: faults of one call with one cause, which send a line to the log hook (base/error.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/graph.h"

namespace et::ir {

struct Diagnostic {
  Error code = Error::Internal;
  std::string message;  ///< one sentence: what is wrong, and what to do
  std::string method;   ///< name of the method; empty = the program
  std::string op;       ///< operator of the node; empty = none
  Source source;        ///< where the node comes from

  /// "method forward, aten::linear at model.py:12 in layers.0: message"
  std::string to_string() const {
    std::string text;
    const auto add = [&text](const char* before, const std::string& part) {
      if (!part.empty()) {
        text += (text.empty() ? "" : before) + part;
      }
    };
    add("", method.empty() ? method : "method " + method);
    add(", ", op);
    add(" at ",
        source.file.empty() || source.line <= 0 ? source.file : source.file + ":" + std::to_string(source.line));
    add(" in ", source.module_path);
    add(": ", message);
    return text;
  }
};

using Diagnostics = std::vector<Diagnostic>;

/// Adds a diagnostic about `node` and returns `code`.
inline Error diagnose(Diagnostics& diagnostics, Error code, const Graph& method, const Node* node,
                      std::string message) {
  Diagnostic diagnostic;
  diagnostic.code = code;
  diagnostic.message = std::move(message);
  diagnostic.method = method.name;
  if (node != nullptr) {
    diagnostic.op = node->op;
    diagnostic.source = node->source;
  }
  diagnostics.push_back(std::move(diagnostic));
  return code;
}

}  // namespace et::ir
