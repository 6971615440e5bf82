/// Reads the text form of the IR (printer.h, docs/reference/ir.md).
///
/// For: golden tests, et_opt, the fuzzer. Any bytes are safe: the outcome is a Program or an error with line and
/// column. Not for: checking what the program means; that is verifier.h.
///
///     ParseError error;
///     Result<std::unique_ptr<Program>> program = parse(text, &error);
///     if (!program.ok()) printf("%s\n", error.to_string().c_str());   // 3:14: expected ')' after the arguments, found
///     '%b'
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/graph.h"

namespace et::ir {

/// Where the text is wrong and what was expected there.
struct ParseError {
  size_t line = 0;    ///< from 1
  size_t column = 0;  ///< from 1, in bytes
  std::string message;

  std::string to_string() const { return std::to_string(line) + ":" + std::to_string(column) + ": " + message; }
};

struct ParseOptions {
  /// Most bytes of constant data that one text may make (`splat` makes much from little).
  size_t max_data_nbytes = size_t{1} << 30;
};

/// Parses a program: any number of constants, buffers, delegates, constant methods, named data and methods.
/// A constant or buffer that is used but not declared is declared with the type of its node and without data.
///
/// Errors: InvalidArgument  the text is not in the grammar, or names something that is not there; `*error` says where.
/// Memory: constant data belong to the program.
Result<std::unique_ptr<Program>> parse(std::string_view text, ParseError* error, const ParseOptions& options = {});

}  // namespace et::ir
