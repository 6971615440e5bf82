#include "ir/printer.h"

#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/tensor_text.h"
#include "ir/element_text.h"
#include "ir/lexical.h"
#include "ir/source_comment.h"

namespace et::ir {
namespace {

void collect_symbols(const Graph& graph, std::set<std::string, std::less<>>& symbols) {
  for (const auto& node : graph.nodes()) {
    if (node->op == "constant" || node->op == "buffer") {
      symbols.insert(node->symbol);
    }
    for (const auto& region : node->regions) {
      collect_symbols(*region, symbols);
    }
  }
}

uint32_t largest_handle(const Graph& graph) {
  uint32_t largest = 0;
  for (const auto& node : graph.nodes()) {
    for (const uint32_t handle : node->all_handles()) {
      largest = std::max(largest, handle);
    }
    for (const auto& region : node->regions) {
      largest = std::max(largest, largest_handle(*region));
    }
  }
  return largest;
}

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  std::string take() { return std::move(out_); }

  void print(const Program& program) {
    std::set<std::string, std::less<>> symbols;
    uint32_t largest = 0;
    for (const auto& method : program.methods) {
      collect_symbols(*method, symbols);
      largest = std::max(largest, largest_handle(*method));
    }
    for (const auto& [name, constant] : program.constants) {
      print_constant(name, constant, symbols.count(name) != 0);
    }
    for (const auto& [name, buffer] : program.buffers) {
      print_buffer(name, buffer, symbols.count(name) != 0);
    }
    for (const Delegate& delegate : program.delegates) {
      print_delegate(delegate);
    }
    for (const ConstantMethod& method : program.constant_methods) {
      out_ += "constant_method " + symbol(method.name) + " = ";
      print_arguments(method.values);
      out_ += '\n';
    }
    for (const NamedData& entry : program.named_data) {
      const std::string sparse =
          entry.sparse_dtype ? std::string(" sparse(") + short_name(*entry.sparse_dtype) + ')' : std::string();
      const std::string external = entry.external_file.empty() ? "" : " external(" + quote(entry.external_file) + ')';
      out_ += "named_data " + quote(entry.key) + sparse + external + " = " + quote(entry.bytes) + '\n';
    }
    if (program.next_debug_handle != largest + 1) {
      out_ += "next_debug_handle " + std::to_string(program.next_debug_handle) + '\n';
    }
    for (const auto& method : program.methods) {
      if (!out_.empty()) {
        out_ += '\n';
      }
      print(*method, "method", 0);
    }
  }

  void print(const Graph& graph, const char* keyword, int depth) {
    if (depth == 0) {
      bounds_.clear();
    }
    const std::string indent(2 * depth, ' ');
    out_ += indent + keyword + ' ' + symbol(graph.name) + '(';
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      out_ += i == 0 ? "" : ", ";
      out_ += '%' + graph.inputs()[i]->name + ": ";
      print_typed(*graph.inputs()[i]);
    }
    out_ += ')';
    if (depth == 0) {
      print_method_attributes(graph);
    }
    out_ += " {\n";
    for (const auto& node : graph.nodes()) {
      print(*node, depth + 1);
    }
    out_ += indent + "  return";
    print_returns(graph);
    out_ += '\n' + indent + "}\n";
  }

  void print(const Node& node, int depth) {
    const std::string indent(2 * depth, ' ');
    out_ += indent;
    print_line(node);
    if (!node.regions.empty()) {
      out_ += " {";
    }
    if (const std::string source = options_.sources ? source_comment(node.source) : ""; !source.empty()) {
      out_ += "  " + source;
    }
    out_ += '\n';
    if (!node.regions.empty()) {
      for (const auto& region : node.regions) {
        print(*region, "region", depth + 1);
      }
      out_ += indent + "}\n";
    }
  }

  void print_line(const Node& node) {
    for (size_t i = 0; i < node.results().size(); ++i) {
      out_ += (i == 0 ? "%" : ", %") + node.result(i)->name;
    }
    out_ += node.results().empty() ? "" : " = ";
    // After "=" any word is an operator.
    bool plain = !node.op.empty() && (!node.results().empty() || !is_keyword(node.op));
    for (const char c : node.op) {
      plain = plain && is_op_character(c);
    }
    out_ += plain ? node.op : quote(node.op);
    if (!node.symbol.empty()) {
      out_ += ' ' + symbol(node.symbol);
    }
    if (!node.args().empty() || node.symbol.empty()) {
      print_arguments(node.args());
    }
    for (size_t i = 0; i < node.results().size(); ++i) {
      out_ += i == 0 ? " : " : ", ";
      print_typed(*node.result(i));
    }
    if (node.debug_handle != 0 || !node.merged_handles.empty()) {
      out_ += " handle(" + std::to_string(node.debug_handle);
      for (const uint32_t handle : node.merged_handles) {
        out_ += ", " + std::to_string(handle);
      }
      out_ += ')';
    }
    if (!node.tag.empty()) {
      out_ += " tag(" + quote(node.tag) + ')';
    }
  }

  void print(const Type& type) {
    switch (type.kind) {
      case Kind::kTensor: return print(type.tensor);
      case Kind::kInt:
        out_ += "int";
        if (!type.dim.expr.empty()) {
          out_ += '(';
          print(type.dim);
          out_ += ')';
        }
        return;
      case Kind::kDouble:
        out_ += "double";
        if (type.number != 0 || std::signbit(type.number)) {
          out_ += '(' + real_text(type.number) + ')';
        }
        return;
      case Kind::kBool: out_ += type.number != 0 ? "bool(true)" : "bool"; return;
      case Kind::kString: out_ += type.text.empty() ? "string" : "string(" + quote(type.text) + ')'; return;
      case Kind::kNone: out_ += "none"; return;
    }
  }

  void print(const TensorType& type) {
    out_ += short_name(type.dtype);
    out_ += '[';
    for (size_t i = 0; i < type.dims.size(); ++i) {
      out_ += i == 0 ? "" : ", ";
      print(type.dims[i]);
    }
    out_ += ']';
    if (!type.is_row_major() || type.dim_order.size() != type.dims.size()) {
      out_ += '<';
      for (size_t i = 0; i < type.dim_order.size(); ++i) {
        out_ += (i == 0 ? "" : ", ") + std::to_string(type.dim_order[i]);
      }
      out_ += '>';
    }
  }

 private:
  static std::string symbol(std::string_view name) {
    bool plain = !name.empty();
    for (const char c : name) {
      plain = plain && is_symbol_character(c);
    }
    return plain ? "@" + std::string(name) : "@" + quote(name);
  }

  void print(const Dim& dim) {
    if (dim.is_static()) {
      out_ += std::to_string(dim.min);
      return;
    }
    out_ += is_expression(dim.expr) ? dim.expr : quote(dim.expr);
    const auto [known, first] = bounds_.emplace(dim.expr, dim);
    if (first || known->second != dim) {
      out_ += ":{" + std::to_string(dim.min) + ".." + (dim.is_bounded() ? std::to_string(dim.max) : "") + '}';
    }
  }

  void print_typed(const Value& value) {
    print(value.type);
    if (value.alias_of != nullptr) {
      out_ += " alias(%" + value.alias_of->name + ')';
    }
    if (value.allocation.memory_id != 0) {
      out_ +=
          " at(" + std::to_string(value.allocation.memory_id) + ", " + std::to_string(value.allocation.offset) + ')';
    }
  }

  void print(const Argument& argument) {
    if (argument.is_none()) {
      out_ += "none";
    } else if (const Value* value = argument.value()) {
      out_ += '%' + value->name;
    } else if (const auto* number = argument.as<int64_t>()) {
      out_ += std::to_string(*number);
    } else if (const auto* real = argument.as<double>()) {
      out_ += real_text(*real);
    } else if (const auto* flag = argument.as<bool>()) {
      out_ += *flag ? "true" : "false";
    } else if (const auto* text = argument.as<std::string>()) {
      out_ += quote(*text);
    } else if (const auto* list = argument.as<Argument::List>()) {
      print_sequence("[", *list, [this](const Argument& item) { print(item); });
    } else if (const auto* doubles = argument.as<Argument::Doubles>()) {
      print_sequence("double[", *doubles, [this](double item) { out_ += real_text(item); });
    } else if (const auto* bools = argument.as<Argument::Bools>()) {
      print_sequence("bool[", *bools, [this](bool item) { out_ += item ? "true" : "false"; });
    }
  }

  template <typename Sequence, typename PrintItem>
  void print_sequence(const char* open, const Sequence& items, const PrintItem& print_item) {
    out_ += open;
    bool first = true;
    for (const auto& item : items) {
      out_ += first ? "" : ", ";
      first = false;
      print_item(item);
    }
    out_ += ']';
  }

  void print_arguments(const std::vector<Argument>& arguments) {
    out_ += '(';
    for (size_t i = 0; i < arguments.size(); ++i) {
      out_ += i == 0 ? "" : ", ";
      print(arguments[i]);
    }
    out_ += ')';
  }

  void print_method_attributes(const Graph& graph) {
    if (graph.stage != Stage::kEdge) {
      out_ += graph.stage == Stage::kLowered ? " stage(lowered)" : " stage(planned)";
    }
    if (!graph.arena_sizes.empty()) {
      out_ += " arenas(";
      for (size_t i = 0; i < graph.arena_sizes.size(); ++i) {
        out_ += (i == 0 ? "" : ", ") + std::to_string(graph.arena_sizes[i]);
      }
      out_ += ')';
    }
    if (!graph.input_spec.empty()) {
      out_ += " input_spec(" + quote(graph.input_spec) + ')';
    }
    if (!graph.output_spec.empty()) {
      out_ += " output_spec(" + quote(graph.output_spec) + ')';
    }
  }

  void print_returns(const Graph& graph) {
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      out_ += i == 0 ? " " : ", ";
      print(graph.outputs[i]);
    }
    if (graph.writes.empty()) {
      return;
    }
    out_ += graph.outputs.empty() ? " writes {" : ", writes {";
    bool first = true;
    for (const Write& write : graph.writes) {
      out_ += first ? "" : ", ";
      first = false;
      out_ += write.target == Write::Target::kBuffer ? "buffer " + symbol(write.buffer)
                                                     : "input " + std::to_string(write.input_index);
      out_ += " = %" + write.value->name;
    }
    out_ += '}';
  }

  void print_data(const Constant& constant) {
    const int64_t numel = constant.type.numel();
    const size_t size = element_size(constant.type.dtype);
    const auto* bytes = static_cast<const unsigned char*>(constant.data);
    if (!shows_data(constant)) {
      return;
    }
    bool equal = numel > 1;
    for (int64_t i = 1; equal && i < numel; ++i) {
      equal = std::memcmp(bytes, bytes + i * size, size) == 0;
    }
    if (equal) {
      out_ += " = splat(" + element_text(constant.type.dtype, bytes) + ')';
      return;
    }
    out_ += " = [";
    for (int64_t i = 0; i < numel; ++i) {
      out_ += (i == 0 ? "" : ", ") + element_text(constant.type.dtype, bytes + i * size);
    }
    out_ += ']';
  }

  bool shows_data(const Constant& constant) const {
    return constant.data != nullptr && constant.type.is_static() &&
           static_cast<uint64_t>(constant.type.numel()) <= options_.max_data_elements;
  }

  void print_attributes(const Constant& constant) {
    if (!constant.external_key.empty()) {
      out_ += " external(" + quote(constant.external_key) +
              (constant.external_file.empty() ? ")" : ", " + quote(constant.external_file) + ')');
    }
    if (!constant.from_module) {
      out_ += " derived";
    }
  }

  void print_constant(const std::string& name, const Constant& constant, bool used) {
    if (used && !shows_data(constant) && constant.external_key.empty() && constant.from_module) {
      return;  // its node says it all
    }
    out_ += "constant " + symbol(name) + " : ";
    print(constant.type);
    print_attributes(constant);
    print_data(constant);
    out_ += '\n';
  }

  void print_buffer(const std::string& name, const Buffer& buffer, bool used) {
    if (used && !shows_data(buffer.initial) && buffer.initial.external_key.empty() && buffer.initial.from_module &&
        !buffer.is_shared && buffer.fully_qualified_name.empty()) {
      return;
    }
    out_ += "buffer " + symbol(name) + " : ";
    print(buffer.initial.type);
    if (!buffer.fully_qualified_name.empty()) {
      out_ += " name(" + quote(buffer.fully_qualified_name) + ')';
    }
    out_ += buffer.is_shared ? " shared" : "";
    print_attributes(buffer.initial);
    print_data(buffer.initial);
    out_ += '\n';
  }

  void print_delegate(const Delegate& delegate) {
    out_ += "delegate " + quote(delegate.backend_id);
    for (const Delegate::CompileSpec& spec : delegate.compile_specs) {
      out_ += " spec(" + quote(spec.key) + ", " + quote(spec.value) + ')';
    }
    for (const Delegate::Step& step : delegate.steps) {
      out_ += " step(" + std::to_string(step.id) + ", " + quote(step.op) + ", " + quote(step.source.fx_name) + ", " +
              quote(step.source.module_path) + ", " + quote(step.source.file) + ", " + std::to_string(step.source.line);
      for (const uint32_t handle : step.handles) {
        out_ += ", " + std::to_string(handle);
      }
      out_ += ')';
    }
    out_ += " = " + quote(delegate.payload) + '\n';
  }

  PrintOptions options_;
  std::string out_;
  std::map<std::string, Dim, std::less<>> bounds_;  ///< bounds of an expression where it stood first in the method
};

}  // namespace

std::string to_text(const Program& program, const PrintOptions& options) {
  Printer printer(options);
  printer.print(program);
  return printer.take();
}

std::string to_text(const Graph& graph, const PrintOptions& options) {
  Printer printer(options);
  printer.print(graph, graph.owner == nullptr ? "method" : "region", 0);
  return printer.take();
}

std::string to_text(const Node& node) {
  Printer printer({});
  printer.print_line(node);
  return printer.take();
}

std::string to_text(const Type& type) {
  Printer printer({});
  printer.print(type);
  return printer.take();
}

std::string to_text(const TensorType& type) {
  Printer printer({});
  printer.print(type);
  return printer.take();
}

std::string describe(const Type& type) { return type.is_tensor() ? describe(type.tensor) : to_text(type); }

std::string describe(const TensorType& type) {
  std::vector<int64_t> lower, upper;
  for (const Dim& dim : type.dims) {
    lower.push_back(dim.min);
    upper.push_back(dim.max);
  }
  const std::string text = TensorText(type.dtype, Span<const int64_t>(lower), Span<const int64_t>(upper)).text;
  const std::vector<int64_t> order(type.dim_order.begin(), type.dim_order.end());
  return type.is_row_major() ? text : text + " with dimensions in the order " + ShapeText(order).text;
}

}  // namespace et::ir
