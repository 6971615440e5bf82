#include "runtime/method.h"

#include <cstdarg>
#include <cstring>

#include "base/checked_math.h"
#include "base/format.h"
#include "runtime/method_loader.h"
#include "runtime/method_state.h"
#include "runtime/program_verifier.h"

namespace et::runtime {

namespace fb = schema;

Result<Method> Program::load_method(std::string_view name, const MemoryManager* memory,
                                    const MethodOptions& options) const {
  return MethodLoader::load(*this, name, *memory, options);
}

Method::~Method() {
  if (state_ == nullptr) {
    return;
  }
  for (size_t i = 0; i < state_->num_prepared; ++i) {
    const Instruction& instruction = state_->instructions[i];
    if (instruction.kind == Instruction::Kind::kKernel && instruction.state != nullptr &&
        instruction.kernel->destroy != nullptr) {
      instruction.kernel->destroy(instruction.state);
    }
  }
  for (DelegateState& delegate : has(Feature::kDelegates) ? state_->delegates : Span<DelegateState>()) {
    if (delegate.is_initialized) {
      delegate.backend->destroy(delegate.handle);
    }
    delegate.~DelegateState();
  }
  for (FreeableBuffer& buffer : state_->external_buffers) {
    buffer.~FreeableBuffer();
  }
  state_->~State();
}

MethodMeta Method::meta() const { return state_->meta; }
size_t Method::num_inputs() const { return state_->inputs.size(); }
size_t Method::num_outputs() const { return state_->outputs.size(); }
bool Method::writes_input(size_t i) const { return state_->inputs[i].is_written(); }
const FailureLocation& Method::failure() const { return state_->failure; }

const Kernel* Method::kernel(size_t i) const { return state_->instructions[i].kernel; }
void Method::cancel() { state_->is_cancelled.store(true, std::memory_order_relaxed); }

namespace {

/// The upper bound of a size, as a message says it.
struct UpperBound {
  char text[24] = "infinity";

  explicit UpperBound(int64_t bound) {
    if (bound != INT64_MAX) {
      format_text(text, sizeof(text), "%" PRId64, bound);
    }
  }
};

#ifdef ET_STRIP_MESSAGES
#define ET_CHECK_INPUT(condition, meta, i, code, ...) \
  do {                                                \
    static_cast<void>(i);                             \
    ET_CHECK_OR_RETURN(condition, code, __VA_ARGS__); \
  } while (false)
#else
/// ET_CHECK_OR_RETURN for input `i`: the message begins with "input 2 ('x'): ".
#define ET_CHECK_INPUT(condition, meta, i, code, ...)                    \
  do {                                                                   \
    if (__builtin_expect(!(condition), 0)) {                             \
      return refuse_input(meta, i, ET_LINE_AND_CODE(code), __VA_ARGS__); \
    }                                                                    \
  } while (false)

__attribute__((cold, noinline, format(printf, 4, 5))) Error refuse_input(const MethodMeta& meta, size_t i,
                                                                         uint32_t line_and_code, const char* format,
                                                                         ...) {
  char text[320];
  va_list arguments;
  va_start(arguments, format);
  format_arguments(text, sizeof(text), format, arguments);
  va_end(arguments);
  const std::string_view name = meta.input_name(i);
  return et::detail::log_error(ET_FILE_NAME, line_and_code,
                               name.empty() ? "input %zu%.*s: %s" : "input %zu ('%.*s'): %s", i,
                               static_cast<int>(name.size()), name.data(), text);
}
#endif

/// True when both orders lay out these sizes in the same way: dimensions of size 1 may stand anywhere.
bool same_layout(IntArrayRef sizes, Span<const uint8_t> a, Span<const uint8_t> b) {
  size_t j = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (sizes[a[i]] == 1) {
      continue;
    }
    while (j < b.size() && sizes[b[j]] == 1) {
      ++j;
    }
    if (j == b.size() || a[i] != b[j++]) {
      return false;
    }
  }
  return true;
}

/// A number or string that the program fixed when it was exported.
bool same_constant(const EValue& a, const EValue& b) {
  if (a.is_number() && b.is_number()) {
    if (!a.is_double() && !b.is_double()) {
      return a.number_as_int() == b.number_as_int();
    }
    const double x = a.number_as_double();
    const double y = b.number_as_double();
    return bits_of(x) == bits_of(y) || (is_zero(x) && is_zero(y)) || (is_nan(x) && is_nan(y));
  }
  return a.tag() == b.tag() && (a.is_none() || (a.is_string() && a.to_string_view() == b.to_string_view()));
}

/// Checks a tensor against the input it is for, and gives its bytes to it.
Error set_tensor_input(const MethodMeta& meta, InputSlot& slot, const Tensor& given, size_t i) {
  TensorImpl* own = slot.value->to_tensor().unsafe_impl();
  const TensorImpl* impl = given.unsafe_impl();
  ET_CHECK_INPUT(impl != nullptr, meta, i, InvalidArgument, "the tensor is undefined");
  ET_CHECK_INPUT(impl->dtype() == own->dtype(), meta, i, InvalidType,
                 "dtype %s was given, the method takes %s; convert it first", to_string(impl->dtype()),
                 to_string(own->dtype()));
  ET_CHECK_INPUT(impl->dim() == own->dim(), meta, i, InvalidArgument, "rank %zu was given, the method takes rank %zu",
                 impl->dim(), own->dim());
  ET_TRY(const TensorInfo info, meta.input_tensor_info(i));
  for (size_t d = 0; d < impl->dim(); ++d) {
    const int64_t size = impl->sizes()[d];
    const bool is_dynamic = has(Feature::kDynamicShapes) && (slot.dynamic_dims >> d & 1) != 0;
    // Sizes without an upper bound are looked at when all inputs are there (check_shapes).
    const bool fits =
        is_dynamic ? size >= 0 && (size <= info.sizes[d] || own->dynamism() == TensorShapeDynamism::kDynamicUnbound)
                   : size == info.sizes[d];
    if (!fits && !kHasMessages) {
      return Error::InvalidArgument;
    }
    if (!fits) {
      const SizeBounds bounds = meta.input_bounds(i, d);
      ET_CHECK_INPUT(!is_dynamic, meta, i, InvalidArgument,
                     "size %" PRId64 " of dimension %zu was given, the method was exported for %" PRId64 " to %s", size,
                     d, bounds.lower, UpperBound(bounds.upper).text);
      ET_CHECK_INPUT(false, meta, i, InvalidArgument,
                     "size %" PRId64 " of dimension %zu was given, the method takes %d", size, d, info.sizes[d]);
    }
  }
  ET_CHECK_INPUT(same_layout(impl->sizes(), impl->dim_order(), own->dim_order()), meta, i, InvalidArgument,
                 "its dimensions lie in another order in memory than the method was exported for; make "
                 "it contiguous (or channels-last) first");
  ET_CHECK_INPUT(impl->data() != nullptr || impl->numel() == 0, meta, i, InvalidArgument, "the tensor has no memory");
  ET_CHECK_INPUT(slot.binding != InputSlot::Binding::kCopiedBack || !impl->read_only(), meta, i, InvalidArgument,
                 "the method writes to it, but the tensor is read-only");
  if (!slot.is_copied()) {  // the capacity first: sizes may have grown since the last call
    own->set_data(impl->data(), impl->nbytes());
    own->set_read_only(impl->read_only());
  }
  ET_RETURN_IF_ERROR(own->resize(impl->sizes()));
  if (slot.is_copied()) {
    if (impl->numel() > 0) {
      std::memcpy(own->data(), impl->data(), impl->nbytes());
    }
    slot.memory = impl->data();
  }
  slot.is_set = true;
  return Error::Ok;
}

}  // namespace

Error Method::set_input(const EValue& value, size_t i) {
  State& state = *state_;
  ET_CHECK_OR_RETURN(i < state.inputs.size(), InvalidArgument, "input %zu: method '%s' takes %zu inputs", i,
                     state.plan->name()->c_str(), state.inputs.size());
  ET_CHECK_OR_RETURN(!state.is_running.load(std::memory_order_relaxed) && !state.is_stepping, InvalidState,
                     "input %zu: the method is running", i);
  state.restore();
  InputSlot& slot = state.inputs[i];
  EValue& own = *slot.value;
  if (own.is_tensor()) {
    ET_CHECK_INPUT(value.is_tensor(), state.meta, i, InvalidType, "%s was given, the method takes Tensor",
                   to_string(value.tag()));
    const TensorImpl* given = value.to_tensor().unsafe_impl();
    const bool is_borrowed = !slot.is_copied() && given != nullptr && given->numel() > 0;
    ET_CHECK_INPUT(!is_borrowed || !state.is_own_memory(given->data()), state.meta, i, InvalidArgument,
                   "the tensor lies in memory that the method uses itself, as its outputs may; copy it first");
    return set_tensor_input(state.meta, slot, value.to_tensor(), i);
  }
  ET_CHECK_INPUT((value.is_number() && own.is_number()) || value.tag() == own.tag(), state.meta, i, InvalidType,
                 "%s was given, the method takes %s", to_string(value.tag()), to_string(own.tag()));
  if (slot.binding == InputSlot::Binding::kConstant) {
    ET_CHECK_INPUT(same_constant(own, value), state.meta, i, InvalidArgument,
                   "the value differs from the one the method was exported with, which became part of it; "
                   "pass the same value or export again");
  } else if (own.is_int()) {
    ET_CHECK_INPUT(!value.is_double(), state.meta, i, InvalidType, "Double was given, the method takes Int");
    own = EValue(value.number_as_int());
  } else {
    own = own.is_double() ? EValue(value.number_as_double()) : EValue(value.number_as_bool());
  }
  slot.is_set = true;
  return Error::Ok;
}

Error Method::set_inputs(Span<const EValue> values) {
  ET_CHECK_OR_RETURN(values.size() == num_inputs(), InvalidArgument, "%zu inputs were given, method '%s' takes %zu",
                     values.size(), state_->plan->name()->c_str(), num_inputs());
  for (size_t i = 0; i < values.size(); ++i) {
    ET_RETURN_IF_ERROR(set_input(values[i], i));
  }
  return Error::Ok;
}

Error Method::set_output_data_ptr(void* data, size_t nbytes, size_t i) {
  State& state = *state_;
  ET_CHECK_OR_RETURN(i < state.outputs.size() && state.outputs[i].tensor != nullptr, InvalidArgument,
                     "output %zu of method '%s' does not exist or is no tensor; there are %zu outputs", i,
                     state.plan->name()->c_str(), state.outputs.size());
  ET_CHECK_OR_RETURN(!state.is_running.load(std::memory_order_relaxed) && !state.is_stepping, InvalidState,
                     "output %zu: the method is running", i);
  OutputSlot& slot = state.outputs[i];
  const size_t alignment = element_size(slot.tensor->dtype());
  ET_CHECK_OR_RETURN(reinterpret_cast<uintptr_t>(data) % alignment == 0, InvalidArgument,
                     "output %zu: the memory given is not aligned to %zu bytes", i, alignment);
  slot.caller_data = data;
  slot.caller_nbytes = data == nullptr ? 0 : nbytes;
  return Error::Ok;
}

const EValue& Method::get_input(size_t i) const {
  ET_DCHECK(i < num_inputs());
  return *state_->inputs[i].value;
}

const EValue& Method::get_output(size_t i) const {
  ET_DCHECK(i < num_outputs());
  return *state_->outputs[i].value;
}

const EValue* Method::find_attribute(size_t skipped, std::string_view* name, size_t* found) const {
  *found = 0;
  for (uint32_t i = 0; i < state_->values.size(); ++i) {
    const fb::Tensor* tensor = state_->plan->values()->Get(i)->val_as_Tensor();
    if (tensor == nullptr || tensor->allocation_info() == nullptr || tensor->extra_tensor_info() == nullptr ||
        count(tensor->extra_tensor_info()->fully_qualified_name()) == 0) {
      continue;
    }
    if ((*found)++ == skipped) {
      *name = view(tensor->extra_tensor_info()->fully_qualified_name());
      return &state_->values[i];
    }
  }
  return nullptr;
}

size_t Method::num_attributes() const {
  std::string_view name;
  size_t found;
  static_cast<void>(find_attribute(SIZE_MAX, &name, &found));
  return found;
}

Method::Attribute Method::attribute(size_t i) const {
  Attribute attribute;
  size_t found;
  const EValue* const value = find_attribute(i, &attribute.name, &found);
  ET_DCHECK(value != nullptr);
  attribute.tensor = value->to_tensor();
  return attribute;
}

Error Method::reset_state() {
  ET_CHECK_OR_RETURN(!state_->is_running.exchange(true, std::memory_order_acquire), InvalidState,
                     "the method is running; reset its state when it is done");
  Error error = state_->write_own_initial_values();
  state_->is_running.store(false, std::memory_order_release);
  if (error == Error::Ok && state_->options.session != nullptr) {
    error = state_->options.session->reset();
  }
  return error;
}

Error Method::State::write_own_initial_values() {
  // First zeros where the file says nothing, then values: an alias of a buffer may say nothing about it.
  for (const bool with_values : {false, true}) {
    for (uint32_t i = 0; i < values.size(); ++i) {
      const fb::Tensor* tensor = plan->values()->Get(i)->val_as_Tensor();
      if (tensor == nullptr || tensor->allocation_info() == nullptr) {
        continue;
      }
      const uint32_t id = tensor->allocation_info()->memory_id();
      const bool is_state = program->is_state_memory(id);
      if (is_state && options.session != nullptr) {
        continue;  // the session's to write
      }
      uint8_t* place = planned_buffer(id).data() + allocation_offset(*tensor->allocation_info());
      const fb::ExtraTensorInfo* extra = tensor->extra_tensor_info();
      const bool is_named = extra != nullptr && count(extra->fully_qualified_name()) > 0;
      const size_t nbytes = static_cast<size_t>(tensor_nbytes(*tensor));
      if (with_values) {
        ET_RETURN_IF_ERROR(program->write_initial_value(*tensor, options.external_data, place));
      } else if ((is_named || is_state) && nbytes > 0) {
        std::memset(place, 0, nbytes);
      }
    }
  }
  return Error::Ok;
}

Error Method::State::check_shapes() {
  if (!has(Feature::kDynamicShapes) || shapes == nullptr || symbol_values.empty()) {
    return Error::Ok;
  }
  for (int64_t& value : symbol_values) {
    value = -1;
  }
  for (const fb::shapes::SizeRelation& relation : span(shapes->inputs())) {
    const EValue& input = *inputs[relation.value()].value;
    const int64_t size = input.is_tensor() ? input.to_tensor().size(relation.dim()) : input.number_as_int();
    const fb::shapes::Symbol* symbol = shapes->symbols()->Get(relation.symbol());
    const char* name = count(symbol->name()) == 0 ? "its size" : symbol->name()->c_str();
    int64_t rest;
    const bool overflows = __builtin_sub_overflow(size, relation.offset(), &rest);
    const int64_t value = overflows ? -1 : rest / relation.scale();
    ET_CHECK_INPUT(input.is_tensor() || (value >= symbol->lower() && value <= symbol->upper()), meta, relation.value(),
                   InvalidArgument, "the value %" PRId64 " was given, the method was exported for %" PRId64 " to %s",
                   size, symbol->lower(), UpperBound(symbol->upper()).text);
    ET_CHECK_INPUT(!overflows && rest % relation.scale() == 0, meta, relation.value(), InvalidArgument,
                   "size %" PRId64 " of dimension %d was given, must be %" PRId64 " * %s + %" PRId64, size,
                   relation.dim(), relation.scale(), name, relation.offset());
    ET_CHECK_INPUT(value >= symbol->lower() && value <= symbol->upper(), meta, relation.value(), InvalidArgument,
                   "size %" PRId64 " of dimension %d was given, which makes %s %" PRId64
                   "; the method was exported for %" PRId64 " to %s",
                   size, relation.dim(), name, value, symbol->lower(), UpperBound(symbol->upper()).text);
    int64_t& known = symbol_values[relation.symbol()];
    ET_CHECK_INPUT(known == -1 || known == value, meta, relation.value(), InvalidArgument,
                   "size %" PRId64 " of dimension %d makes %s %" PRId64 ", another input makes it %" PRId64
                   "; these sizes must agree",
                   size, relation.dim(), name, value, known);
    known = value;
  }
  return Error::Ok;
}

}  // namespace et::runtime
