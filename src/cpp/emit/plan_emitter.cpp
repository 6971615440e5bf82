#include "emit/plan_emitter.h"

#include <algorithm>

#include "base/log.h"
#include "ops/names.h"

namespace et::emit {
namespace {

using flatbuffers::Offset;

/// "aten::add.out" is the operator "aten::add" with the overload "out".
struct OperatorName {
  std::string name;
  std::string overload;

  explicit OperatorName(std::string_view text) {
    const size_t dot = text.find('.');
    name = text.substr(0, dot);
    overload = dot == std::string_view::npos ? std::string_view() : text.substr(dot + 1);
    if (overload.empty() && name + ".default" == op::executorch_prim_et_view_default) {
      overload = "default";  // the one operator of the format whose default overload has this name
    }
  }
};

}  // namespace

PlanEmitter::PlanEmitter(FileTables& tables, const ir::Graph& graph, ir::Diagnostics& diagnostics)
    : tables_(tables), builder_(tables.builder), graph_(graph), diagnostics_(diagnostics), values_(tables.builder) {}

Error PlanEmitter::fail(Error code, const ir::Node* node, std::string message) {
  return ir::diagnose(diagnostics_, code, graph_, node, std::move(message));
}

Result<Offset<schema::ExecutionPlan>> PlanEmitter::run() {
  ET_TRY(schedule_, ir::Schedule::of(graph_));
  find_growing();
  ET_RETURN_IF_ERROR(add_inputs());
  std::vector<int32_t> inputs;
  for (const auto& input : graph_.inputs()) {
    ET_RETURN_IF_ERROR(refuse_complex(input.get()));
    inputs.push_back(indices_.at(input.get()));
  }

  // A jump names a step; where that step's instructions begin is known once all steps are there.
  std::vector<int32_t> first_instruction;
  std::vector<size_t> jumps;
  for (const ir::Step& step : schedule_.steps()) {
    first_instruction.push_back(static_cast<int32_t>(instructions_.size()));
    if (step.kind == ir::Step::Kind::kJumpFalse) {
      jumps.push_back(first_instruction.size() - 1);
      add_instruction(schema::InstructionArguments_NONE, 0, step.node);
    } else {
      ET_RETURN_IF_ERROR(add_step(step));
    }
  }
  first_instruction.push_back(static_cast<int32_t>(instructions_.size()));
  for (const size_t index : jumps) {
    const ir::Step& step = schedule_.steps()[index];
    ET_TRY(const int32_t condition, index_of(step.from, step.node));
    const auto jump = schema::CreateJumpFalseCall(builder_, condition, first_instruction[step.target]);
    instructions_[static_cast<size_t>(first_instruction[index])] =
        schema::CreateInstruction(builder_, schema::InstructionArguments_JumpFalseCall, jump.Union());
  }

  std::vector<int32_t> outputs;
  for (const ir::Output& output : graph_.outputs) {
    ET_RETURN_IF_ERROR(refuse_complex(output.value()));
    ET_TRY(const int32_t index, index_of(output, nullptr));
    outputs.push_back(index);
  }

  Offset<schema::ContainerMetadata> container = 0;
  if (!graph_.input_spec.empty() || !graph_.output_spec.empty()) {
    container = schema::CreateContainerMetadataDirect(builder_, graph_.input_spec.c_str(), graph_.output_spec.c_str());
  }
  std::vector<int64_t> arena_sizes(graph_.arena_sizes.begin(), graph_.arena_sizes.end());
  if (arena_sizes.empty()) {
    arena_sizes.push_back(0);
  }
  const std::vector<int32_t> none;
  const std::vector<Offset<schema::Chain>> chains{
      schema::CreateChainDirect(builder_, &none, &none, &instructions_, nullptr)};
  return schema::CreateExecutionPlanDirect(builder_, graph_.name.c_str(), container, &values_.values(), &inputs,
                                           &outputs, &chains, &operators_, &delegates_, &arena_sizes, nullptr);
}

Error PlanEmitter::refuse_complex(const ir::Value* value) {
  if (value == nullptr || value->type.kind != ir::Kind::kTensor || !is_complex(value->type.tensor.dtype)) {
    return Error::Ok;
  }
  return fail(Error::NotSupported, value->producer(),
              "%" + value->name + " is complex; inputs and outputs of a method must be real: use torch.view_as_real");
}

Error PlanEmitter::add_step(const ir::Step& step) {
  if (step.kind == ir::Step::Kind::kMove) {
    ET_TRY(const int32_t from, index_of(step.from, step.node));
    ET_TRY(const int32_t to, value_index(const_cast<ir::Value*>(step.to), step.node));
    add_instruction(schema::InstructionArguments_MoveCall, schema::CreateMoveCall(builder_, from, to).Union(),
                    step.node);
    return Error::Ok;
  }
  const ir::Node& node = *step.node;
  if (node.op == "buffer") {
    // Also when only views of it are used: its own value says that this memory is state, and with which content it
    // begins.
    ET_TRY(const int32_t index, value_index(node.result(), &node));
    static_cast<void>(index);
    return Error::Ok;
  }
  if (node.op == "constant" || node.op == "alias") {
    return Error::Ok;  // only their values matter, when something uses them
  }
  return node.op == "delegate" ? add_delegate_call(node) : add_call(node);
}

Error PlanEmitter::add_call(const ir::Node& node) {
  const ops::OpInfo* op = ops::find_out(node.op);
  if (tables_.options.compatible && !ops::is_primitive(node.op) && (op == nullptr || !op->is_published)) {
    // Reported, and the walk goes on: the user learns of all such operators at once.
    static_cast<void>(fail(
        Error::NotSupported, &node,
        node.op + " is not among the published operators: delegate or decompose it, or leave compatible=True out"));
    return Error::Ok;
  }
  Args args;
  ET_RETURN_IF_ERROR(op != nullptr ? add_table_call(node, *op, args) : add_plain_call(node, args));
  add_kernel_call(node.op, args, node);
  return Error::Ok;
}

Error PlanEmitter::add_table_call(const ir::Node& node, const ops::OpInfo& op, Args& args) {
  Args outs;
  bool is_list = false;
  size_t next_arg = 0;
  size_t next_result = 0;
  for (const ops::Argument& parameter : op.out_arguments) {
    if (!parameter.is_out) {
      if (next_arg == node.args().size()) {
        return fail(Error::InvalidArgument, &node,
                    node.op + ": argument '" + std::string(parameter.name) + "' is missing");
      }
      ET_TRY(const int32_t index, index_of(node.args()[next_arg++], parameter, node));
      args.push_back(index);
      continue;
    }
    is_list = parameter.letter == 'v';
    const size_t count = is_list ? node.results().size() : 1;
    Args items;
    for (size_t i = 0; i < count; ++i, ++next_result) {
      if (next_result >= node.results().size()) {
        return fail(Error::InvalidArgument, &node,
                    node.op + ": a result for '" + std::string(parameter.name) + "' is missing");
      }
      ET_TRY(const int32_t index, value_index(node.result(next_result), &node));
      items.push_back(index);
    }
    const int32_t out = is_list ? values_.tensor_list(items) : items.front();
    args.push_back(out);
    outs.push_back(out);
  }
  if (next_arg != node.args().size()) {
    return fail(
        Error::InvalidArgument, &node,
        node.op + " takes " + std::to_string(next_arg) + " arguments, it has " + std::to_string(node.args().size()));
  }
  if (outs.empty()) {  // in place or symbolic: the result once
    for (const auto& result : node.results()) {
      ET_TRY(const int32_t index, value_index(result.get(), &node));
      args.push_back(index);
    }
    return Error::Ok;
  }
  if (outs.size() == 1) {
    args.push_back(outs.front());
  } else {
    args.push_back(values_.tensor_list(outs));
  }
  return Error::Ok;
}

/// An operator that is not in the table: the runtime's own (executorch_prim) or a user's, whose schema is not known
/// here.
Error PlanEmitter::add_plain_call(const ir::Node& node, Args& args) {
  const auto known = tables_.options.signatures.find(node.op);
  const std::string_view letters = known == tables_.options.signatures.end() ? std::string_view() : known->second;
  for (size_t i = 0; i < node.args().size(); ++i) {
    ops::Argument parameter = {};
    parameter.name = "argument of a custom operator";
    parameter.letter = i < letters.size() ? letters[i] : '?';
    ET_TRY(const int32_t index, index_of(node.args()[i], parameter, node));
    args.push_back(index);
  }
  Args results;
  for (const auto& result : node.results()) {
    ET_TRY(const int32_t index, value_index(result.get(), &node));
    results.push_back(index);
  }
  args.insert(args.end(), results.begin(), results.end());
  if (ops::is_primitive(node.op) || results.empty()) {
    return Error::Ok;
  }
  args.push_back(results.size() == 1 ? results.front() : values_.tensor_list(results));
  return Error::Ok;
}

Error PlanEmitter::add_delegate_call(const ir::Node& node) {
  char* end = nullptr;
  const size_t number = std::strtoull(node.symbol.c_str(), &end, 10);
  if (node.symbol.empty() || *end != '\0' || number >= tables_.program.delegates.size()) {
    return fail(Error::InvalidArgument, &node, "there is no delegate '" + node.symbol + "'");
  }
  const auto [entry, is_new] = delegate_indices_.emplace(number, static_cast<int32_t>(delegates_.size()));
  if (is_new) {
    const ir::Delegate& delegate = tables_.program.delegates[number];
    std::vector<Offset<schema::CompileSpec>> specs;
    for (const ir::Delegate::CompileSpec& spec : delegate.compile_specs) {
      const std::vector<uint8_t> value(spec.value.begin(), spec.value.end());
      specs.push_back(
          schema::CreateCompileSpec(builder_, builder_.CreateSharedString(spec.key), tables_.vectors.add(value)));
    }
    const auto processed = add_payload(delegate.payload);
    delegates_.push_back(schema::CreateBackendDelegate(builder_, builder_.CreateSharedString(delegate.backend_id),
                                                       processed, builder_.CreateVector(specs)));
  }
  Args args;
  for (const ir::Argument& argument : node.args()) {
    const auto* list = argument.as<ir::Argument::List>();
    const ir::Argument::List one{argument};
    for (const ir::Argument& item : list != nullptr ? *list : one) {
      ET_TRY(const int32_t index, index_of(item, &node));
      args.push_back(index);
    }
  }
  for (const auto& result : node.results()) {
    ET_TRY(const int32_t index, value_index(result.get(), &node));
    args.push_back(index);
  }
  add_instruction(schema::InstructionArguments_DelegateCall,
                  schema::CreateDelegateCallDirect(builder_, entry->second, &args).Union(), &node);
  return Error::Ok;
}

Offset<schema::BackendDelegateDataReference> PlanEmitter::add_payload(const std::string& payload) {
  if (!tables_.options.inline_payloads) {
    const uint32_t segment = tables_.first_payload + tables_.payloads.add_shared(payload.data(), payload.size());
    return schema::CreateBackendDelegateDataReference(builder_, schema::DataLocation_SEGMENT, segment);
  }
  const auto next = static_cast<uint32_t>(tables_.inline_payloads.size());
  const uint32_t index = tables_.inline_index.find_or_add(payload.data(), payload.size(), next);
  if (index == next) {
    const std::vector<uint8_t> bytes(payload.begin(), payload.end());
    tables_.inline_payloads.push_back(schema::CreateBackendDelegateInlineDataDirect(builder_, &bytes));
  }
  return schema::CreateBackendDelegateDataReference(builder_, schema::DataLocation_INLINE, index);
}

void PlanEmitter::add_kernel_call(std::string_view op_name, const Args& args, const ir::Node& node) {
  add_instruction(schema::InstructionArguments_KernelCall,
                  schema::CreateKernelCallDirect(builder_, operator_index(op_name), &args).Union(), &node);
}

void PlanEmitter::add_instruction(schema::InstructionArguments type, Offset<void> arguments, const ir::Node* origin) {
  // A jump's place is kept with an empty offset until its destination is known.
  instructions_.push_back(type == schema::InstructionArguments_NONE
                              ? Offset<schema::Instruction>()
                              : schema::CreateInstruction(builder_, type, arguments));
  origins_.push_back(origin);
}

/// `name` must live as long as the emitter: it is a node's.
int32_t PlanEmitter::operator_index(std::string_view name) {
  const auto [entry, is_new] = operator_indices_.emplace(name, static_cast<int32_t>(operators_.size()));
  if (is_new) {
    const OperatorName parts(name);
    operators_.push_back(schema::CreateOperator(builder_, builder_.CreateSharedString(parts.name),
                                                builder_.CreateSharedString(parts.overload)));
  }
  return entry->second;
}

}  // namespace et::emit
