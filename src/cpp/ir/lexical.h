/// Characters of the text form: what printer.cpp writes and parser.cpp reads, in one place.
///
/// For: those two. Not for: anything else.
#pragma once

#include <string>
#include <string_view>

namespace et::ir {

/// Letters, digits and '_': names of values.
constexpr bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
/// Characters of a symbol (`@layers.0.weight`) that needs no quotes.
constexpr bool is_symbol_character(char c) {
  return is_name_character(c) || c == '.' || c == '$' || c == '/' || c == '-';
}
/// Characters of an operator's name that needs no quotes.
constexpr bool is_op_character(char c) { return is_name_character(c) || c == '.' || c == ':'; }
/// Characters of a field of a source comment that needs no quotes ("<lambda>").
constexpr bool is_field_character(char c) { return is_symbol_character(c) || c == '<' || c == '>' || c == '+'; }
/// Characters of a symbolic expression.
constexpr bool is_expression_character(char c) {
  return is_name_character(c) || c == ' ' || c == '+' || c == '-' || c == '*' || c == '/' || c == '%' || c == '(' ||
         c == ')' || c == ',';
}

/// True when `expr` can stand as a dim in the text: expression characters, balanced parentheses, commas only inside
/// them, no blank at either end, not a number.
bool is_expression(std::string_view expr);

/// Words that mean something where an operator may stand; an operator of that name is written in quotes.
bool is_keyword(std::string_view word);

/// `text` in double quotes; quotes, backslashes and bytes outside printable ASCII escaped (\", \\, \n, \xNN).
std::string quote(std::string_view text);

}  // namespace et::ir
