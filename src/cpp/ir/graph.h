/// Program, Graph, Node, Value: the intermediate representation between torch.export and the file.
///
/// For: passes, planning, emission. Built once by export/importer/programs.py through builder.h (or parsed from text),
/// changed by passes in place, emitted. It holds no torch object and knows no backend.
///
///     method @forward(%x: f32[2, s0:{1..64}, 8]) {
///       %w = constant @linear.weight : f32[4, 8]
///       %b = buffer @counter : i64[]
///       %y = aten::linear(%x, %w, none) : f32[2, s0, 4]      // fx: linear, model.py:12
///       return %y, writes {buffer @counter = %b}
///     }
///
/// Rules (the verifier's, verifier.h):
///  - SSA: a value has one definition, before its uses. Nodes stand in execution order.
///  - Arguments are positional in the order of the operator's schema, defaults materialised; nothing is optional by
///    absence.
///  - A node's results have types. An operator that returns Tensor[] has one result an element.
///  - Names of values are unique in a method, its regions included.
///  - kEdge: functional operators only; changes of state are in Graph::writes.
///  - kLowered: `op` is the name under which the runtime knows the operator ("aten::add.out", "aten::copy_",
///    "executorch_prim::et_view.default"). Arguments are those of that schema *without* its out arguments, in order;
///    the results are what the out arguments hold. An in-place operator ("aten::copy_") keeps its self argument, and
///    its result is an alias of it. Static views are gone: the view is a value with `alias_of`, kept alive by an
///    "alias" node that emits no instruction. Writes are done by nodes; Graph::writes only remembers which value each
///    target ends as.
///  - kPlanned: every tensor that the file plans has an allocation.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "ir/constants.h"
#include "ir/type.h"

namespace et::ir {

class Graph;
class Node;

/// Where a node comes from in the user's program. File names are relative to the working directory at export, or base
/// names.
struct Source {
  std::string fx_name;      ///< name of the fx node
  std::string module_path;  ///< "layers.0.attention.query"; the module call that made it
  std::string file;         ///< "model.py"
  int32_t line = 0;         ///< 0 = unknown
  std::string function;     ///< "forward"
};

/// Where a tensor lives at run time, decided by planning/.
struct Allocation {
  uint32_t memory_id = 0;  ///< 0 = not planned (the caller gives memory); arenas count from 1
  uint64_t offset = 0;     ///< bytes
};

/// A result of a node or an input of a graph.
class Value {
 public:
  std::string name;  ///< unique in its graph, without '%'
  Type type;

  Node* producer() const { return producer_; }    ///< nullptr for a graph (or region) input
  size_t result_index() const { return index_; }  ///< among the producer's results, or the graph's inputs
  Graph* graph() const { return graph_; }
  /// Nodes that use the value, in no particular order, one entry a use. Region and graph returns are not in it: see
  /// Graph::is_output.
  const std::vector<Node*>& users() const { return users_; }

  /// The value whose memory this one occupies (view or in-place reuse), or nullptr. Set from kLowered on. A chain of
  /// aliases ends at its root, root(); planning gives memory to roots, and an alias lies at its root's offset.
  Value* alias_of = nullptr;
  Allocation allocation;

  /// The value at the end of the chain of aliases; this one when it is no alias.
  const Value* root() const;
  Value* root() { return const_cast<Value*>(static_cast<const Value*>(this)->root()); }

 private:
  friend class Graph;
  friend class Node;
  Graph* graph_ = nullptr;
  Node* producer_ = nullptr;
  size_t index_ = 0;
  std::vector<Node*> users_;
};

/// One argument of a node: nothing, a value, a literal, or a list.
struct Argument {
  struct None {
    bool operator==(const None&) const { return true; }
  };
  using List = std::vector<Argument>;  ///< ints (literal or values), tensors, optional tensors
  using Doubles = std::vector<double>;
  using Bools = std::vector<bool>;
  std::variant<None, Value*, int64_t, double, bool, std::string, List, Doubles, Bools> data;

  bool is_none() const { return std::holds_alternative<None>(data); }
  bool is_value() const { return std::holds_alternative<Value*>(data); }
  Value* value() const { return is_value() ? std::get<Value*>(data) : nullptr; }
  template <typename T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
  bool operator==(const Argument& o) const { return data == o.data; }
};

/// One operation.
class Node {
 public:
  /// "aten::add.Tensor". The IR's own: "constant", "buffer" and "delegate" (symbol names what they refer to), "alias"
  /// (kLowered: a static view, no instruction) and, with regions, "cond", "map", "scan" and "while_loop".
  std::string op;
  std::string symbol;  ///< of constant and buffer: name in Program::constants / buffers; of delegate: index text
  Source source;
  uint32_t debug_handle = 0;             ///< 0 = none; unique in the Program, kept by passes, merged by handles below
  std::vector<uint32_t> merged_handles;  ///< handles of the nodes that were merged into this one
  std::string tag;  ///< delegation tag; empty = not delegated. Nodes merge only when their tags are equal
  /// Sub-graphs of control flow: cond {true, false}, map/scan {body}, while_loop {condition, body}. See add_region.
  std::vector<std::unique_ptr<Graph>> regions;

  const std::vector<Argument>& args() const { return args_; }
  const std::vector<std::unique_ptr<Value>>& results() const { return results_; }
  Value* result(size_t i = 0) const { return results_[i].get(); }
  Graph* graph() const { return graph_; }

  /// Replaces argument `i` and keeps the use lists right.
  void set_arg(size_t i, Argument argument);
  void set_args(std::vector<Argument> arguments);
  /// Adds a result. `name` is made unique in the graph.
  Value* add_result(std::string_view name, Type type);
  /// Adds an empty region, which shares the names of this node's graph.
  Graph* add_region(std::string_view name);
  /// Takes region `i` of `from`, a node of the same method, which is left without it.
  Graph* adopt_region(Node& from, size_t i);
  /// This node's handle and those merged into it, without doubles, smallest first.
  std::vector<uint32_t> all_handles() const;
  /// Takes over the debug handles of `other`, which this node now computes too. Keeps this node's own source; takes the
  /// other's where this one has none.
  void absorb(const Node& other);
  /// Calls `visit(Value*)` for each value among the arguments, lists included, in order.
  template <typename F>
  void for_each_input(const F& visit) const {
    for (const Argument& argument : args_) {
      visit_argument(argument, visit);
    }
  }

 private:
  friend class Graph;
  template <typename F>
  static void visit_argument(const Argument& argument, const F& visit) {
    if (Value* value = argument.value()) {
      visit(value);
    } else if (const auto* list = argument.as<Argument::List>()) {
      for (const Argument& item : *list) {
        visit_argument(item, visit);
      }
    }
  }

  Graph* graph_ = nullptr;
  std::vector<Argument> args_;
  std::vector<std::unique_ptr<Value>> results_;
  std::list<std::unique_ptr<Node>>::iterator position_;
};

/// At the end of a method `value` becomes the content of a mutable buffer or of a user's input.
struct Write {
  enum class Target : uint8_t { kBuffer, kInput };
  Target target = Target::kBuffer;
  std::string buffer;      ///< name in Program::buffers
  size_t input_index = 0;  ///< of Graph::inputs
  Value* value = nullptr;
};

/// An output of a method: a value, or a literal that the module returned (None, 3, "text").
using Output = Argument;

/// How far a graph has come. Each stage has its rules (verifier.h).
enum class Stage : uint8_t { kEdge, kLowered, kPlanned };

/// A method, or a region of control flow (which captures values of the graphs around it).
class Graph {
 public:
  explicit Graph(std::string name);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  std::string name;
  Stage stage = Stage::kEdge;
  std::vector<Output> outputs;
  std::vector<Write> writes;
  /// pytree specs as JSON, of inputs (args, kwargs) and outputs; empty = a flat list. Written to container_meta_type.
  std::string input_spec;
  std::string output_spec;
  /// Bytes of each arena, index = memory id; [0] unused. Set by planning.
  std::vector<uint64_t> arena_sizes;
  /// The node that this region belongs to; nullptr for a method.
  Node* owner = nullptr;

  const std::vector<std::unique_ptr<Value>>& inputs() const { return inputs_; }
  const std::list<std::unique_ptr<Node>>& nodes() const { return nodes_; }

  Value* add_input(std::string_view name, Type type);
  /// Removes an input that nothing uses.
  void erase_input(size_t i);
  /// Inserts a node before `before` (nullptr = at the end). Results are added with Node::add_result.
  Node* create_node(std::string_view op, std::vector<Argument> args, Node* before = nullptr);
  /// Makes every use of `from` (arguments here and in regions, outputs, writes) a use of `to`.
  void replace_all_uses(Value* from, Value* to);
  /// Removes a node none of whose results is used.
  void erase(Node* node);
  /// Moves `node` before `before` (nullptr = to the end); the caller answers for order.
  void move_before(Node* node, Node* before);
  Node* next(const Node* node) const;
  Node* previous(const Node* node) const;
  /// True when `value` is among outputs or writes of this graph, or among the returns of a region of its method.
  bool is_output(const Value* value) const;
  /// The method that this graph is, or that this region is in.
  const Graph* method() const;
  Graph* method() { return const_cast<Graph*>(static_cast<const Graph*>(this)->method()); }
  /// No argument, output or write uses the value.
  bool is_unused(const Value* value) const { return value->users().empty() && !is_output(value); }

 private:
  friend class Node;
  std::string unique_name(std::string_view wanted);
  /// Takes the node and all that is in its regions out of the use lists.
  void drop(Node* node);

  std::vector<std::unique_ptr<Value>> inputs_;
  std::list<std::unique_ptr<Node>> nodes_;
  /// Of a method, shared by its regions: names taken, regions alive.
  struct Shared;
  Shared& shared();
  std::unique_ptr<Shared> shared_;
};

/// A method without instructions that returns constants (`constant_methods`).
struct ConstantMethod {
  std::string name;
  std::vector<Argument> values;  ///< ints, doubles, bools, strings; tensors by the name of a constant ("@name" text)
};

/// A compiled part of a graph: what a backend's preprocess returned.
struct Delegate {
  struct CompileSpec {
    std::string key;
    std::string value;  ///< bytes
  };
  /// What the backend made of some nodes of the part, under a number of its own.
  struct Step {
    uint32_t id = 0;
    std::vector<uint32_t> handles;  ///< debug handles of these nodes
    std::string op;                 ///< of the one that it is told as, "aten::linear"
    Source source;                  ///< likewise
  };
  std::string backend_id;
  std::string payload;  ///< bytes
  std::vector<CompileSpec> compile_specs;
  std::vector<Step> steps = {};  ///< ids rise; empty = the backend does not say
};

/// Bytes that delegates find by name.
struct NamedData {
  std::string key;
  std::string bytes;
  /// Set when all delegates that use the entry read its sparse form as well (numerics/sparse_bytes.h): what its
  /// elements are. The sign of their zeros does not matter then.
  std::optional<ScalarType> sparse_dtype = std::nullopt;
  /// Name of the .ptd, without its extension, that the bytes go to instead of the program; empty = none.
  std::string external_file = {};

  /// Another user of the same bytes, which wants them so: what both can do with, and inside the program if one says so.
  void share(std::optional<ScalarType> dtype, const std::string& file) {
    if (sparse_dtype != dtype) {
      sparse_dtype.reset();
    }
    if (file.empty()) {
      external_file.clear();
    }
  }
};

/// Everything that becomes one file.
class Program {
 public:
  std::vector<std::unique_ptr<Graph>> methods;  ///< emitted in sorted order of names
  std::vector<ConstantMethod> constant_methods;
  ConstantTable constants;  ///< read-only tensors, by name
  BufferTable buffers;      ///< mutable state, by name, with initial values
  std::vector<Delegate> delegates;
  std::vector<NamedData> named_data;  ///< shared weights of delegates, tables of ours
  uint32_t next_debug_handle = 1;

  Graph* find_method(std::string_view name) const;
};

}  // namespace et::ir
