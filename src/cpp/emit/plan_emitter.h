/// One method becomes an ExecutionPlan.
///
/// For: emit.cpp. Steps of the method's schedule become instructions, values become EValues, and the pools get what the
/// values point at. Call conventions (docs/reference/format.md, "Calls"):
///
///  - out variants: every argument of the schema in order, outs included, then each out once more; several outs are
///    followed by a list of them, a list of outs by the list itself;
///  - in-place operators: their arguments, then the argument that they wrote;
///  - executorch_prim and symbolic operators: their arguments, then the result;
///  - delegates: inputs, then outputs.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "emit/file_tables.h"
#include "emit/value_table.h"
#include "ir/schedule.h"
#include "ops/op_table.h"

namespace et::emit {

class PlanEmitter {
 public:
  PlanEmitter(FileTables& tables, const ir::Graph& graph, ir::Diagnostics& diagnostics);

  /// Errors: see emit.h; each has a diagnostic.
  Result<flatbuffers::Offset<schema::ExecutionPlan>> run();

  /// The node that each instruction came from.
  const std::vector<const ir::Node*>& origins() const { return origins_; }

 private:
  using Args = std::vector<int32_t>;

  /// Complex numbers exist between operators only: no caller can pass or take them.
  Error refuse_complex(const ir::Value* value);
  Error add_inputs();
  void find_growing();
  Error add_step(const ir::Step& step);
  Error add_call(const ir::Node& node);
  Error add_table_call(const ir::Node& node, const ops::OpInfo& op, Args& args);
  Error add_plain_call(const ir::Node& node, Args& args);
  Error add_delegate_call(const ir::Node& node);
  flatbuffers::Offset<schema::BackendDelegateDataReference> add_payload(const std::string& payload);
  void add_kernel_call(std::string_view op_name, const Args& args, const ir::Node& node);
  void add_instruction(schema::InstructionArguments type, flatbuffers::Offset<void> arguments, const ir::Node* origin);
  int32_t operator_index(std::string_view name);

  /// Index of the value that stands for the argument; literals by their own type.
  Result<int32_t> index_of(const ir::Argument& argument, const ir::Node* node);
  /// The same for a parameter whose signature letter is known.
  Result<int32_t> index_of(const ir::Argument& argument, const ops::Argument& parameter, const ir::Node& node);
  Result<int32_t> list_index(const ir::Argument::List& list, char letter, const ir::Node* node);
  Result<int32_t> value_index(ir::Value* value, const ir::Node* node);
  Result<int32_t> tensor_index(ir::Value* value);
  /// The value whose EValue `value` shares, because it is another name of it and not another view; else `value`.
  ir::Value* same_value(ir::Value* value) const;
  ir::Value* root_of(ir::Value* value) const;
  Error fail(Error code, const ir::Node* node, std::string message);

  FileTables& tables_;
  flatbuffers::FlatBufferBuilder& builder_;
  const ir::Graph& graph_;
  ir::Diagnostics& diagnostics_;
  ir::Schedule schedule_;
  ValueTable values_;
  /// Tensors that executorch_prim::et_copy_index fills item by item. The published runtime lets them grow with the
  /// items, so a compatible file must not call their sizes static.
  std::unordered_set<const ir::Value*> growing_;
  std::unordered_map<const ir::Value*, int32_t> indices_;
  std::vector<flatbuffers::Offset<schema::Instruction>> instructions_;
  std::vector<const ir::Node*> origins_;
  std::vector<flatbuffers::Offset<schema::Operator>> operators_;
  std::unordered_map<std::string_view, int32_t> operator_indices_;
  std::vector<flatbuffers::Offset<schema::BackendDelegate>> delegates_;
  std::unordered_map<size_t, int32_t> delegate_indices_;
};

}  // namespace et::emit
