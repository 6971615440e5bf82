// pte_dump: a .pte as text, for people and for diffs. It is verified first; a damaged file is refused as at load.
#include <cinttypes>
#include <cstdio>
#include <optional>
#include <string>

#include "runtime/debug_info.h"
#include "runtime/host/mmap_loader.h"
#include "runtime/platform.h"
#include "runtime/program.h"
#include "runtime/program_verifier.h"

namespace et::tools {
namespace {

namespace fb = schema;
using runtime::count;
using runtime::span;
using runtime::view;

std::string text(const flatbuffers::String* string) { return std::string(view(string)); }

template <typename T>
std::string list(Span<const T> items) {
  std::string out = "[";
  for (size_t i = 0; i < items.size(); ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(items[i]);
  }
  return out + "]";
}

std::string describe(const fb::Tensor& tensor) {
  static constexpr const char* kDynamism[] = {"", " bound", " unbound"};
  std::string out = std::string(short_name(static_cast<ScalarType>(tensor.scalar_type()))) + list(span(tensor.sizes()));
  if (!runtime::is_contiguous_dim_order(span(tensor.dim_order()))) {
    out += " dim_order " + list(span(tensor.dim_order()));
  }
  out += kDynamism[tensor.shape_dynamism()];
  if (tensor.allocation_info() != nullptr) {
    out += " at memory " + std::to_string(tensor.allocation_info()->memory_id()) + "+" +
           std::to_string(runtime::allocation_offset(*tensor.allocation_info()));
  }
  if (runtime::is_external(tensor)) {
    out += " external";
  } else if (tensor.data_buffer_idx() != 0) {
    out += (tensor.allocation_info() == nullptr ? " constant " : " initial value ") +
           std::to_string(tensor.data_buffer_idx());
  }
  if (tensor.extra_tensor_info() != nullptr && tensor.extra_tensor_info()->fully_qualified_name() != nullptr) {
    out += " '" + text(tensor.extra_tensor_info()->fully_qualified_name()) + "'";
  }
  return out;
}

std::string describe(const fb::EValue& value) {
  switch (value.val_type()) {
    case fb::KernelTypes_Int: return "int " + std::to_string(value.val_as_Int()->int_val());
    case fb::KernelTypes_Bool: return value.val_as_Bool()->bool_val() ? "bool true" : "bool false";
    case fb::KernelTypes_Double: return "double " + std::to_string(value.val_as_Double()->double_val());
    case fb::KernelTypes_Tensor: return "tensor " + describe(*value.val_as_Tensor());
    case fb::KernelTypes_String: return "string '" + text(value.val_as_String()->string_val()) + "'";
    case fb::KernelTypes_IntList: return "ints of values " + list(span(value.val_as_IntList()->items()));
    case fb::KernelTypes_DoubleList: return "doubles " + list(span(value.val_as_DoubleList()->items()));
    case fb::KernelTypes_BoolList: return "bools " + list(span(value.val_as_BoolList()->items()));
    case fb::KernelTypes_TensorList: return "tensors " + list(span(value.val_as_TensorList()->items()));
    case fb::KernelTypes_OptionalTensorList:
      return "optional tensors " + list(span(value.val_as_OptionalTensorList()->items()));
    default: return "none";
  }
}

std::string describe(const fb::Instruction& instruction, const fb::ExecutionPlan& plan) {
  if (const auto* call = instruction.instr_args_as_KernelCall()) {
    const fb::Operator* op = plan.operators()->Get(static_cast<uint32_t>(call->op_index()));
    const std::string overload = text(op->overload());
    return "call " + text(op->name()) + (overload.empty() ? "" : "." + overload) + " " + list(span(call->args()));
  }
  if (const auto* call = instruction.instr_args_as_DelegateCall()) {
    return "delegate " + std::to_string(call->delegate_index()) + " " + list(span(call->args()));
  }
  if (const auto* call = instruction.instr_args_as_MoveCall()) {
    return "move " + std::to_string(call->move_from()) + " -> " + std::to_string(call->move_to());
  }
  if (const auto* call = instruction.instr_args_as_JumpFalseCall()) {
    return "jump to " + std::to_string(call->destination_instruction()) + " unless " +
           std::to_string(call->cond_value_index());
  }
  return "free " + std::to_string(instruction.instr_args_as_FreeCall()->value_index());
}

/// "  // linear (encoder.layer.0), model.py:12", from the debug entry.
std::string where(const runtime::InstructionOrigin& origin) {
  std::string out = "  // " + std::string(origin.op);
  out += origin.module_path.empty() ? "" : " (" + std::string(origin.module_path) + ")";
  return out + (origin.file.empty() ? "" : ", " + std::string(origin.file) + ":" + std::to_string(origin.line));
}

void print_plan(const fb::ExecutionPlan& plan, const fb::debug::DebugInfo* debug) {
  std::printf("\nmethod %s\n  inputs %s, outputs %s, planned buffers %s\n", plan.name()->c_str(),
              list(span(plan.inputs())).c_str(), list(span(plan.outputs())).c_str(),
              list(span(plan.non_const_buffer_sizes())).c_str());
  if (plan.container_meta_type() != nullptr) {
    std::printf("  input structure %s\n  output structure %s\n",
                text(plan.container_meta_type()->encoded_inp_str()).c_str(),
                text(plan.container_meta_type()->encoded_out_str()).c_str());
  }
  for (uint32_t i = 0; i < count(plan.values()); ++i) {
    std::printf("  %%%-4u %s\n", i, describe(*plan.values()->Get(i)).c_str());
  }
  for (uint32_t i = 0; i < count(plan.delegates()); ++i) {
    const fb::BackendDelegate* delegate = plan.delegates()->Get(i);
    std::printf("  delegate %u: %s, payload in %s %u, %u compile specs\n", i, delegate->id()->c_str(),
                delegate->processed()->location() == fb::DataLocation_INLINE ? "table" : "segment",
                delegate->processed()->index(), count(delegate->compile_specs()));
  }
  const fb::debug::MethodInfo* info = nullptr;
  for (uint32_t i = 0; debug != nullptr && i < count(debug->methods()); ++i) {
    info = view(debug->methods()->Get(i)->name()) == view(plan.name()) ? debug->methods()->Get(i) : info;
  }
  std::optional<runtime::OriginReader> origins;
  if (info != nullptr) {
    origins.emplace(*debug, *info);
  }
  const fb::Chain* chain = count(plan.chains()) == 0 ? nullptr : plan.chains()->Get(0);
  for (uint32_t i = 0; chain != nullptr && i < count(chain->instructions()); ++i) {
    std::printf("  %4u: %s%s\n", i, describe(*chain->instructions()->Get(i), plan).c_str(),
                origins ? where(origins->next()).c_str() : "");
  }
}

Error dump(const char* path) {
  ET_TRY(const std::unique_ptr<runtime::MmapLoader> loader, runtime::MmapLoader::open(path));
  ET_TRY(const runtime::Program program, runtime::Program::load(loader.get()));
  ET_TRY(const runtime::FreeableBuffer bytes, loader->load(0, loader->size()));
  ET_TRY(const fb::FileLayout layout, fb::parse_pte_header({bytes.data(), bytes.size()}, bytes.size()));
  const fb::Program& tables = *fb::GetProgram(bytes.data());
  std::printf("%s: %zu bytes; tables %" PRIu64 ", segments %" PRIu64 " at %" PRIu64 "; %u methods\n", path,
              bytes.size(), layout.flatbuffer_size, layout.segment_data_size, layout.segment_base_offset,
              count(tables.execution_plan()));
  for (uint32_t i = 0; i < count(tables.segments()); ++i) {
    std::printf("segment %u: %" PRIu64 " bytes at %" PRIu64 "\n", i, tables.segments()->Get(i)->size(),
                layout.segment_base_offset + tables.segments()->Get(i)->offset());
  }
  if (tables.constant_segment() != nullptr && count(tables.constant_segment()->offsets()) > 1) {
    std::printf("constants: %u in segment %u\n", count(tables.constant_segment()->offsets()) - 1,
                tables.constant_segment()->segment_index());
  }
  for (uint32_t i = 0; i < count(tables.named_data()); ++i) {
    const fb::NamedData* entry = tables.named_data()->Get(i);
    std::printf("named data '%s': segment %u\n", entry->key()->c_str(), entry->segment_index());
  }
  runtime::FreeableBuffer debug_bytes;
  const fb::debug::DebugInfo* debug = nullptr;
  if (program.named_data().find("executorch_py.debug", nullptr)) {
    ET_TRY(debug_bytes, program.named_data().get("executorch_py.debug"));
    debug = fb::debug::GetDebugInfo(debug_bytes.data());
  }
  for (uint32_t i = 0; i < count(tables.execution_plan()); ++i) {
    print_plan(*tables.execution_plan()->Get(i), debug);
  }
  return Error::Ok;
}

}  // namespace
}  // namespace et::tools

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: pte_dump FILE.pte\n");
    return 2;
  }
  et::runtime::platform_install_log();
  return et::tools::dump(argv[1]) == et::Error::Ok ? 0 : 1;
}
