#include "ir/graph.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/lexical.h"

namespace et::ir {

/// What a method and its regions share.
struct Graph::Shared {
  std::unordered_set<std::string> taken;                  ///< names of values
  std::unordered_map<std::string, uint32_t> next_suffix;  ///< "add" -> 3 when add, add_1 and add_2 were given
  std::vector<Graph*> regions;                            ///< all regions of the method
};

namespace {

void remove_one(std::vector<Node*>& users, Node* node) {
  const auto found = std::find(users.begin(), users.end(), node);
  if (found != users.end()) {
    users.erase(found);
  }
}

bool argument_uses(const Argument& argument, const Value* value) {
  if (argument.value() == value) {
    return true;
  }
  const auto* list = argument.as<Argument::List>();
  return list != nullptr &&
         std::any_of(list->begin(), list->end(), [&](const Argument& item) { return argument_uses(item, value); });
}

void replace_in(Argument& argument, Value* from, Value* to) {
  if (argument.value() == from) {
    argument.data = to;
  } else if (auto* list = std::get_if<Argument::List>(&argument.data)) {
    for (Argument& item : *list) {
      replace_in(item, from, to);
    }
  }
}

bool returns(const Graph& graph, const Value* value) {
  return std::any_of(graph.outputs.begin(), graph.outputs.end(),
                     [&](const Output& output) { return argument_uses(output, value); }) ||
         std::any_of(graph.writes.begin(), graph.writes.end(),
                     [&](const Write& write) { return write.value == value; });
}

void replace_returns(Graph& graph, Value* from, Value* to) {
  for (Output& output : graph.outputs) {
    replace_in(output, from, to);
  }
  for (Write& write : graph.writes) {
    if (write.value == from) {
      write.value = to;
    }
  }
}

}  // namespace

const Value* Value::root() const {
  const Value* value = this;
  while (value->alias_of != nullptr) {
    value = value->alias_of;
  }
  return value;
}

void Node::set_arg(size_t i, Argument argument) {
  visit_argument(args_[i], [this](Value* value) { remove_one(value->users_, this); });
  args_[i] = std::move(argument);
  visit_argument(args_[i], [this](Value* value) { value->users_.push_back(this); });
}

void Node::set_args(std::vector<Argument> arguments) {
  for_each_input([this](Value* value) { remove_one(value->users_, this); });
  args_ = std::move(arguments);
  for_each_input([this](Value* value) { value->users_.push_back(this); });
}

Value* Node::add_result(std::string_view name, Type type) {
  auto value = std::make_unique<Value>();
  value->name = graph_->unique_name(name);
  value->type = std::move(type);
  value->graph_ = graph_;
  value->producer_ = this;
  value->index_ = results_.size();
  results_.push_back(std::move(value));
  return results_.back().get();
}

Graph* Node::add_region(std::string_view name) {
  auto region = std::make_unique<Graph>(std::string(name));
  region->owner = this;
  region->stage = graph_->stage;
  region->shared_.reset();
  Graph* result = region.get();
  graph_->shared().regions.push_back(result);
  regions.push_back(std::move(region));
  return result;
}

Graph* Node::adopt_region(Node& from, size_t i) {
  std::unique_ptr<Graph> region = std::move(from.regions[i]);
  from.regions.erase(from.regions.begin() + static_cast<ptrdiff_t>(i));
  region->owner = this;
  regions.push_back(std::move(region));
  return regions.back().get();
}

std::vector<uint32_t> Node::all_handles() const {
  std::vector<uint32_t> handles = merged_handles;
  if (debug_handle != 0) {
    handles.push_back(debug_handle);
  }
  std::sort(handles.begin(), handles.end());
  handles.erase(std::unique(handles.begin(), handles.end()), handles.end());
  return handles;
}

void Node::absorb(const Node& other) {
  merged_handles = [&] {
    std::vector<uint32_t> handles = all_handles();
    const std::vector<uint32_t> more = other.all_handles();
    handles.insert(handles.end(), more.begin(), more.end());
    std::sort(handles.begin(), handles.end());
    handles.erase(std::unique(handles.begin(), handles.end()), handles.end());
    return handles;
  }();
  if (debug_handle == 0) {
    debug_handle = other.debug_handle;
  }
  merged_handles.erase(std::remove(merged_handles.begin(), merged_handles.end(), debug_handle), merged_handles.end());
  if (source.fx_name.empty() && source.file.empty()) {
    source = other.source;
  }
}

Graph::Graph(std::string graph_name) : name(std::move(graph_name)), shared_(std::make_unique<Shared>()) {}

Graph::~Graph() = default;

const Graph* Graph::method() const {
  const Graph* graph = this;
  while (graph->owner != nullptr) {
    graph = graph->owner->graph();
  }
  return graph;
}

Graph::Shared& Graph::shared() { return *method()->shared_; }

std::string Graph::unique_name(std::string_view wanted) {
  std::string base(wanted.empty() ? "v" : wanted);
  for (char& c : base) {
    if (!is_name_character(c)) {
      c = '_';
    }
  }
  Shared& names = shared();
  if (names.taken.insert(base).second) {
    return base;
  }
  uint32_t& suffix = names.next_suffix[base];
  for (;;) {
    std::string candidate = base + "_" + std::to_string(++suffix);
    if (names.taken.insert(candidate).second) {
      return candidate;
    }
  }
}

Value* Graph::add_input(std::string_view input_name, Type type) {
  auto value = std::make_unique<Value>();
  value->name = unique_name(input_name);
  value->type = std::move(type);
  value->graph_ = this;
  value->index_ = inputs_.size();
  inputs_.push_back(std::move(value));
  return inputs_.back().get();
}

void Graph::erase_input(size_t i) {
  ET_DCHECK(is_unused(inputs_[i].get()));
  inputs_.erase(inputs_.begin() + static_cast<ptrdiff_t>(i));
  for (size_t k = i; k < inputs_.size(); ++k) {
    inputs_[k]->index_ = k;
  }
}

Node* Graph::create_node(std::string_view op, std::vector<Argument> args, Node* before) {
  auto node = std::make_unique<Node>();
  node->op = op;
  node->graph_ = this;
  const auto position = before == nullptr ? nodes_.end() : before->position_;
  Node* result = node.get();
  result->position_ = nodes_.insert(position, std::move(node));
  result->set_args(std::move(args));
  return result;
}

void Graph::replace_all_uses(Value* from, Value* to) {
  if (from == to) {
    return;
  }
  std::vector<Node*> users = std::move(from->users_);
  from->users_.clear();
  for (Node* user : users) {
    for (Argument& argument : user->args_) {
      replace_in(argument, from, to);
    }
  }
  to->users_.insert(to->users_.end(), users.begin(), users.end());
  Graph* root = method();
  replace_returns(*root, from, to);
  for (Graph* region : root->shared_->regions) {
    replace_returns(*region, from, to);
  }
}

void Graph::drop(Node* node) {
  node->set_args({});
  for (const auto& region : node->regions) {
    for (const auto& inner : region->nodes_) {
      drop(inner.get());
    }
    std::vector<Graph*>& regions = shared().regions;
    regions.erase(std::remove(regions.begin(), regions.end(), region.get()), regions.end());
  }
}

void Graph::erase(Node* node) {
  ET_DCHECK(node->graph_ == this);
  drop(node);
  nodes_.erase(node->position_);
}

void Graph::move_before(Node* node, Node* before) {
  nodes_.splice(before == nullptr ? nodes_.end() : before->position_, nodes_, node->position_);
}

Node* Graph::next(const Node* node) const {
  const auto position = std::next(std::list<std::unique_ptr<Node>>::const_iterator(node->position_));
  return position == nodes_.end() ? nullptr : position->get();
}

Node* Graph::previous(const Node* node) const {
  const auto position = std::list<std::unique_ptr<Node>>::const_iterator(node->position_);
  return position == nodes_.begin() ? nullptr : std::prev(position)->get();
}

bool Graph::is_output(const Value* value) const {
  const Graph* root = method();
  return returns(*root, value) || std::any_of(root->shared_->regions.begin(), root->shared_->regions.end(),
                                              [&](const Graph* region) { return returns(*region, value); });
}

Graph* Program::find_method(std::string_view name) const {
  for (const auto& method : methods) {
    if (method->name == name) {
      return method.get();
    }
  }
  return nullptr;
}

}  // namespace et::ir
