#include "ir/source_comment.h"

#include "base/checked_math.h"
#include "ir/lexical.h"
#include "ir/scanner.h"

namespace et::ir {
namespace {

/// A field of a source comment, quoted when it could be read as something else.
std::string field(const std::string& text) {
  for (const char c : text) {
    if (!is_field_character(c)) {
      return quote(text);
    }
  }
  return text.empty() || text == "in" || text.find("//") != std::string::npos ? quote(text) : text;
}

bool parse_field(Scanner& scan, std::string* field) { return scan.try_string(field) || scan.try_field(field); }

}  // namespace

std::string source_comment(const Source& source) {
  if (source.fx_name.empty() && source.module_path.empty() && source.file.empty()) {
    return "";
  }
  std::string text = "// fx: " + field(source.fx_name);
  if (!source.module_path.empty()) {
    text += ", in " + field(source.module_path);
  }
  if (!source.file.empty()) {
    text += ", " + field(source.file) + ':' + std::to_string(source.line);
    if (!source.function.empty()) {
      text += ' ' + field(source.function);
    }
  }
  return text;
}

bool parse_source_comment(std::string_view comment, Source* source) {
  Scanner scan(comment);
  Source result;
  if (!parse_field(scan, &result.fx_name)) {
    return false;
  }
  while (scan.try_token(",")) {
    if (scan.try_token("in")) {
      if (!parse_field(scan, &result.module_path)) {
        return false;
      }
      continue;
    }
    int64_t line = 0;
    if (!parse_field(scan, &result.file) || !scan.expect(":", "") || !scan.expect_int("", &line) ||
        narrow_overflow(line, &result.line)) {
      return false;
    }
    if (!scan.at_end() && scan.peek() != ',' && !parse_field(scan, &result.function)) {
      return false;
    }
  }
  *source = std::move(result);
  return true;
}

}  // namespace et::ir
