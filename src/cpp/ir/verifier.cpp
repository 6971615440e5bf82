#include "ir/verifier.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/checked_math.h"
#include "ir/lexical.h"
#include "ir/printer.h"
#include "ops/op_table.h"

namespace et::ir {
namespace {

constexpr size_t kMaxRank = 16;
constexpr size_t kMaxDiagnostics = 20;

const char* to_string(Stage stage) {
  return stage == Stage::kEdge ? "edge" : stage == Stage::kLowered ? "lowered" : "planned";
}

bool same_shape(const TensorType& a, const TensorType& b) { return a.dtype == b.dtype && a.dims == b.dims; }

class Verifier {
 public:
  Verifier(const Graph& method, const Program& program, Diagnostics& diagnostics)
      : method_(method), program_(program), diagnostics_(diagnostics), first_(diagnostics.size()) {}

  Error run() {
    check_graph(method_);
    check_writes();
    check_use_lists(method_);
    check_arenas();
    return diagnostics_.size() == first_ ? Error::Ok : Error::InvalidProgram;
  }

 private:
  void fail(const Node* node, std::string message) {
    if (diagnostics_.size() - first_ < kMaxDiagnostics) {
      (void)diagnose(diagnostics_, Error::InvalidProgram, method_, node, std::move(message));
    }
  }
  void fail(const Node& node, std::string message) { fail(&node, std::move(message)); }
  void fail(const Graph& graph, std::string message) { fail(graph.owner, std::move(message)); }

  // --- values and types ----------------------------------------------------------------------------------------

  template <typename Where>
  void check_dim(const Where& where, const Value& value, const Dim& dim) {
    const std::string what = "%" + value.name + " has a size ";
    if (dim.min < 0 || dim.min > dim.max || (dim.is_static() && dim.min != dim.max)) {
      fail(where, what + "with wrong bounds " + std::to_string(dim.min) + " and " + std::to_string(dim.max));
    }
    if (!dim.is_static() && !is_expression(dim.expr)) {
      fail(where, what + quote(dim.expr) + " that is no expression of + - * // % ( ) , and names");
    }
  }

  template <typename Where>
  void check_type(const Where& where, const Value& value) {
    const Type& type = value.type;
    if (!type.is_tensor()) {
      if (type.kind == Kind::kInt && !type.dim.expr.empty() && !is_expression(type.dim.expr)) {
        fail(where, "%" + value.name + " is the symbolic number " + quote(type.dim.expr) + ", which is no expression");
      }
      return;
    }
    const TensorType& tensor = type.tensor;
    if (tensor.rank() > kMaxRank) {
      fail(where, "%" + value.name + " has more than 16 dims");
    }
    for (const Dim& dim : tensor.dims) {
      check_dim(where, value, dim);
    }
    std::vector<uint8_t> sorted = tensor.dim_order;
    std::sort(sorted.begin(), sorted.end());
    bool permutation = sorted.size() == tensor.rank();
    for (size_t i = 0; permutation && i < sorted.size(); ++i) {
      permutation = sorted[i] == i;
    }
    if (!permutation) {
      fail(where, "the dim_order of %" + value.name + " is no permutation of its dims");
    }
  }

  template <typename Where>
  void define(const Where& where, const Graph& graph, const Value& value, const Node* producer, size_t index) {
    if (value.name.empty() || !std::all_of(value.name.begin(), value.name.end(), is_name_character)) {
      fail(where, "the name " + quote(value.name) + " of a value must be letters, digits and '_'");
    }
    if (!names_.insert(value.name).second) {
      fail(where, "%" + value.name + " is defined twice");
    }
    if (value.producer() != producer || value.result_index() != index || value.graph() != &graph) {
      fail(where, "%" + value.name + " does not know its producer");
    }
    check_type(where, value);
    check_placement(where, value);
    visible_.insert(&value);
  }

  template <typename Where>
  void check_placement(const Where& where, const Value& value) {
    const Stage stage = method_.stage;
    if (value.alias_of != nullptr) {
      if (stage == Stage::kEdge) {
        fail(where, "%" + value.name + " is an alias, which the edge stage does not have");
      } else if (visible_.count(value.alias_of) == 0) {
        fail(where, "%" + value.name + " is an alias of a value that is not defined before it");
      } else if (!value.type.is_tensor() || !value.alias_of->type.is_tensor()) {
        fail(where, "%" + value.name + " is an alias, but not a tensor, or not of one");
      } else if (value.type.tensor.max_nbytes() > value.root()->type.tensor.max_nbytes()) {
        fail(where, "%" + value.name + " is an alias of less memory than it needs");
      }
    }
    const Allocation& place = value.allocation;
    if (place.memory_id == 0) {
      return;
    }
    if (stage != Stage::kPlanned || !value.type.is_tensor()) {
      fail(where, "%" + value.name + " has an allocation, which only tensors of the planned stage have");
      return;
    }
    const int64_t nbytes = value.type.tensor.max_nbytes();
    uint64_t end = 0;
    if (nbytes == kUnbounded || place.memory_id >= method_.arena_sizes.size() ||
        add_overflow(place.offset, static_cast<uint64_t>(nbytes), &end) || end > method_.arena_sizes[place.memory_id]) {
      fail(where, "%" + value.name + " lies outside its arena");
    }
    if (value.alias_of != nullptr && value.root()->allocation.memory_id != 0 &&
        (value.root()->allocation.memory_id != place.memory_id || value.root()->allocation.offset != place.offset)) {
      fail(where, "%" + value.name + " does not lie where the value lies that it is an alias of");
    }
  }

  template <typename Where>
  void check_uses(const Where& where, const Argument& argument) {
    if (const Value* value = argument.value()) {
      if (visible_.count(value) == 0) {
        fail(where, "%" + value->name + " is used where it is not defined");
      }
    } else if (argument.is_value()) {
      fail(where, "an argument is no value at all (a null pointer)");
    } else if (const auto* list = argument.as<Argument::List>()) {
      for (const Argument& item : *list) {
        check_uses(where, item);
      }
    }
  }

  // --- graphs and nodes ----------------------------------------------------------------------------------------

  void check_graph(const Graph& graph) {
    std::vector<const Value*> scope;
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      const Value& input = *graph.inputs()[i];
      define(graph, graph, input, nullptr, i);
      scope.push_back(&input);
    }
    for (const auto& node : graph.nodes()) {
      for (const Argument& argument : node->args()) {
        check_uses(*node, argument);
      }
      for (const auto& region : node->regions) {
        if (region->owner != node.get()) {
          fail(*node, "a region does not know its node");
        }
        check_graph(*region);
      }
      for (size_t i = 0; i < node->results().size(); ++i) {
        define(*node, graph, *node->result(i), node.get(), i);
        scope.push_back(node->result(i));
      }
      check_node(*node);
    }
    for (const Output& output : graph.outputs) {
      check_uses(graph, output);
    }
    if (graph.owner != nullptr) {
      if (!graph.writes.empty()) {
        fail(*graph.owner, "a region has writes; only a method has");
      }
      for (const Value* value : scope) {
        visible_.erase(value);
      }
    }
  }

  void check_node(const Node& node) {
    if (node.debug_handle != 0 && !handles_.insert(node.debug_handle).second) {
      fail(node, "debug handle " + std::to_string(node.debug_handle) + " stands at another node, too");
    }
    if (node.op == "constant") {
      const auto entry = program_.constants.find(node.symbol);
      check_symbol(node, entry == program_.constants.end() ? nullptr : &entry->second.type);
    } else if (node.op == "buffer") {
      const auto entry = program_.buffers.find(node.symbol);
      check_symbol(node, entry == program_.buffers.end() ? nullptr : &entry->second.initial.type);
    } else if (node.op == "delegate") {
      size_t index = 0;
      const char* end = node.symbol.data() + node.symbol.size();
      const auto [rest, code] = std::from_chars(node.symbol.data(), end, index);
      if (code != std::errc() || rest != end || index >= program_.delegates.size()) {
        fail(node, "the program has no delegate " + quote(node.symbol));
      }
    } else if (node.op == "alias") {
      if (method_.stage == Stage::kEdge || node.args().size() != 1 || node.results().size() != 1 ||
          node.result()->alias_of == nullptr) {
        fail(node, "an alias node has one argument and one result that is an alias, and stands in lowered graphs only");
      }
    } else if (is_control_flow(node.op)) {
      check_control_flow(node);
      return;
    } else {
      check_operator(node);
    }
    if (!node.regions.empty()) {
      fail(node, "only cond, map, scan and while_loop have regions");
    }
  }

  void check_symbol(const Node& node, const TensorType* type) {
    if (!node.args().empty() || node.results().size() != 1 || !node.result()->type.is_tensor()) {
      fail(node, "a constant or buffer has no argument and one tensor as result");
    } else if (type == nullptr) {
      fail(node, "the program's table has no " + node.op + " @" + node.symbol);
    } else if (*type != node.result()->type.tensor) {
      fail(node, "the table says that @" + node.symbol + " is " + describe(*type) + ", the node says " +
                     describe(node.result()->type.tensor));
    }
  }

  static bool is_control_flow(std::string_view op) {
    return op == "cond" || op == "map" || op == "scan" || op == "while_loop";
  }

  void check_control_flow(const Node& node) {
    const size_t wanted = node.op == "cond" || node.op == "while_loop" ? 2 : 1;
    if (node.regions.size() != wanted) {
      fail(node, node.op + " has " + std::to_string(wanted) + " region(s), not " + std::to_string(node.regions.size()));
      return;
    }
    const Graph& last = *node.regions.back();
    if (last.outputs.size() != node.results().size()) {
      fail(node, "the node has " + std::to_string(node.results().size()) + " results, its region @" + last.name +
                     " returns " + std::to_string(last.outputs.size()));
    }
    if (node.op == "cond" && node.regions[0]->outputs.size() != last.outputs.size()) {
      fail(node, "the two branches return different numbers of values");
    }
    if (node.op == "while_loop" &&
        (node.regions[0]->outputs.size() != 1 || node.regions[0]->inputs().size() != last.inputs().size())) {
      fail(node, "the condition of a loop takes what its body takes and returns one value");
    }
  }

  void check_operator(const Node& node) {
    const bool lowered = method_.stage != Stage::kEdge;
    const ops::OpInfo* op = lowered ? ops::find_out(node.op) : ops::find_op(node.op);
    if (op == nullptr) {
      return;  // a custom or a backend's operator, which lowering looks for
    }
    if (!lowered && op->has_tag(ops::kMutates)) {
      fail(node, "a graph of the edge stage is functional, this operator writes its arguments");
      return;
    }
    const Span<const ops::Argument> parameters = lowered ? op->out_arguments : op->arguments;
    size_t count = parameters.size();
    while (lowered && count > 0 && parameters[count - 1].is_out) {
      --count;
    }
    if (node.args().size() != count) {
      fail(node,
           "the schema has " + std::to_string(count) + " arguments, the node " + std::to_string(node.args().size()));
      return;
    }
    for (size_t i = 0; i < count; ++i) {
      if (!accepts(parameters[i].letter, node.args()[i], lowered)) {
        fail(node, "argument '" + std::string(parameters[i].name) + "' must be " + std::string(parameters[i].type));
      }
    }
  }

  static bool is_kind(const Argument& argument, std::initializer_list<Kind> kinds) {
    const Value* value = argument.value();
    return value != nullptr && std::find(kinds.begin(), kinds.end(), value->type.kind) != kinds.end();
  }

  /// Whether `argument` may stand for a parameter with this letter (runtime/unboxing.h). Before lowering a number may
  /// stand for a tensor.
  static bool accepts(char letter, const Argument& argument, bool lowered) {
    const bool is_int = argument.as<int64_t>() != nullptr || argument.as<bool>() != nullptr;
    const bool is_number = is_int || argument.as<double>() != nullptr;
    const auto* list = argument.as<Argument::List>();
    switch (letter) {
      case 't':
        if (argument.is_none()) return true;
        [[fallthrough]];
      case 'T':
        return is_kind(argument, {Kind::kTensor}) ||
               (!lowered && (is_number || is_kind(argument, {Kind::kInt, Kind::kDouble, Kind::kBool})));
      case 'I':
      case 'Y':
        if (argument.is_none()) return true;
        [[fallthrough]];
      case 'i':
      case 'y': return is_int || is_kind(argument, {Kind::kInt, Kind::kBool});
      case 'D':
      case 'N':
        if (argument.is_none()) return true;
        [[fallthrough]];
      case 'd':
      case 'n': return is_number || is_kind(argument, {Kind::kInt, Kind::kDouble, Kind::kBool});
      case 'B':
        if (argument.is_none()) return true;
        [[fallthrough]];
      case 'b': return is_int || is_kind(argument, {Kind::kBool, Kind::kInt});
      case 'S':
        if (argument.is_none()) return true;
        [[fallthrough]];
      case 's': return argument.as<std::string>() != nullptr;
      case 'L':
        if (argument.is_none()) return true;
        [[fallthrough]];
      case 'l':
        return list != nullptr && std::all_of(list->begin(), list->end(),
                                              [&](const Argument& item) { return accepts('i', item, lowered); });
      case 'F':
        if (argument.is_none()) return true;
        [[fallthrough]];
      case 'f': return argument.as<Argument::Doubles>() != nullptr || (list != nullptr && list->empty());
      case 'm': return argument.as<Argument::Bools>() != nullptr || (list != nullptr && list->empty());
      case 'v':
      case 'w':
        return list != nullptr && std::all_of(list->begin(), list->end(), [&](const Argument& item) {
                 return is_kind(item, {Kind::kTensor}) || (letter == 'w' && item.is_none());
               });
      default: return true;
    }
  }

  // --- the method ----------------------------------------------------------------------------------------------

  void check_writes() {
    std::set<std::pair<std::string, size_t>> targets;
    for (const Write& write : method_.writes) {
      const bool to_buffer = write.target == Write::Target::kBuffer;
      const std::string name = to_buffer ? "buffer @" + write.buffer : "input " + std::to_string(write.input_index);
      if (write.value == nullptr || visible_.count(write.value) == 0) {
        fail(method_, "what is written to " + name + " is not defined");
        continue;
      }
      if (!targets.insert({to_buffer ? write.buffer : std::string(), to_buffer ? 0 : write.input_index}).second) {
        fail(method_, name + " is written twice");
      }
      const TensorType* type = nullptr;
      if (to_buffer) {
        const auto entry = program_.buffers.find(write.buffer);
        type = entry == program_.buffers.end() ? nullptr : &entry->second.initial.type;
      } else if (write.input_index < method_.inputs().size() && method_.inputs()[write.input_index]->type.is_tensor()) {
        type = &method_.inputs()[write.input_index]->type.tensor;
      }
      if (type == nullptr) {
        fail(method_, name + " is written, but there is no such tensor");
      } else if (!write.value->type.is_tensor() || !same_shape(*type, write.value->type.tensor)) {
        fail(method_,
             "what is written to " + name + " is " + describe(write.value->type) + ", it holds " + describe(*type));
      }
    }
  }

  void count_uses(const Graph& graph, std::unordered_map<const Value*, size_t>& uses) {
    for (const auto& node : graph.nodes()) {
      node->for_each_input([&](Value* value) { ++uses[value]; });
      for (const auto& region : node->regions) {
        count_uses(*region, uses);
      }
    }
  }

  void check_users(const Graph& graph, const std::unordered_map<const Value*, size_t>& uses) {
    const auto check = [&](const Value& value) {
      const auto found = uses.find(&value);
      if (value.users().size() != (found == uses.end() ? 0 : found->second)) {
        fail(graph, "the list of uses of %" + value.name + " is wrong");
      }
    };
    for (const auto& input : graph.inputs()) {
      check(*input);
    }
    for (const auto& node : graph.nodes()) {
      for (const auto& result : node->results()) {
        check(*result);
      }
      for (const auto& region : node->regions) {
        check_users(*region, uses);
      }
    }
  }

  void check_use_lists(const Graph& graph) {
    std::unordered_map<const Value*, size_t> uses;
    count_uses(graph, uses);
    check_users(graph, uses);
  }

  void check_arenas() {
    if (method_.stage != Stage::kPlanned && !method_.arena_sizes.empty()) {
      fail(method_, std::string("a graph of the ") + to_string(method_.stage) + " stage has no arenas");
    }
  }

  const Graph& method_;
  const Program& program_;
  Diagnostics& diagnostics_;
  const size_t first_;  ///< diagnostics that were there before
  std::unordered_set<std::string_view> names_;
  std::unordered_set<const Value*> visible_;  ///< looked up only, never walked through
  std::unordered_set<uint32_t> handles_;
};

}  // namespace

Error verify(const Graph& method, const Program& program, Diagnostics* diagnostics) {
  return Verifier(method, program, *diagnostics).run();
}

Error verify(const Program& program, Diagnostics* diagnostics) {
  const size_t before = diagnostics->size();
  std::set<std::string_view> names;
  const auto claim = [&](const std::string& name) {
    if (!names.insert(name).second) {
      diagnostics->push_back({Error::InvalidProgram, "two methods are called " + quote(name), "", "", Source()});
    }
  };
  for (const auto& method : program.methods) {
    claim(method->name);
    (void)verify(*method, program, diagnostics);
  }
  for (const ConstantMethod& method : program.constant_methods) {
    claim(method.name);
  }
  for (const Delegate& delegate : program.delegates) {
    if (delegate.backend_id.empty()) {
      diagnostics->push_back({Error::InvalidProgram, "a delegate has no backend id", "", "", Source()});
    }
  }
  return diagnostics->size() == before ? Error::Ok : Error::InvalidProgram;
}

}  // namespace et::ir
