#include "ir/parser.h"

#include <charconv>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "base/checked_math.h"
#include "ir/delegate_parser.h"
#include "ir/element_text.h"
#include "ir/scanner.h"
#include "ir/source_comment.h"
#include "ir/type_parser.h"

namespace et::ir {
namespace {

constexpr int kMaxDepth = 64;  ///< of lists and of regions in each other

bool to_double(std::string_view text, double* value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return code == std::errc() && end == text.data() + text.size();
}

class Parser {
 public:
  Parser(std::string_view text, const ParseOptions& options)
      : scan_(text), types_(scan_), data_left_(options.max_data_nbytes) {}

  std::unique_ptr<Program> parse() {
    program_ = std::make_unique<Program>();
    while (!scan_.at_end()) {
      if (!parse_item()) {
        return nullptr;
      }
    }
    program_->next_debug_handle = next_debug_handle_ != 0 ? next_debug_handle_ : largest_handle_ + 1;
    return std::move(program_);
  }

  const ParseError& error() const { return scan_.error(); }

 private:
  bool parse_item() {
    if (scan_.try_token("method")) {
      return parse_method();
    }
    if (scan_.try_token("constant_method")) {
      return parse_constant_method();
    }
    if (scan_.try_token("constant")) {
      std::string name;
      Constant constant;
      return scan_.expect_symbol(&name) && parse_constant(&constant, nullptr) &&
             (program_->constants.emplace(name, std::move(constant)).second ||
              scan_.fail("constant @" + name + " is declared twice, before this"));
    }
    if (scan_.try_token("buffer")) {
      std::string name;
      Buffer buffer;
      return scan_.expect_symbol(&name) && parse_constant(&buffer.initial, &buffer) &&
             (program_->buffers.emplace(name, std::move(buffer)).second ||
              scan_.fail("buffer @" + name + " is declared twice, before this"));
    }
    if (scan_.try_token("delegate")) {
      return parse_delegate(scan_, &program_->delegates.emplace_back());
    }
    if (scan_.try_token("named_data")) {
      return parse_named_data();
    }
    if (scan_.try_token("next_debug_handle")) {
      return parse_handle(&next_debug_handle_);
    }
    return scan_.fail("expected method, constant, buffer, delegate, constant_method, named_data or next_debug_handle");
  }

  // --- values and arguments ------------------------------------------------------------------------------------

  /// What may follow a value's type: alias(%x) at(1, 128).
  bool parse_placement(Value* value) {
    if (scan_.try_token("alias")) {
      if (!scan_.expect("(", "after alias") || !parse_value(&value->alias_of) ||
          !scan_.expect(")", "after the value")) {
        return false;
      }
      if (value->alias_of == value) {
        return scan_.fail("a value must not be an alias of itself");
      }
    }
    if (scan_.try_token("at")) {
      uint64_t id = 0;
      if (!scan_.expect("(", "after at") || !scan_.expect_unsigned("a memory id", &id) ||
          !scan_.expect(",", "after the memory id") || !scan_.expect_unsigned("an offset", &value->allocation.offset) ||
          !scan_.expect(")", "after the offset")) {
        return false;
      }
      if (narrow_overflow(id, &value->allocation.memory_id) || id == 0) {
        return scan_.fail("a memory id must be from 1 to 2^32 - 1");
      }
    }
    return true;
  }

  bool parse_value(Value** value) {
    const size_t start = scan_.position();
    std::string_view name;
    if (!scan_.expect("%", "before a value") || !scan_.expect_name("the name of a value", &name)) {
      return false;
    }
    const auto found = visible_.find(std::string(name));
    if (found == visible_.end()) {
      return scan_.fail_at(start, "%" + std::string(name) + " is not defined before this use");
    }
    *value = found->second;
    return true;
  }

  template <typename ParseItem>
  bool parse_sequence(std::string_view close, const ParseItem& parse_item) {
    bool first = true;
    while (!scan_.try_token(close)) {
      if ((!first && !scan_.expect(",", "or '" + std::string(close) + "'")) || !parse_item()) {
        return false;
      }
      first = false;
    }
    return true;
  }

  bool parse_bool(bool* value) {
    *value = scan_.try_token("true");
    return *value || scan_.try_token("false") || scan_.fail("expected true or false");
  }

  bool parse_number(Argument* argument) {
    const size_t start = scan_.position();
    std::string_view text;
    if (!scan_.try_number(&text)) {
      return scan_.fail(
          "expected an argument: %value, none, a number, true, false, \"text\", [list], double[…] or bool[…]");
    }
    int64_t integer = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), integer);
    if (code == std::errc() && end == text.data() + text.size()) {
      argument->data = integer;
      return true;
    }
    double real = 0;
    if (text.find_first_of(".en") == std::string_view::npos || !to_double(text, &real)) {
      return scan_.fail_at(start,
                           "'" + std::string(text) + "' is neither an integer of 64 bits nor a number with a point");
    }
    argument->data = real;
    return true;
  }

  bool parse_argument(Argument* argument, int depth = 0) {
    if (depth > kMaxDepth) {
      return scan_.fail("lists are nested too deep");
    }
    const char first = scan_.peek();
    if (first == '%') {
      Value* value = nullptr;
      if (!parse_value(&value)) {
        return false;
      }
      argument->data = value;
      return true;
    }
    if (first == '"') {
      std::string text;
      if (!scan_.expect_string("a string", &text)) {
        return false;
      }
      argument->data = std::move(text);
      return true;
    }
    if (scan_.try_token("[")) {
      Argument::List list;
      if (!parse_sequence("]", [&] { return parse_argument(&list.emplace_back(), depth + 1); })) {
        return false;
      }
      argument->data = std::move(list);
      return true;
    }
    if (scan_.try_token("double[")) {
      Argument::Doubles doubles;
      if (!parse_sequence("]", [&] { return scan_.expect_double("a number", &doubles.emplace_back()); })) {
        return false;
      }
      argument->data = std::move(doubles);
      return true;
    }
    if (scan_.try_token("bool[")) {
      Argument::Bools bools;
      const auto parse_item = [&] {
        bool value = false;
        const bool ok = parse_bool(&value);
        bools.push_back(value);
        return ok;
      };
      if (!parse_sequence("]", parse_item)) {
        return false;
      }
      argument->data = std::move(bools);
      return true;
    }
    if (scan_.try_token("none")) {
      argument->data = Argument::None{};
      return true;
    }
    if (first == 't' || first == 'f') {
      bool value = false;
      const bool ok = parse_bool(&value);
      argument->data = value;
      return ok;
    }
    return parse_number(argument);
  }

  bool parse_arguments(std::vector<Argument>* arguments) {
    return scan_.expect("(", "before the arguments") &&
           parse_sequence(")", [&] { return parse_argument(&arguments->emplace_back()); });
  }

  // --- methods -------------------------------------------------------------------------------------------------

  bool claim_name(std::string_view name, size_t position) {
    return taken_.insert(std::string(name)).second ||
           scan_.fail_at(position, "%" + std::string(name) + " is defined twice in this method");
  }

  void show(Value* value, std::vector<std::string>* scope) {
    visible_.emplace(value->name, value);
    scope->push_back(value->name);
  }

  bool parse_inputs(Graph* graph, std::vector<std::string>* scope) {
    return scan_.expect("(", "before the inputs") && parse_sequence(")", [&] {
             const size_t start = scan_.position();
             std::string_view name;
             Type type;
             if (!scan_.expect("%", "before an input") || !scan_.expect_name("the name of an input", &name) ||
                 !claim_name(name, start) || !scan_.expect(":", "after the input") || !types_.parse(&type)) {
               return false;
             }
             Value* value = graph->add_input(name, std::move(type));
             if (!parse_placement(value)) {
               return false;
             }
             show(value, scope);
             return true;
           });
  }

  bool parse_method() {
    taken_.clear();
    visible_.clear();
    types_.clear();
    const size_t start = scan_.position();
    std::string name;
    if (!scan_.expect_symbol(&name)) {
      return false;
    }
    if (program_->find_method(name) != nullptr) {
      return scan_.fail_at(start, "method @" + name + " is defined twice");
    }
    program_->methods.push_back(std::make_unique<Graph>(name));
    Graph* graph = program_->methods.back().get();
    std::vector<std::string> scope;
    return parse_inputs(graph, &scope) && parse_method_attributes(graph) && parse_body(graph, &scope, 0);
  }

  bool parse_method_attributes(Graph* graph) {
    if (scan_.try_token("stage")) {
      if (!scan_.expect("(", "after stage")) {
        return false;
      }
      if (scan_.try_token("lowered")) {
        graph->stage = Stage::kLowered;
      } else if (scan_.try_token("planned")) {
        graph->stage = Stage::kPlanned;
      } else if (!scan_.try_token("edge")) {
        return scan_.fail("expected edge, lowered or planned");
      }
      if (!scan_.expect(")", "after the stage")) {
        return false;
      }
    }
    if (scan_.try_token("arenas")) {
      const auto parse_size = [&] {
        return scan_.expect_unsigned("a size in bytes", &graph->arena_sizes.emplace_back());
      };
      if (!scan_.expect("(", "after arenas") || !parse_sequence(")", parse_size)) {
        return false;
      }
    }
    return parse_spec("input_spec", &graph->input_spec) && parse_spec("output_spec", &graph->output_spec);
  }

  bool parse_spec(std::string_view keyword, std::string* spec) {
    return !scan_.try_token(keyword) ||
           (scan_.expect("(", "after the keyword") && scan_.expect_string("a pytree spec", spec) &&
            scan_.expect(")", "after the spec"));
  }

  bool parse_body(Graph* graph, std::vector<std::string>* scope, int depth) {
    if (!scan_.expect("{", "before the body")) {
      return false;
    }
    while (!scan_.try_token("return")) {
      if (!parse_node(graph, scope, depth)) {
        return false;
      }
    }
    if (!parse_returns(graph) || !scan_.expect("}", "after the returns")) {
      return false;
    }
    for (const std::string& name : *scope) {
      visible_.erase(name);
    }
    return true;
  }

  bool parse_returns(Graph* graph) {
    bool first = true;
    while (scan_.peek() != '}') {
      if (!first && !scan_.expect(",", "or '}' after a returned value")) {
        return false;
      }
      first = false;
      if (scan_.try_token("writes")) {
        return parse_writes(graph);
      }
      if (!parse_argument(&graph->outputs.emplace_back())) {
        return false;
      }
    }
    return true;
  }

  bool parse_writes(Graph* graph) {
    return scan_.expect("{", "after writes") && parse_sequence("}", [&] {
             Write write;
             if (scan_.try_token("buffer")) {
               if (!scan_.expect_symbol(&write.buffer)) {
                 return false;
               }
             } else {
               uint64_t index = 0;
               if (!scan_.expect("input", "or 'buffer'") || !scan_.expect_unsigned("the index of an input", &index)) {
                 return false;
               }
               if (index >= graph->inputs().size()) {
                 return scan_.fail("the method has no input " + std::to_string(index) + ", before this");
               }
               write.target = Write::Target::kInput;
               write.input_index = index;
             }
             if (!scan_.expect("=", "after the target of a write") || !parse_value(&write.value)) {
               return false;
             }
             graph->writes.push_back(std::move(write));
             return true;
           });
  }

  bool parse_node(Graph* graph, std::vector<std::string>* scope, int depth) {
    std::vector<std::string> names;
    while (scan_.peek() == '%') {
      const size_t start = scan_.position();
      std::string_view name;
      if (!scan_.expect("%", "") || !scan_.expect_name("the name of a result", &name) || !claim_name(name, start)) {
        return false;
      }
      names.emplace_back(name);
      if (!scan_.try_token(",")) {
        break;
      }
    }
    if (!names.empty() && !scan_.expect("=", "after the results")) {
      return false;
    }
    const size_t start = scan_.position();
    std::string op;
    std::string symbol;
    std::vector<Argument> arguments;
    if (!scan_.expect_op(&op) || (scan_.peek() == '@' && !scan_.expect_symbol(&symbol)) ||
        ((symbol.empty() || scan_.peek() == '(') && !parse_arguments(&arguments))) {
      return false;
    }
    if (op.empty()) {
      return scan_.fail_at(start, "the name of an operator must not be empty");
    }
    Node* node = graph->create_node(op, std::move(arguments));
    node->symbol = std::move(symbol);
    for (size_t i = 0; i < names.size(); ++i) {
      Type type;
      if (!scan_.expect(i == 0 ? ":" : ",", i == 0 ? "before the types of the results" : "before the next type") ||
          !types_.parse(&type)) {
        return false;
      }
      if (!parse_placement(node->add_result(names[i], std::move(type)))) {
        return false;
      }
    }
    if (!parse_node_attributes(node)) {
      return false;
    }
    if (!parse_regions(node, depth)) {
      return false;
    }
    parse_source(node);
    for (const auto& result : node->results()) {
      show(result.get(), scope);
    }
    declare(*node);
    return true;
  }

  bool parse_handle(uint32_t* handle) {
    uint64_t value = 0;
    const size_t start = scan_.position();
    if (!scan_.expect_unsigned("a debug handle", &value)) {
      return false;
    }
    if (narrow_overflow(value, handle) || *handle == std::numeric_limits<uint32_t>::max()) {
      return scan_.fail_at(start, "a debug handle must be below 2^32 - 1");
    }
    largest_handle_ = std::max(largest_handle_, *handle);
    return true;
  }

  bool parse_node_attributes(Node* node) {
    if (scan_.try_token("handle")) {
      if (!scan_.expect("(", "after handle") || !parse_handle(&node->debug_handle)) {
        return false;
      }
      while (scan_.try_token(",")) {
        if (!parse_handle(&node->merged_handles.emplace_back())) {
          return false;
        }
      }
      if (!scan_.expect(")", "after the handles")) {
        return false;
      }
    }
    if (scan_.try_token("tag")) {
      return scan_.expect("(", "after tag") && scan_.expect_string("a tag", &node->tag) &&
             scan_.expect(")", "after the tag");
    }
    return true;
  }

  bool parse_regions(Node* node, int depth) {
    if (!scan_.try_token("{")) {
      return true;
    }
    parse_source(node);
    if (depth >= kMaxDepth) {
      return scan_.fail("regions are nested too deep");
    }
    while (!scan_.try_token("}")) {
      std::string name;
      std::vector<std::string> scope;
      if (!scan_.expect("region", "or '}'") || !scan_.expect_symbol(&name)) {
        return false;
      }
      Graph* region = node->add_region(name);
      if (!parse_inputs(region, &scope) || !parse_body(region, &scope, depth + 1)) {
        return false;
      }
    }
    return true;
  }

  /// A comment on this line that says where the node comes from.
  void parse_source(Node* node) {
    std::string_view comment;
    if (scan_.try_source_comment(&comment)) {
      (void)parse_source_comment(comment, &node->source);
    }
  }

  /// A constant or buffer that no line declared exists with the type of its first node, without data.
  void declare(const Node& node) {
    if (node.results().size() != 1 || !node.result()->type.is_tensor()) {
      return;
    }
    if (node.op == "constant" && program_->constants.find(node.symbol) == program_->constants.end()) {
      program_->constants[node.symbol].type = node.result()->type.tensor;
    } else if (node.op == "buffer" && program_->buffers.find(node.symbol) == program_->buffers.end()) {
      program_->buffers[node.symbol].initial.type = node.result()->type.tensor;
    }
  }

  // --- what stands outside methods -----------------------------------------------------------------------------

  bool parse_constant_method() {
    ConstantMethod method;
    if (!scan_.expect_symbol(&method.name) || !scan_.expect("=", "after the name")) {
      return false;
    }
    visible_.clear();
    if (!parse_arguments(&method.values)) {
      return false;
    }
    program_->constant_methods.push_back(std::move(method));
    return true;
  }

  bool parse_named_data() {
    NamedData& entry = program_->named_data.emplace_back();
    if (!scan_.expect_string("the key of named data", &entry.key)) {
      return false;
    }
    if (scan_.try_token("sparse") &&
        (!scan_.expect("(", "after sparse") || !types_.parse_dtype(&entry.sparse_dtype.emplace()) ||
         !scan_.expect(")", "after the dtype"))) {
      return false;
    }
    if (scan_.try_token("external") &&
        (!scan_.expect("(", "after external") || !scan_.expect_string("the file", &entry.external_file) ||
         !scan_.expect(")", "after the file"))) {
      return false;
    }
    return scan_.expect("=", "before the bytes") && scan_.expect_string("the bytes of named data", &entry.bytes);
  }

  bool parse_constant(Constant* constant, Buffer* buffer) {
    types_.clear();
    Type type;
    if (!scan_.expect(":", "before the type") || !types_.parse(&type)) {
      return false;
    }
    if (!type.is_tensor() || !type.tensor.is_static()) {
      return scan_.fail("a constant or buffer must be a tensor with constant sizes; this is not one, before this");
    }
    constant->type = std::move(type.tensor);
    if (buffer != nullptr) {
      if (scan_.try_token("name") && !(scan_.expect("(", "after name") &&
                                       scan_.expect_string("the buffer's name", &buffer->fully_qualified_name) &&
                                       scan_.expect(")", "after the name"))) {
        return false;
      }
      buffer->is_shared = scan_.try_token("shared");
    }
    if (scan_.try_token("external") &&
        !(scan_.expect("(", "after external") && scan_.expect_string("the key", &constant->external_key) &&
          (!scan_.try_token(",") || scan_.expect_string("the file", &constant->external_file)) &&
          scan_.expect(")", "after the key"))) {
      return false;
    }
    constant->from_module = !scan_.try_token("derived");
    return !scan_.try_token("=") || parse_data(scan_, constant, &data_left_);
  }

  Scanner scan_;
  TypeParser types_;
  size_t data_left_;
  std::unique_ptr<Program> program_;
  std::unordered_set<std::string> taken_;            ///< names of the method
  std::unordered_map<std::string, Value*> visible_;  ///< values that may be used here
  uint32_t next_debug_handle_ = 0;
  uint32_t largest_handle_ = 0;
};

}  // namespace

Result<std::unique_ptr<Program>> parse(std::string_view text, ParseError* error, const ParseOptions& options) {
  Parser parser(text, options);
  std::unique_ptr<Program> program = parser.parse();
  if (program == nullptr) {
    *error = parser.error();
    return Error::InvalidArgument;
  }
  return program;
}

}  // namespace et::ir
