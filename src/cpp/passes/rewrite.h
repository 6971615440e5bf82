/// What rewrites share: reading arguments, looking at uses, replacing nodes, making constants.
///
/// For: passes. Not for: anything about one operator, which belongs to the pass that needs it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/literals.h"
#include "passes/pass.h"

namespace et::ir {
class Match;
}

namespace et::passes {

/// Calls visit(node) -> bool for each node of the graph in order and says whether any returned true, that is, changed
/// something. It may erase the node it is given, and add and erase nodes before that one.
template <typename Visit>
Changed rewrite_each(ir::Graph& graph, Visit&& visit) {
  Changed changed = Changed::kNo;
  ir::Node* next = graph.nodes().empty() ? nullptr : graph.nodes().front().get();
  while (next != nullptr) {
    ir::Node* const node = next;
    next = graph.next(node);
    changed = visit(node) ? Changed::kYes : changed;
  }
  return changed;
}

using ir::constant_of;
using ir::int_of;
using ir::ints_of;
using ir::number_of;
using ir::scalar_of;

bool is_one_of(std::string_view op, std::initializer_list<std::string_view> ops);

/// Name of the .ptd (ir::Constant::external_file) of the constants that `value` is computed from; empty when they are
/// inside the program, or when it depends on anything else.
std::string external_file_of(const ir::Program& program, const ir::Value* value);

/// The node that made the value when it has one of the names; nullptr for inputs and other nodes.
ir::Node* producer_if(const ir::Argument& argument, std::initializer_list<std::string_view> ops);
/// True when `user` is the only use of the value: one argument of it, no output, no write.
bool is_only_use(const ir::Value* value, const ir::Node* user);
/// The value exists before the method runs, or outside: an input, a constant, a buffer.
bool is_external(const ir::Value* value);

/// True when nothing that a pattern found is tagged.
bool is_untagged(const ir::Match& match);

/// Arguments of a lowered node whose memory `result`, one of its results, may take: bit i = argument i.
uint32_t overwritable_arguments(const ir::Node& node, const ir::Value* result, const PassContext& context);

/// The dim order of a type as an argument of dim_order_ops.
ir::Argument order_argument(const ir::TensorType& type);

/// Gives a node that a pass puts beside `other`, a copy say, the source and the handles of that one. None is its own.
void serve(ir::Node* made, const ir::Node& other);
/// Gives `made`, which copies `value`, the source and handles of the node that made it; of an input, constant or
/// buffer, those of the first node that reads it.
void serve_maker(ir::Node* made, const ir::Value* value);

/// A node before `node` with its source, tag and handles, for a rewrite of `node` into something else.
ir::Node* create_like(const ir::Node& node, std::string_view op, std::vector<ir::Argument> args);
/// Replaces the node's results by those of `created`, which take their names over, merges the handles, erases the node.
/// Results that `created` does not have must be unused.
void replace_node(ir::Node* node, ir::Node* created);
/// Erases those of the nodes that nobody reads any more; `made` takes the handles over.
void erase_unread(std::vector<ir::Node*> nodes, ir::Node* made);

/// Adds a constant that a pass made and a node for it before `before`. The name is `hint` in the method's name space.
/// Where `before` reads constants of a .ptd, it goes to that file, under a name that says its content.
ir::Value* add_constant(ir::Program& program, ir::Graph& graph, std::string_view hint, ir::Constant constant,
                        ir::Node* before);

/// The elements of a constant of floats or integers; empty for other types.
std::vector<double> numbers_of(const ir::Constant& constant);

/// The elements at `from`, of `element` bytes each in row-major order of `dims`, with the dims permuted: dim i of the
/// result is dim `perm[i]`.
std::string permuted_bytes(const void* from, size_t element, const std::vector<int64_t>& dims,
                           const std::vector<size_t>& perm);
/// Those of a constant of static shape.
std::string permuted_bytes(const ir::Constant& constant, const std::vector<size_t>& perm);

/// Memory for a constant of `type`, zeroed. `*data` points into it until the constant is gone.
template <typename T = unsigned char>
ir::Constant new_constant(ir::TensorType type, T** data) {
  const auto nbytes = static_cast<size_t>(type.max_nbytes());
  const std::shared_ptr<void> bytes(std::calloc(nbytes + 1, 1), &std::free);  // fresh pages are zero: none is written
  if (bytes == nullptr) {
    throw std::bad_alloc();
  }
  ir::Constant constant;
  constant.type = std::move(type);
  constant.data = bytes.get();
  constant.keep_alive = bytes;
  constant.from_module = false;
  *data = static_cast<T*>(bytes.get());
  return constant;
}

}  // namespace et::passes
