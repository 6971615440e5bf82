// What a program says beyond its instructions: debug information, relations of shapes, which memory is state.
#include "runtime/debug_info.h"
#include "runtime/program_verifier.h"
#include "runtime/tracing.h"

namespace et::runtime {
namespace {

namespace fb = schema;

uint32_t num_instructions(const fb::ExecutionPlan& plan) {
  return count(plan.chains()) == 0 ? 0 : count(plan.chains()->Get(0)->instructions());
}

Error verify_relations(const char* method, const fb::ExecutionPlan& plan,
                       Span<const fb::shapes::SizeRelation> relations, Span<const int32_t> values, size_t num_symbols,
                       const char* what) {
  ET_CHECK_OR_RETURN(is_aligned(relations), InvalidProgram, "executorch_py.shapes: %s of '%s' are not aligned", what,
                     method);
  for (size_t i = 0; i < relations.size(); ++i) {
    const fb::shapes::SizeRelation& r = relations[i];
    bool fits = r.value() < values.size() && r.symbol() < num_symbols && r.scale() >= 1;
    if (fits) {
      const fb::EValue* value = plan.values()->Get(static_cast<uint32_t>(values[r.value()]));
      const fb::Tensor* tensor = value->val_as_Tensor();
      fits = tensor != nullptr ? r.dim() >= 0 && static_cast<uint32_t>(r.dim()) < count(tensor->sizes())
                               : r.dim() == -1 && value->val_type() == fb::KernelTypes_Int;
    }
    ET_CHECK_OR_RETURN(fits, InvalidProgram,
                       "executorch_py.shapes: relation %zu of the %s of '%s' names no value, dimension or symbol", i,
                       what, method);
  }
  return Error::Ok;
}

Error verify_names(const char* method, const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* names,
                   size_t expected, const char* what, WorkBudget* budget) {
  bool good = names == nullptr || names->size() == expected;
  for (uint32_t i = 0; good && i < count(names); ++i) {
    good = budget->is_text(names->Get(i));
  }
  ET_CHECK_OR_RETURN(good, InvalidProgram, "executorch_py.shapes: names of the %s of '%s' are not UTF-8 or not %zu",
                     what, method, expected);
  return Error::Ok;
}

/// A tensor of `plan` that lies in memory `id`, or nullptr.
const fb::Tensor* tensor_in(const fb::ExecutionPlan& plan, uint32_t index, uint32_t id) {
  const fb::Tensor* tensor = plan.values()->Get(index)->val_as_Tensor();
  return tensor != nullptr && tensor->allocation_info() != nullptr && tensor->allocation_info()->memory_id() == id
             ? tensor
             : nullptr;
}

bool has_name(const fb::Tensor& tensor) {
  return tensor.extra_tensor_info() != nullptr && count(tensor.extra_tensor_info()->fully_qualified_name()) > 0;
}

enum class Use : uint8_t { kNone, kNamed, kUnnamed, kMixed };

/// How `plan` uses memory `id`: only for tensors that lie inside named ones, only for unnamed ones, for both, not at
/// all. Looks at no more than `*budget` pairs of tensors; beyond it the answer is kMixed.
Use use_of_memory(const fb::ExecutionPlan& plan, uint32_t id, uint64_t* budget) {
  bool any_named = false;
  bool any_unnamed = false;
  const uint32_t num_values = count(plan.values());
  for (uint32_t i = 0; i < num_values; ++i) {
    const fb::Tensor* tensor = tensor_in(plan, i, id);
    if (tensor != nullptr) {
      (has_name(*tensor) ? any_named : any_unnamed) = true;
    }
  }
  if (!any_named || !any_unnamed) {
    return any_named ? Use::kNamed : any_unnamed ? Use::kUnnamed : Use::kNone;
  }
  for (uint32_t i = 0; i < num_values; ++i) {
    const fb::Tensor* tensor = tensor_in(plan, i, id);
    if (tensor == nullptr || has_name(*tensor)) {
      continue;
    }
    const uint64_t begin = allocation_offset(*tensor->allocation_info());
    const uint64_t end = begin + tensor_nbytes(*tensor);
    bool inside = false;
    for (uint32_t k = 0; k < num_values && !inside; ++k) {
      if (*budget == 0) {
        return Use::kMixed;
      }
      --*budget;
      const fb::Tensor* root = tensor_in(plan, k, id);
      if (root != nullptr && has_name(*root)) {
        const uint64_t start = allocation_offset(*root->allocation_info());
        inside = start <= begin && end <= start + tensor_nbytes(*root);
      }
    }
    if (!inside) {
      return Use::kMixed;
    }
  }
  return Use::kNamed;
}

}  // namespace

const fb::ExecutionPlan* find_plan(const fb::Program& program, std::string_view name, size_t* index) {
  for (uint32_t i = 0; i < count(program.execution_plan()); ++i) {
    const fb::ExecutionPlan* plan = program.execution_plan()->Get(i);
    if (view(plan->name()) == name) {
      *index = i;
      return plan;
    }
  }
  return nullptr;
}

namespace {

/// What the debug information says of a method's delegates: in rising order, each step with an origin.
Error verify_delegates(const fb::debug::DebugInfo& debug, const fb::debug::MethodInfo& method,
                       uint32_t num_instructions, WorkBudget& budget) {
  int64_t last_instruction = -1;
  for (uint32_t i = 0; i < count(method.delegates()); ++i) {
    const fb::debug::DelegateInfo& delegate = *method.delegates()->Get(i);
    ET_CHECK_OR_RETURN(
        delegate.instruction() > last_instruction && delegate.instruction() < num_instructions, InvalidProgram,
        "executorch_py.debug: a delegate's instruction %u does not exist, or is told twice", delegate.instruction());
    last_instruction = delegate.instruction();
    ET_RETURN_IF_ERROR(budget.spend(uint64_t{count(delegate.ids())} + count(delegate.origins())));
    OriginReader origins(debug, delegate);
    uint32_t fields[kNumOriginFields];
    bool is_right = is_aligned(span(delegate.ids()));
    for (uint32_t k = 0; is_right && k < count(delegate.ids()); ++k) {
      is_right = origins.read(fields) && (k == 0 || delegate.ids()->Get(k) > delegate.ids()->Get(k - 1));
    }
    ET_CHECK_OR_RETURN(is_right && origins.is_at_end(), InvalidProgram,
                       "executorch_py.debug: the steps of the delegate at instruction %u are not well-formed",
                       delegate.instruction());
  }
  return Error::Ok;
}

}  // namespace

Error verify_debug_info(const fb::debug::DebugInfo& debug, size_t nbytes, const fb::Program& program) {
  WorkBudget budget(nbytes);
  ET_CHECK_OR_RETURN(debug.version() <= 1, InvalidProgram,
                     "executorch_py.debug has version %u, this runtime reads 0 and 1", debug.version());
  for (uint32_t i = 0; i < count(debug.strings()); ++i) {
    ET_CHECK_OR_RETURN(budget.is_text(debug.strings()->Get(i)), InvalidProgram,
                       "executorch_py.debug: string %u is not UTF-8", i);
  }
  ET_CHECK_OR_RETURN(count(debug.methods()) <= count(program.execution_plan()), InvalidProgram,
                     "executorch_py.debug describes %u methods, the program has %u", count(debug.methods()),
                     count(program.execution_plan()));
  for (uint32_t m = 0; m < count(debug.methods()); ++m) {
    const fb::debug::MethodInfo* method = debug.methods()->Get(m);
    size_t index = 0;
    const fb::ExecutionPlan* plan = find_plan(program, view(method->name()), &index);
    ET_RETURN_IF_ERROR(budget.spend(uint64_t{count(method->instructions())} + count(method->origins())));
    ET_CHECK_OR_RETURN(plan != nullptr, InvalidProgram, "executorch_py.debug: method %u does not exist", m);
    OriginReader origins(debug, *method);
    uint32_t fields[kNumOriginFields];
    for (uint32_t i = num_instructions(*plan); i > 0; --i) {
      ET_CHECK_OR_RETURN(
          origins.read(fields), InvalidProgram,
          "executorch_py.debug: method %u has another number of instructions, or an entry names no string "
          "or handle",
          m);
    }
    ET_CHECK_OR_RETURN(origins.is_at_end(), InvalidProgram,
                       "executorch_py.debug: method %u has another number of instructions", m);
    if (kTraces) {
      ET_RETURN_IF_ERROR(verify_delegates(debug, *method, num_instructions(*plan), budget));
    }
  }
  return Error::Ok;
}

Error verify_shapes(const fb::shapes::Shapes& shapes, size_t nbytes, const fb::Program& program) {
  WorkBudget budget(nbytes);
  ET_CHECK_OR_RETURN(shapes.version() == 0, InvalidProgram, "executorch_py.shapes has version %u, this runtime reads 0",
                     shapes.version());
  ET_CHECK_OR_RETURN(count(shapes.methods()) <= count(program.execution_plan()), InvalidProgram,
                     "executorch_py.shapes describes %u methods, the program has %u", count(shapes.methods()),
                     count(program.execution_plan()));
  for (uint32_t m = 0; m < count(shapes.methods()); ++m) {
    const fb::shapes::MethodShapes* method = shapes.methods()->Get(m);
    size_t index = 0;
    const fb::ExecutionPlan* plan = find_plan(program, view(method->name()), &index);
    ET_CHECK_OR_RETURN(plan != nullptr, InvalidProgram, "executorch_py.shapes: method %u does not exist", m);
    const char* name = method->name()->c_str();
    const uint32_t num_symbols = count(method->symbols());
    ET_RETURN_IF_ERROR(budget.spend(uint64_t{count(method->inputs())} + count(method->outputs())));
    for (uint32_t i = 0; i < num_symbols; ++i) {
      const fb::shapes::Symbol* symbol = method->symbols()->Get(i);
      ET_CHECK_OR_RETURN(budget.is_text(symbol->name()) && symbol->lower() >= 0 && symbol->lower() <= symbol->upper(),
                         InvalidProgram, "executorch_py.shapes: symbol %u of '%s' has a bad name or bounds", i, name);
    }
    const Span<const int32_t> inputs = span(plan->inputs());
    const Span<const int32_t> outputs = span(plan->outputs());
    ET_RETURN_IF_ERROR(verify_relations(name, *plan, span(method->inputs()), inputs, num_symbols, "inputs"));
    ET_RETURN_IF_ERROR(verify_relations(name, *plan, span(method->outputs()), outputs, num_symbols, "outputs"));
    ET_RETURN_IF_ERROR(verify_names(name, method->input_names(), inputs.size(), "inputs", &budget));
    ET_RETURN_IF_ERROR(verify_names(name, method->output_names(), outputs.size(), "outputs", &budget));
  }
  return Error::Ok;
}

uint64_t find_state_memory(const fb::Program& program) {
  uint64_t result = 0;
  uint64_t budget = 1u << 20;
  const uint32_t num_plans = count(program.execution_plan());
  uint32_t num_ids = 0;
  for (uint32_t p = 0; p < num_plans; ++p) {
    const uint32_t n = count(program.execution_plan()->Get(p)->non_const_buffer_sizes());
    num_ids = n > num_ids ? n : num_ids;
  }
  for (uint32_t id = 1; id < num_ids && id < 64; ++id) {
    uint32_t users[4] = {0, 0, 0, 0};
    bool equal_sizes = true;
    int64_t size = -1;
    for (uint32_t p = 0; p < num_plans; ++p) {
      const fb::ExecutionPlan& plan = *program.execution_plan()->Get(p);
      const Use use = use_of_memory(plan, id, &budget);
      ++users[static_cast<size_t>(use)];
      if (use != Use::kNone) {
        const int64_t here = span(plan.non_const_buffer_sizes())[id];
        equal_sizes = equal_sizes && (size == -1 || size == here);
        size = here;
      }
    }
    const uint32_t named = users[static_cast<size_t>(Use::kNamed)];
    const uint32_t unnamed = users[static_cast<size_t>(Use::kUnnamed)];
    const bool all_named = named > 0 && unnamed == 0;
    // Files of the official exporter with shared buffers name none of them, but agree on memory id 2.
    const bool official = id == 2 && named == 0 && unnamed > 1 && equal_sizes;
    if (users[static_cast<size_t>(Use::kMixed)] == 0 && (all_named || official)) {
      result |= uint64_t{1} << id;
    }
  }
  return result;
}

}  // namespace et::runtime
