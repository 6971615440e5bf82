/// Compiled patterns: what pattern_text.cpp makes of a pattern's text and pattern.cpp matches.
///
/// For: those two. Not for: anything else.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/pattern.h"
#include "ops/op_table.h"

namespace et::ir {

/// An operator that a call may be.
struct Callee {
  enum class Order : uint8_t { kGiven, kSwapped, kEither };  ///< of the first two arguments

  const ops::OpInfo* op;  ///< nullptr: the IR's own `constant`, which no table has
  Order order;
};

/// A part of a pattern.
struct Term {
  enum class Kind : uint8_t { kAny, kNone, kNumber, kList, kName, kCall, kEither };
  enum class Count : uint8_t { kOne, kOptional, kMany };  ///< exp(x), exp?(x), exp*(x)

  Kind kind = Kind::kAny;
  double number = 0;          ///< kNumber
  std::vector<double> list;   ///< kList
  size_t name = 0;            ///< kName: index in Compiled::names
  std::vector<size_t> terms;  ///< kCall: arguments; kEither: the alternatives. Indices in Compiled::terms
  // Of kCall:
  std::vector<std::string_view> argument_names;  ///< as many as terms; empty for those that stand by position
  std::vector<Callee> callees;                   ///< those that it may be
  bool is_open = false;                          ///< `...`
  bool is_kept = false;                          ///< &
  Count count = Count::kOne;
  std::optional<size_t> result = 0;  ///< nothing: any
};

struct Pattern::Compiled {
  struct Name {
    std::string_view text;
    std::optional<size_t> definition;  ///< a term
    bool is_rule = false;              ///< in capitals: stands for its definition each time, and for no value
  };
  std::vector<Term> terms;
  std::vector<Name> names;  ///< the root's first
  std::string error;
};

/// Never fails: Compiled::error says what is wrong, and where.
Pattern::Compiled compile(std::string_view text);

}  // namespace et::ir
