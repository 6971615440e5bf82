#include "ir/scanner.h"

#include <algorithm>
#include <charconv>
#include <type_traits>

#include "ir/lexical.h"

namespace et::ir {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

size_t Scanner::position() const {
  size_t position = position_;
  while (position < text_.size()) {
    if (is_blank(text_[position])) {
      ++position;
    } else if (text_.substr(position, 2) == "//") {
      position = std::min(text_.find('\n', position), text_.size());
    } else {
      break;
    }
  }
  return position;
}

void Scanner::skip() { position_ = position(); }

bool Scanner::at_end() const { return position() == text_.size(); }

char Scanner::peek() const {
  const size_t next = position();
  return next < text_.size() ? text_[next] : '\0';
}

bool Scanner::try_token(std::string_view token) {
  const size_t start = position();
  if (text_.substr(start, token.size()) != token) {
    return false;
  }
  const size_t end = start + token.size();
  if (is_name_character(token.back()) && end < text_.size() && is_name_character(text_[end])) {
    return false;
  }
  position_ = end;
  return true;
}

bool Scanner::expect(std::string_view token, std::string_view where) {
  return try_token(token) || fail("expected '" + std::string(token) + "' " + std::string(where));
}

bool Scanner::try_name(std::string_view* name) {
  skip();
  size_t end = position_;
  while (end < text_.size() && is_name_character(text_[end])) {
    ++end;
  }
  *name = text_.substr(position_, end - position_);
  position_ = end;
  return !name->empty();
}

bool Scanner::expect_name(std::string_view what, std::string_view* name) {
  return try_name(name) || fail("expected " + std::string(what));
}

bool Scanner::expect_op(std::string* op) {
  skip();
  if (try_string(op)) {
    return true;
  }
  size_t end = position_;
  while (end < text_.size() && is_op_character(text_[end])) {
    ++end;
  }
  if (end == position_) {
    return fail("expected an operator");
  }
  *op = text_.substr(position_, end - position_);
  position_ = end;
  return true;
}

bool Scanner::expect_symbol(std::string* symbol) {
  if (!expect("@", "before a symbol")) {
    return false;
  }
  if (position_ < text_.size() && text_[position_] == '"') {
    return expect_string("a symbol", symbol);
  }
  size_t end = position_;
  while (end < text_.size() && is_symbol_character(text_[end])) {
    ++end;
  }
  if (end == position_) {
    return fail("expected a symbol after '@'");
  }
  *symbol = text_.substr(position_, end - position_);
  position_ = end;
  return true;
}

bool Scanner::try_string(std::string* text) {
  skip();
  if (position_ >= text_.size() || text_[position_] != '"') {
    return false;
  }
  std::string result;
  for (size_t i = position_ + 1; i < text_.size() && text_[i] != '\n'; ++i) {
    const char c = text_[i];
    if (c == '"') {
      position_ = i + 1;
      *text = std::move(result);
      return true;
    }
    if (c != '\\') {
      result += c;
      continue;
    }
    const char escaped = ++i < text_.size() ? text_[i] : '\0';
    if (escaped == '"' || escaped == '\\') {
      result += escaped;
    } else if (escaped == 'n') {
      result += '\n';
    } else if (escaped == 'x' && i + 2 < text_.size() && hex_digit(text_[i + 1]) >= 0 && hex_digit(text_[i + 2]) >= 0) {
      result += static_cast<char>(hex_digit(text_[i + 1]) * 16 + hex_digit(text_[i + 2]));
      i += 2;
    } else {
      return fail_at(std::min(i, text_.size()), "unknown escape in a string; \\\\, \\\", \\n and \\xNN are known");
    }
  }
  return fail("the string that begins here does not end on its line");
}

bool Scanner::expect_string(std::string_view what, std::string* text) {
  return try_string(text) || fail("expected " + std::string(what) + " in double quotes");
}

bool Scanner::try_number(std::string_view* text) {
  skip();
  const auto starts = [this](size_t i) {
    return i < text_.size() && ((text_[i] >= '0' && text_[i] <= '9') || text_[i] == '.');
  };
  const size_t digits = position_ + (position_ < text_.size() && text_[position_] == '-' ? 1 : 0);
  const std::string_view rest = text_.substr(digits);
  if (!starts(digits) && rest.substr(0, 3) != "inf" && rest.substr(0, 3) != "nan") {
    return false;
  }
  size_t end = digits;
  while (end < text_.size() && (is_name_character(text_[end]) || (text_[end] == '.' && text_.substr(end, 2) != "..") ||
                                ((text_[end] == '-' || text_[end] == '+') && text_[end - 1] == 'e'))) {
    ++end;
  }
  *text = text_.substr(position_, end - position_);
  position_ = end;
  return true;
}

template <typename T>
bool Scanner::expect_value(std::string_view what, const char* kind, T* value) {
  const size_t start = position();
  std::string_view text;
  if (!try_number(&text)) {
    return fail("expected " + std::string(what));
  }
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (code == std::errc() && end == text.data() + text.size()) {
    return true;
  }
  return fail_at(start, std::is_floating_point_v<T> ? "'" + std::string(text) + "' is " + kind
                                                    : "expected " + std::string(what) + ", " + kind);
}

bool Scanner::expect_double(std::string_view what, double* value) { return expect_value(what, "no number", value); }

bool Scanner::expect_unsigned(std::string_view what, uint64_t* value) {
  return expect_value(what, "a number of at most 64 bits", value);
}

bool Scanner::expect_int(std::string_view what, int64_t* value) {
  return expect_value(what, "an integer of at most 64 bits", value);
}

bool Scanner::expect_expression(std::string* expression) {
  skip();
  size_t end = position_;
  int depth = 0;
  for (; end < text_.size() && is_expression_character(text_[end]); ++end) {
    const char c = text_[end];
    if ((c == ',' || c == ')') && depth == 0) {
      break;
    }
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
  }
  std::string_view text = text_.substr(position_, end - position_);
  while (!text.empty() && text.back() == ' ') {
    text.remove_suffix(1);
  }
  if (!is_expression(text)) {
    return fail("expected a size: a number, or an expression of symbols with + - * // % and parentheses");
  }
  *expression = text;
  position_ = end;
  return true;
}

bool Scanner::try_field(std::string* field) {
  skip();
  size_t end = position_;
  while (end < text_.size() && is_field_character(text_[end])) {
    ++end;
  }
  *field = text_.substr(position_, end - position_);
  position_ = end;
  return !field->empty();
}

bool Scanner::try_source_comment(std::string_view* comment) {
  static constexpr std::string_view kStart = "// fx:";
  size_t start = position_;
  while (start < text_.size() && (text_[start] == ' ' || text_[start] == '\t')) {
    ++start;
  }
  if (text_.substr(start, kStart.size()) != kStart) {
    return false;
  }
  const size_t end = std::min(text_.find('\n', start), text_.size());
  *comment = text_.substr(start + kStart.size(), end - start - kStart.size());
  position_ = end;
  return true;
}

std::string Scanner::found() const {
  if (at_end()) {
    return "the end of the text";
  }
  const size_t start = position();
  size_t end = start + 1;
  while (end < text_.size() && end - start < 24 && is_symbol_character(text_[end])) {
    ++end;
  }
  return quote(text_.substr(start, end - start));
}

bool Scanner::fail(std::string message) {
  if (failed_) {
    return false;
  }
  const std::string what = found();
  return fail_at(position(), std::move(message) + ", found " + what);
}

bool Scanner::fail_at(size_t position, std::string message) {
  if (!failed_) {
    failed_ = true;
    const std::string_view before = text_.substr(0, position);
    const size_t line_start = before.rfind('\n');
    error_.line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
    error_.column = position - (line_start == std::string_view::npos ? 0 : line_start + 1) + 1;
    error_.message = std::move(message);
  }
  return false;
}

}  // namespace et::ir
