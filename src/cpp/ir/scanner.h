/// Characters to tokens, for parser.cpp: position, white space, literals, and the first error.
///
/// Every `try_…` function leaves the position alone when it returns false; every `expect_…` records an error then.
/// White space and comments are skipped before a token, never after it, so that a comment at the end of a line is still
/// there for the parser to read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/parser.h"

namespace et::ir {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool at_end() const;
  /// Consumes `token` when it is next: punctuation, or a word that does not go on.
  bool try_token(std::string_view token);
  /// Like try_token, and records "expected 'token' <where>".
  bool expect(std::string_view token, std::string_view where);
  /// A run of letters, digits and '_' (names, keywords).
  bool try_name(std::string_view* name);
  bool expect_name(std::string_view what, std::string_view* name);
  /// A name, symbol or operator: plain characters or a quoted string.
  bool expect_op(std::string* op);
  bool expect_symbol(std::string* symbol);
  bool expect_string(std::string_view what, std::string* text);
  bool try_string(std::string* text);
  bool expect_double(std::string_view what, double* value);
  bool expect_unsigned(std::string_view what, uint64_t* value);
  bool expect_int(std::string_view what, int64_t* value);
  /// The characters of a number: sign, digits, letters, dots ("-1.5e-3", "inf", "nan", "0x7fc0"). Not yet converted.
  bool try_number(std::string_view* text);
  /// The text of a symbolic expression up to ',' outside parentheses, ':', ']' or ')' unmatched.
  bool expect_expression(std::string* expression);
  /// A word of a source comment: the characters of a symbol and < > +.
  bool try_field(std::string* field);
  /// What follows on this line after "// fx:", without it; false when there is no such comment.
  bool try_source_comment(std::string_view* comment);
  char peek() const;

  /// Records an error at the next token, once. Returns false.
  bool fail(std::string message);
  /// Records an error at `position` (from position()), once.
  bool fail_at(size_t position, std::string message);
  size_t position() const;
  bool failed() const { return failed_; }
  const ParseError& error() const { return error_; }

 private:
  /// A number of type T. `kind` says of which kind, in the error.
  template <typename T>
  bool expect_value(std::string_view what, const char* kind, T* value);
  void skip();
  std::string found() const;

  std::string_view text_;
  size_t position_ = 0;
  bool failed_ = false;
  ParseError error_;
};

}  // namespace et::ir
