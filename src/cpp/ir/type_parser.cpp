#include "ir/type_parser.h"

#include <charconv>

namespace et::ir {
namespace {

constexpr size_t kMaxRank = 16;  ///< of the file format

bool find_dtype(std::string_view name, ScalarType* dtype) {
#define ET_DTYPE(dtype_name, value, c_type, text, nbytes, word) \
  if (name == #text) {                                          \
    *dtype = ScalarType::dtype_name;                            \
    return true;                                                \
  }
#include "base/dtype.def"
#undef ET_DTYPE
  return false;
}

}  // namespace

bool TypeParser::parse_dim(Dim* dim) {
  const char first = scan_.peek();
  const size_t start = scan_.position();
  if ((first >= '0' && first <= '9') || first == '-') {
    Scanner saved = scan_;
    std::string_view digits;
    int64_t size = 0;
    if (scan_.try_number(&digits)) {
      const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
      const char next = scan_.peek();
      if (code == std::errc() && end == digits.data() + digits.size() && (next == ',' || next == ']' || next == ')')) {
        *dim = Dim(size);
        return size >= 0 || scan_.fail_at(start, "a size must not be negative");
      }
    }
    scan_ = saved;  // 2*s0: an expression may begin with a number
  }
  std::string expr;
  if (first == '"' ? !scan_.expect_string("an expression", &expr) : !scan_.expect_expression(&expr)) {
    return false;
  }
  if (expr.empty()) {
    return scan_.fail_at(start, "a symbolic size must not be empty");
  }
  if (scan_.try_token(":")) {
    *dim = Dim(expr, 0, kUnbounded);
    if (!scan_.expect("{", "before the bounds") || !scan_.expect_int("the lower bound", &dim->min) ||
        !scan_.expect("..", "between the bounds")) {
      return false;
    }
    if (scan_.peek() != '}' && !scan_.expect_int("the upper bound or '}'", &dim->max)) {
      return false;
    }
    bounds_.emplace(expr, *dim);
    return scan_.expect("}", "after the bounds");
  }
  const auto known = bounds_.find(expr);
  if (known == bounds_.end()) {
    return scan_.fail_at(start, "'" + expr + "' stands here first in this method, so its bounds are needed: " + expr +
                                    ":{1..64}, or {1..} when there is no upper bound");
  }
  *dim = known->second;
  return true;
}

bool TypeParser::parse_tensor(ScalarType dtype, TensorType* type) {
  std::vector<Dim> dims;
  if (!scan_.expect("[", "after the dtype")) {
    return false;
  }
  while (!scan_.try_token("]")) {
    if (dims.size() == kMaxRank) {
      return scan_.fail("a tensor has at most 16 dims");
    }
    Dim dim;
    if ((!dims.empty() && !scan_.expect(",", "or ']' after a size")) || !parse_dim(&dim)) {
      return false;
    }
    dims.push_back(std::move(dim));
  }
  *type = TensorType::contiguous(dtype, std::move(dims));
  if (scan_.try_token("<")) {
    type->dim_order.clear();
    do {
      uint64_t dim = 0;
      if (!scan_.expect_unsigned("a dim of the dim_order", &dim)) {
        return false;
      }
      if (dim >= kMaxRank || type->dim_order.size() == kMaxRank) {
        return scan_.fail("the dim_order must be a permutation of the dims");
      }
      type->dim_order.push_back(static_cast<uint8_t>(dim));
    } while (scan_.try_token(","));
    return scan_.expect(">", "after the dim_order");
  }
  return true;
}

bool TypeParser::parse_value(Type* type) {
  bool found = scan_.expect("(", "");
  if (type->kind == Kind::kString) {
    found = found && scan_.expect_string("the value of the input", &type->text);
  } else if (type->kind == Kind::kDouble) {
    found = found && scan_.expect_double("the value of the input", &type->number);
  } else if (scan_.try_token("true")) {
    type->number = 1;
  } else {
    found = found && scan_.expect("false", "or true, the value of the input");
  }
  return found && scan_.expect(")", "after the value");
}

bool TypeParser::parse_dtype(ScalarType* dtype) {
  const size_t start = scan_.position();
  std::string_view name;
  return scan_.expect_name("a dtype", &name) &&
         (find_dtype(name, dtype) || scan_.fail_at(start, "there is no dtype " + std::string(name)));
}

bool TypeParser::parse(Type* type) {
  const size_t start = scan_.position();
  std::string_view name;
  if (!scan_.expect_name("a type", &name)) {
    return false;
  }
  ScalarType dtype;
  if (find_dtype(name, &dtype) && scan_.peek() == '[') {
    type->kind = Kind::kTensor;
    return parse_tensor(dtype, &type->tensor);
  }
  if (name == "int") {
    *type = Type::of(Kind::kInt);
    if (scan_.peek() == '(') {
      return scan_.expect("(", "") && parse_dim(&type->dim) && scan_.expect(")", "after the expression");
    }
    return true;
  }
  for (const auto& [text, kind] : {std::pair<std::string_view, Kind>{"double", Kind::kDouble},
                                   {"bool", Kind::kBool},
                                   {"string", Kind::kString},
                                   {"none", Kind::kNone}}) {
    if (name == text) {
      *type = Type::of(kind);
      return kind == Kind::kNone || scan_.peek() != '(' || parse_value(type);
    }
  }
  return scan_.fail_at(start, "'" + std::string(name) +
                                  "' is no type; types are f32[2, 3] and the like, int, double, bool, string, none");
}

}  // namespace et::ir
