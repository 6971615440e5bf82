#include "ir/builder.h"

#include "ir/verifier.h"

namespace et::ir {
namespace {

/// "aten::add.Tensor" -> "add".
std::string_view base_name(std::string_view op) {
  const size_t space = op.find("::");
  if (space != std::string_view::npos) {
    op.remove_prefix(space + 2);
  }
  return op.substr(0, op.find('.'));
}

}  // namespace

GraphBuilder::GraphBuilder(Program& program, std::string_view method_name) : program_(program) {
  program.methods.push_back(std::make_unique<Graph>(std::string(method_name)));
  graph_ = program.methods.back().get();
  open_.push_back(graph_);
}

Value* GraphBuilder::add_input(std::string_view name, Type type) {
  return open_.back()->add_input(name, std::move(type));
}

Value* GraphBuilder::symbol_value(const char* op, std::string_view symbol, const TensorType& type) {
  const std::string key = std::string(op) + ' ' + std::string(symbol);
  const auto found = symbols_.find(key);
  if (found != symbols_.end()) {
    return found->second;
  }
  // They stand at the start of the method, so that regions and all nodes see them.
  Node* first = last_symbol_ != nullptr   ? graph_->next(last_symbol_)
                : graph_->nodes().empty() ? nullptr
                                          : graph_->nodes().front().get();
  Node* node = graph_->create_node(op, {}, first);
  node->symbol = symbol;
  last_symbol_ = node;
  Value* value = node->add_result(symbol, Type::of(type));
  symbols_.emplace(key, value);
  return value;
}

Value* GraphBuilder::add_constant(std::string_view symbol, Constant constant) {
  const auto entry = program_.constants.emplace(std::string(symbol), std::move(constant)).first;
  return symbol_value("constant", symbol, entry->second.type);
}

Value* GraphBuilder::add_buffer(std::string_view symbol, Buffer buffer) {
  const auto entry = program_.buffers.emplace(std::string(symbol), std::move(buffer)).first;
  return symbol_value("buffer", symbol, entry->second.initial.type);
}

Value* GraphBuilder::constant(std::string_view symbol) {
  const auto entry = program_.constants.find(symbol);
  return entry == program_.constants.end() ? nullptr : symbol_value("constant", symbol, entry->second.type);
}

Value* GraphBuilder::buffer(std::string_view symbol) {
  const auto entry = program_.buffers.find(symbol);
  return entry == program_.buffers.end() ? nullptr : symbol_value("buffer", symbol, entry->second.initial.type);
}

Node* GraphBuilder::add_node(std::string_view op, std::vector<Argument> args, std::vector<Type> result_types,
                             const std::vector<std::string>& result_names, Source source, std::string_view tag) {
  Node* node = open_.back()->create_node(op, std::move(args));
  node->source = std::move(source);
  node->tag = tag;
  node->debug_handle = program_.next_debug_handle++;
  for (size_t i = 0; i < result_types.size(); ++i) {
    const std::string_view name = i < result_names.size() ? std::string_view(result_names[i]) : base_name(op);
    node->add_result(name, std::move(result_types[i]));
  }
  return node;
}

Node* GraphBuilder::add_delegate(Delegate delegate, std::vector<Argument> args, std::vector<Type> result_types,
                                 const std::vector<std::string>& result_names, Source source) {
  Node* node = add_node("delegate", std::move(args), std::move(result_types), result_names, std::move(source));
  node->symbol = std::to_string(program_.delegates.size());
  for (Delegate::Step& step : delegate.steps) {
    if (step.handles.empty()) {  // of nodes that this program has never had
      step.handles = node->all_handles();
    }
  }
  program_.delegates.push_back(std::move(delegate));
  return node;
}

Graph* GraphBuilder::begin_region(Node* owner, std::string_view name) {
  open_.push_back(owner->add_region(name));
  return open_.back();
}

void GraphBuilder::end_region(std::vector<Output> outputs) {
  ET_DCHECK(open_.size() > 1);
  open_.back()->outputs = std::move(outputs);
  open_.pop_back();
}

void GraphBuilder::add_buffer_write(std::string_view symbol, Value* value) {
  Write write;
  write.buffer = symbol;
  write.value = value;
  graph_->writes.push_back(std::move(write));
}

void GraphBuilder::add_input_write(size_t index, Value* value) {
  Write write;
  write.target = Write::Target::kInput;
  write.input_index = index;
  write.value = value;
  graph_->writes.push_back(std::move(write));
}

void GraphBuilder::set_specs(std::string_view input_spec, std::string_view output_spec) {
  graph_->input_spec = input_spec;
  graph_->output_spec = output_spec;
}

Result<Graph*> GraphBuilder::finish(Diagnostics* diagnostics) {
  if (open_.size() != 1) {
    return diagnose(*diagnostics, Error::InvalidState, *graph_, nullptr, "a region of the method was not closed");
  }
  if (program_.find_method(graph_->name) != graph_) {
    return diagnose(*diagnostics, Error::InvalidArgument, *graph_, nullptr,
                    "the program has a method of this name already");
  }
  ET_RETURN_IF_ERROR(verify(*graph_, program_, diagnostics));
  return graph_;
}

}  // namespace et::ir
