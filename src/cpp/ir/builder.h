/// GraphBuilder: makes one method of a Program, node after node, in execution order.
///
/// For: export/importer/programs.py (through the bindings) and tests. It fills the constant and buffer tables, gives
/// debug handles, and refuses what the verifier would refuse only when finish() is called, with all diagnostics at
/// once. Not for: changing a graph; passes use Graph and Node.
///
///     GraphBuilder builder(program, "forward");
///     Value* x = builder.add_input("x", Type::of(TensorType::contiguous(ScalarType::Float, {2, 8})));
///     Value* w = builder.add_constant("linear.weight", constant);
///     Node* y = builder.add_node("aten::linear", {{x}, {w}, {}}, {type}, {"linear"}, source);
///     builder.set_outputs({{y->result()}});
///     ET_TRY(Graph* graph, builder.finish(&diagnostics));
///
/// Place: between the importer and the first pass.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/diagnostic.h"
#include "ir/graph.h"

namespace et::ir {

class GraphBuilder {
 public:
  /// Adds an empty method to `program`, which must outlive the builder. A second method of that name is refused by
  /// finish().
  GraphBuilder(Program& program, std::string_view method_name);

  Value* add_input(std::string_view name, Type type);

  /// The value of a constant, one a method however often it is called. `constant` goes into the table unless the
  /// symbol is there already (another method's).
  Value* add_constant(std::string_view symbol, Constant constant);
  /// The content of a mutable buffer at the start of the method.
  Value* add_buffer(std::string_view symbol, Buffer buffer);
  /// The value of a constant or buffer that is in the program's tables.
  Value* constant(std::string_view symbol);
  Value* buffer(std::string_view symbol);

  /// Adds a node at the end of the method, or of the innermost open region.
  ///
  /// `args` in the order of the schema, defaults materialised. `result_names` may be shorter than `result_types`; a
  /// missing name is made from the operator's. Gives the node the program's next debug handle.
  Node* add_node(std::string_view op, std::vector<Argument> args, std::vector<Type> result_types,
                 const std::vector<std::string>& result_names = {}, Source source = {}, std::string_view tag = {});
  /// A call of a compiled part. `delegate` goes into Program::delegates.
  Node* add_delegate(Delegate delegate, std::vector<Argument> args, std::vector<Type> result_types,
                     const std::vector<std::string>& result_names = {}, Source source = {});

  /// Opens a region of `owner`; inputs and nodes go there until it is closed. Regions may use values from around them.
  Graph* begin_region(Node* owner, std::string_view name);
  void end_region(std::vector<Output> outputs);

  void set_outputs(std::vector<Output> outputs) { graph_->outputs = std::move(outputs); }
  /// At the end of the method `value` becomes the content of the buffer, or of input `index`.
  void add_buffer_write(std::string_view symbol, Value* value);
  void add_input_write(size_t index, Value* value);
  /// pytree specs as JSON.
  void set_specs(std::string_view input_spec, std::string_view output_spec);

  /// The method, verified.
  ///
  /// Errors: what the verifier found, each in `diagnostics`; the method stays in the program.
  Result<Graph*> finish(Diagnostics* diagnostics);

  Graph* graph() const { return graph_; }
  Program& program() const { return program_; }

 private:
  Value* symbol_value(const char* op, std::string_view symbol, const TensorType& type);

  Program& program_;
  Graph* graph_;
  std::vector<Graph*> open_;     ///< the method, then open regions
  Node* last_symbol_ = nullptr;  ///< constants and buffers stand first, in order of their request
  std::map<std::string, Value*, std::less<>> symbols_;  ///< "constant weight" -> value
};

}  // namespace et::ir
