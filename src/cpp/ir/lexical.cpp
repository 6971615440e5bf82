#include "ir/lexical.h"

#include <algorithm>

namespace et::ir {

bool is_expression(std::string_view expr) {
  if (expr.empty() || expr.front() == ' ' || expr.back() == ' ') {
    return false;
  }
  int depth = 0;
  char before = '\0';        // the last character
  char before_blank = '\0';  // the last one that is no blank
  for (const char c : expr) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    const bool two_operands = before == ' ' && is_name_character(before_blank) && is_name_character(c);
    if (depth < 0 || !is_expression_character(c) || (c == ',' && depth == 0) || two_operands) {
      return false;
    }
    before = c;
    before_blank = c == ' ' ? before_blank : c;
  }
  const bool number = std::all_of(expr.begin(), expr.end(), [](char c) { return (c >= '0' && c <= '9') || c == '-'; });
  return depth == 0 && !number;
}

bool is_keyword(std::string_view word) {
  for (const std::string_view keyword : {"return", "handle", "tag", "alias", "at"}) {
    if (word == keyword) {
      return true;
    }
  }
  return false;
}

std::string quote(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
  return out;
}

}  // namespace et::ir
