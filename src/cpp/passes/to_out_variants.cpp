#include "passes/to_out_variants.h"

#include <charconv>

#include "passes/rewrite.h"

namespace et::passes {
namespace {

bool is_own(std::string_view op) {
  return is_one_of(op, {"constant", "buffer", "delegate", "alias", "cond", "map", "scan", "while_loop"}) ||
         ops::is_primitive(op);
}

/// A schema's default: None, True, 1, 1.5, [], [0, 1], "text".
ir::Argument parse_default(std::string_view text, char letter) {
  if (text == "None") {
    return {};
  }
  if (text == "True" || text == "False") {
    return {text == "True"};
  }
  if (text.front() == '"' || text.front() == '\'') {
    return {std::string(text.substr(1, text.size() - 2))};
  }
  if (text.front() == '[') {
    ir::Argument::List list;
    text = text.substr(1, text.size() - 2);
    while (!text.empty()) {
      const size_t comma = text.find(',');
      list.push_back(parse_default(text.substr(0, comma), 'i'));
      text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
      text.remove_prefix(text.empty() || text.front() != ' ' ? 0 : 1);
    }
    return {std::move(list)};
  }
  int64_t integer = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), integer);
  const bool is_integer = code == std::errc() && end == text.data() + text.size();
  if (is_integer && (letter == 'l' || letter == 'L')) {
    return {ir::Argument::List{{integer}}};  // int[2] padding=0
  }
  if (is_integer && letter != 'd' && letter != 'D') {
    return {integer};
  }
  double real = 0;
  std::from_chars(text.data(), text.data() + text.size(), real);
  return {real};
}

Error missing(PassContext& context, const ir::Graph& graph, const ir::Node& node, const std::string& why) {
  return diagnose(context.diagnostics, Error::OperatorMissing, *graph.method(), &node,
                  why + ". Let the export decompose it, delegate it to a backend, or register a kernel for it.");
}

Error lower(ir::Node& node, PassContext& context) {
  const ir::Graph& graph = *node.graph();
  if (is_own(node.op)) {
    return Error::Ok;
  }
  const ops::OpInfo* op = ops::find_op(node.op);
  if (op == nullptr) {
    const auto custom = context.custom_ops.find(node.op);
    if (custom == context.custom_ops.end()) {
      return missing(context, graph, node, "the runtime has no operator " + node.op);
    }
    node.op = custom->second.kernel;
    return Error::Ok;
  }
  if (context.options.compatible && !op->is_published) {
    return missing(context, graph, node,
                   "the official runtime has no " + std::string(op->out_name) +
                       ", and compatible=True asks for a file that it loads");
  }
  if (op->has_out_variant()) {
    node.set_args(kernel_arguments(*op, node));
    node.op = op->out_name;
  }
  return Error::Ok;
}

}  // namespace

std::vector<ir::Argument> kernel_arguments(const ops::OpInfo& op, const ir::Node& node) {
  std::vector<ir::Argument> result;
  for (const ops::Argument& parameter : op.out_arguments) {
    if (parameter.is_out) {
      continue;
    }
    size_t i = 0;
    while (i < op.arguments.size() && op.arguments[i].name != parameter.name) {
      ++i;
    }
    result.push_back(i < op.arguments.size() ? node.args()[i]
                                             : parse_default(parameter.default_text, parameter.letter));
  }
  return result;
}

PassInfo ToOutVariants::info() const {
  return {"to-out-variants", "Gives nodes the names and arguments of kernels",
          ir::Stage::kEdge,  ir::Stage::kLowered,
          Scope::kGraph,     /*is_required=*/true};
}

Result<Changed> ToOutVariants::run(ir::Graph& graph, PassContext& context) {
  Error first = Error::Ok;
  for (const auto& node : graph.nodes()) {
    const Error error = lower(*node, context);
    first = first == Error::Ok ? error : first;
  }
  if (first != Error::Ok) {
    return first;
  }
  return Changed::kYes;
}

}  // namespace et::passes
