#include "passes/size_expression.h"

#include <cctype>
#include <charconv>

#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

/// A value that is visible at a node, and has a size as one of its dims (`dim` >= 0) or is that number itself.
struct Source {
  ir::Value* value = nullptr;
  int64_t dim = -1;
};

std::optional<Source> source_in(ir::Value* value, std::string_view expression) {
  const ir::Type& type = value->type;
  if (type.kind == ir::Kind::kInt && type.dim.expr == expression) {
    return Source{value, -1};
  }
  for (size_t d = 0; type.is_tensor() && d < type.tensor.rank(); ++d) {
    if (type.tensor.dims[d].expr == expression) {
      return Source{value, static_cast<int64_t>(d)};
    }
  }
  return std::nullopt;
}

/// Looks at what stands before the node, in its graph and in those around it; the nearest is found.
std::optional<Source> find_source(std::string_view expression, const ir::Node& before) {
  for (const ir::Node* place = &before; place != nullptr; place = place->graph()->owner) {
    const ir::Graph& graph = *place->graph();
    for (const ir::Node* node = graph.previous(place); node != nullptr; node = graph.previous(node)) {
      for (const auto& result : node->results()) {
        if (const auto found = source_in(result.get(), expression)) {
          return found;
        }
      }
    }
    for (const auto& input : graph.inputs()) {
      if (const auto found = source_in(input.get(), expression)) {
        return found;
      }
    }
  }
  return std::nullopt;
}

/// The size `expression` of a value that has it.
std::optional<ir::Argument> read_size(std::string_view expression, ir::Node& before) {
  const std::optional<Source> source = find_source(expression, before);
  if (!source) {
    return std::nullopt;
  }
  if (source->dim < 0) {
    return ir::Argument{source->value};
  }
  ir::Node* node = before.graph()->create_node(op::sym_size_int, {{source->value}, {source->dim}}, &before);
  serve(node, before);
  ir::Type type = ir::Type::of(ir::Kind::kInt);
  type.dim = source->value->type.tensor.dims[static_cast<size_t>(source->dim)];
  return ir::Argument{node->add_result("size", std::move(type))};
}

/// Recursive descent over the grammar
///   sum := product (('+' | '-') product)*
///   product := atom (('*' | '//' | '%') atom)*
///   atom := number | symbol | ('min' | 'max') '(' sum {',' sum} ')' | '(' sum ')' | '-' atom
class Writer {
 public:
  Writer(std::string_view text, ir::Node& before) : text_(text), before_(before) {}

  std::optional<ir::Argument> write() {
    std::optional<ir::Argument> out = sum();
    return peek() == '\0' ? out : std::nullopt;
  }

 private:
  using Number = std::optional<ir::Argument>;
  static constexpr int kMaxDepth = 64;

  char peek() {
    while (position_ < text_.size() && text_[position_] == ' ') {
      ++position_;
    }
    return position_ < text_.size() ? text_[position_] : '\0';
  }

  bool take(std::string_view wanted) {
    if (peek() == '\0' || text_.substr(position_, wanted.size()) != wanted) {
      return false;
    }
    position_ += wanted.size();
    return true;
  }

  Number call(std::string_view op, const Number& a, const Number& b) {
    if (!a || !b) {
      return std::nullopt;
    }
    ir::Node* node = before_.graph()->create_node(op, {*a, *b}, &before_);
    serve(node, before_);
    return ir::Argument{node->add_result("size", ir::Type::of(ir::Kind::kInt))};
  }

  Number sum() {
    Number out = product();
    while (out) {
      if (take("+")) {
        out = call(op::executorch_prim_add_Scalar, out, product());
      } else if (take("-")) {
        out = call(op::executorch_prim_sub_Scalar, out, product());
      } else {
        break;
      }
    }
    return out;
  }

  Number product() {
    Number out = atom();
    while (out) {
      if (take("*")) {
        out = call(op::executorch_prim_mul_Scalar, out, atom());
      } else if (take("//")) {
        out = call(op::executorch_prim_floordiv_Scalar, out, atom());
      } else if (take("%")) {
        out = call(op::executorch_prim_mod_Scalar, out, atom());
      } else {
        break;
      }
    }
    return out;
  }

  Number atom() {
    if (++depth_ > kMaxDepth) {
      return std::nullopt;
    }
    Number out;
    if (take("(")) {
      out = sum();
      out = take(")") ? out : std::nullopt;
    } else if (take("-")) {
      out = call(op::executorch_prim_sub_Scalar, ir::Argument{int64_t{0}}, atom());
    } else if (std::isdigit(static_cast<unsigned char>(peek())) != 0) {
      out = literal();
    } else {
      out = symbol_or_call();
    }
    --depth_;
    return out;
  }

  Number literal() {
    int64_t value = 0;
    const char* const begin = text_.data() + position_;
    const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), value);
    position_ += static_cast<size_t>(end - begin);
    return code == std::errc() ? Number(ir::Argument{value}) : std::nullopt;
  }

  Number symbol_or_call() {
    peek();
    const size_t begin = position_;
    while (position_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[position_])) != 0 || text_[position_] == '_')) {
      ++position_;
    }
    const std::string_view name = text_.substr(begin, position_ - begin);
    if (take("(")) {
      const bool is_max = name == "max";
      if (!is_max && name != "min") {
        return std::nullopt;
      }
      Number out = sum();
      while (out && take(",")) {
        out = call(is_max ? op::executorch_prim_sym_max_Scalar : op::executorch_prim_sym_min_Scalar, out, sum());
      }
      return take(")") ? out : std::nullopt;
    }
    return name.empty() ? std::nullopt : read_size(name, before_);
  }

  std::string_view text_;
  ir::Node& before_;
  size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<ir::Argument> size_argument(const ir::Dim& dim, ir::Node& before) {
  if (dim.is_static()) {
    return ir::Argument{dim.min};
  }
  std::optional<ir::Argument> whole = read_size(dim.expr, before);
  return whole ? whole : Writer(dim.expr, before).write();
}

}  // namespace et::passes
