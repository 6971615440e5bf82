#include <cctype>

#include "base/checked_math.h"
#include "emit/named_tables.h"

namespace et::emit {
namespace {

/// Recursive descent over  sum := product (('+' | '-') product)* ;  product := atom ('*' atom)* ;
/// atom := number | symbol | '(' sum ')' | '-' atom.  Every value is affine in one symbol or the parse fails.
class AffineParser {
 public:
  explicit AffineParser(std::string_view text) : text_(text) {}

  std::optional<AffineSize> parse() {
    AffineSize out;
    if (!sum(out) || peek() != '\0' || out.symbol.empty() || out.scale < 1) {
      return std::nullopt;
    }
    return out;
  }

 private:
  static constexpr int kMaxDepth = 64;

  char peek() {
    while (position_ < text_.size() && text_[position_] == ' ') {
      ++position_;
    }
    return position_ < text_.size() ? text_[position_] : '\0';
  }

  bool take(char wanted) {
    if (peek() != wanted) {
      return false;
    }
    ++position_;
    return true;
  }

  bool sum(AffineSize& out) {
    if (!product(out)) {
      return false;
    }
    for (;;) {
      const bool minus = peek() == '-';
      if (!minus && peek() != '+') {
        return true;
      }
      ++position_;
      AffineSize term;
      if (!product(term) || (minus && !scale_by(term, -1)) || !add(out, term)) {
        return false;
      }
    }
  }

  bool product(AffineSize& out) {
    if (!atom(out)) {
      return false;
    }
    while (take('*')) {
      AffineSize factor;
      if (!atom(factor)) {
        return false;
      }
      if (out.symbol.empty()) {
        std::swap(out, factor);
      }
      if (!factor.symbol.empty() || !scale_by(out, factor.offset)) {
        return false;
      }
    }
    return true;
  }

  bool atom(AffineSize& out) {
    out.scale = 0;
    const char first = peek();
    if (first == '(' || first == '-') {
      if (++depth_ > kMaxDepth) {
        return false;
      }
      ++position_;
      const bool ok = first == '(' ? sum(out) && take(')') : atom(out) && scale_by(out, -1);
      --depth_;
      return ok;
    }
    if (std::isdigit(static_cast<unsigned char>(first)) != 0) {
      int64_t value = 0;
      while (position_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[position_])) != 0) {
        if (mul_overflow<int64_t>(value, 10, &value) ||
            add_overflow<int64_t>(value, text_[position_++] - '0', &value)) {
          return false;
        }
      }
      out.offset = value;
      return true;
    }
    const size_t begin = position_;
    while (position_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[position_])) != 0 || text_[position_] == '_')) {
      ++position_;
    }
    out.symbol = text_.substr(begin, position_ - begin);
    out.scale = 1;
    return position_ > begin && peek() != '(';  // a call: min(…), max(…)
  }

  static bool scale_by(AffineSize& value, int64_t factor) {
    return !mul_overflow(value.scale, factor, &value.scale) && !mul_overflow(value.offset, factor, &value.offset);
  }

  static bool add(AffineSize& to, const AffineSize& term) {
    if (!term.symbol.empty() && !to.symbol.empty() && term.symbol != to.symbol) {
      return false;
    }
    if (to.symbol.empty()) {
      to.symbol = term.symbol;
    }
    return !add_overflow(to.scale, term.scale, &to.scale) && !add_overflow(to.offset, term.offset, &to.offset);
  }

  std::string_view text_;
  size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<AffineSize> parse_affine(std::string_view expression) { return AffineParser(expression).parse(); }

}  // namespace et::emit
