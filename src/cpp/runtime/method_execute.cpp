#include <cstring>

#include "base/format.h"
#include "base/name_log.h"
#include "runtime/debug_info.h"
#include "runtime/method_state.h"
#include "runtime/platform.h"
#include "runtime/program_verifier.h"
#include "runtime/tensor_lists.h"
#include "runtime/tracing.h"
#include "runtime/unboxing.h"

namespace et::runtime {

namespace fb = schema;

namespace {

/// Sizes of 0 for a tensor whose sizes a kernel gives it.
void make_empty(TensorImpl* tensor) {
  static constexpr int64_t kSizes[kMaxRank] = {};
  static_cast<void>(tensor->resize({kSizes, tensor->dim()}));
}

}  // namespace

Error Method::execute() {
  State& state = *state_;
  ET_CHECK_OR_RETURN(!state.is_stepping, InvalidState,
                     "the method is in the middle of step(); finish it or call reset_execution()");
  ET_RETURN_IF_ERROR(state.begin());
  KernelContext context(state.memory.temp_allocator, state.memory.data_allocator, state.options.pool, &state.random,
                        &state.is_cancelled);
  const bool is_traced = state.is_traced();
  Error error = Error::Ok;
  for (size_t next = 0; next < state.instructions.size() && error == Error::Ok;) {
    error = __builtin_expect(is_traced, 0) ? state.run_traced(context, &next) : state.run_one(context, &next);
  }
  if (error == Error::Ok) {
    error = state.finish();
  }
  state.end(error);
  return error;
}

Error Method::step() {
  State& state = *state_;
  if (!state.is_stepping) {
    ET_RETURN_IF_ERROR(state.begin());
    state.is_stepping = true;
    state.next_instruction = 0;
  }
  Error error = Error::Ok;
  if (state.next_instruction < state.instructions.size()) {
    KernelContext context(state.memory.temp_allocator, state.memory.data_allocator, state.options.pool, &state.random,
                          &state.is_cancelled);
    error = state.is_traced() ? state.run_traced(context, &state.next_instruction)
                              : state.run_one(context, &state.next_instruction);
    if (error == Error::Ok) {
      return Error::Ok;
    }
  } else {
    error = state.finish();
  }
  state.is_stepping = false;
  state.end(error);
  return error == Error::Ok ? Error::EndOfMethod : error;
}

void Method::reset_execution() {
  if (state_->is_stepping) {
    state_->is_stepping = false;
    state_->end(Error::Cancelled);
  }
}

size_t Method::next_instruction() const { return state_->is_stepping ? state_->next_instruction : 0; }

Span<EValue* const> Method::arguments(size_t i) const {
  const Instruction& instruction = state_->instructions[i];
  switch (instruction.kind) {
    case Instruction::Kind::kKernel: return {instruction.args, instruction.num_parameters};
    case Instruction::Kind::kDelegate: return {instruction.args, instruction.num_args};
    default: return {};
  }
}

FailureLocation Method::location(size_t i) const {
  FailureLocation found;
  static_cast<void>(state_->locate(i, -1, &found));
  return found;
}

/// Puts back what the last execution left elsewhere: destinations of moves and tensors that were given other memory.
/// Before inputs are set, which would otherwise be written where the last execution's values lay.
void Method::State::restore() {
  if (!is_changed) {
    return;
  }
  is_changed = false;
  for (const ReboundValue& value : rebound) {
    *value.value = value.original;
  }
  for (const RestoredTensor& tensor : restored) {
    tensor.tensor->set_data(tensor.data, tensor.capacity);
    tensor.tensor->set_read_only(tensor.is_read_only);
    if (has(Feature::kDynamicShapes) && tensor.data == nullptr &&
        tensor.tensor->dynamism() == TensorShapeDynamism::kDynamicUnbound) {
      make_empty(tensor.tensor);
    }
  }
}

/// Takes the method and the session's state, and puts everything in the condition in which an execution begins.
Error Method::State::begin() {
  ET_CHECK_OR_RETURN(!is_running.exchange(true, std::memory_order_acquire), InvalidState,
                     "method '%s' is running already; load it once for each thread", plan->name()->c_str());
  failure = FailureLocation{};
  is_cancelled.store(false, std::memory_order_relaxed);
  Error error = Error::Ok;
  for (size_t i = 0; i < inputs.size() && error == Error::Ok; ++i) {
    if (inputs[i].value->is_tensor() && !inputs[i].is_set) {
      ET_LOG_ERROR("input %zu of method '%s' has not been set since its last execution", i, plan->name()->c_str());
      error = Error::InvalidState;
    }
  }
  if (error == Error::Ok) {
    error = check_shapes();
  }
  if (error == Error::Ok && uses_session_state && !options.session->try_acquire()) {
    ET_LOG_ERROR(
        "another method of this session is running and shares state with '%s'; run them one after the other, or "
        "use a session for each thread",
        plan->name()->c_str());
    error = Error::InvalidState;
  } else if (error == Error::Ok) {
    error = begin_trace();
  }
  if (error != Error::Ok) {
    is_running.store(false, std::memory_order_release);
    return error;
  }
  restore();
  is_changed = true;
  if (memory.data_allocator != nullptr) {
    memory.data_allocator->reset();
  }
  move_inputs_from_page_ends();
  error = open_outputs();
  backward_jumps = 0;
  if (error != Error::Ok) {
    end(error);
  }
  return error;
}

/// Copies inputs that would be read past the end of the caller's memory, where nothing may be. Not where there is no
/// room.
void Method::State::move_inputs_from_page_ends() {
  for (const InputSlot& slot : inputs) {
    if (slot.binding != InputSlot::Binding::kBorrowedPast) {
      continue;
    }
    TensorImpl* const tensor = slot.value->to_tensor().unsafe_impl();
    const size_t nbytes = tensor->nbytes();
    if (!ends_with_page(tensor->data(), nbytes)) {
      continue;
    }
    void* place = nullptr;
    if (nbytes <= slot.nbytes) {
      place = slot.memory;
    } else if (memory.data_allocator != nullptr) {
      place = memory.data_allocator->allocate(nbytes, 64);
    }
    if (place != nullptr) {
      tensor->set_data(std::memcpy(place, tensor->data(), nbytes), nbytes);
    }
  }
}

/// True when the memory that the caller gives for output `index` is also that of an input, which is still to be read,
/// or of an output before it. The output must not be made there.
bool Method::State::shares_caller_memory(size_t index) const {
  const OutputSlot& slot = outputs[index];
  const auto begin = reinterpret_cast<uintptr_t>(slot.caller_data);
  const auto overlaps = [&](const void* data, size_t nbytes) {
    const auto start = reinterpret_cast<uintptr_t>(data);
    return start < begin + slot.caller_nbytes && begin < start + nbytes;
  };
  for (const InputSlot& input : inputs) {
    if (input.value == nullptr || !input.value->is_tensor()) {
      continue;
    }
    const TensorImpl* impl = input.value->to_tensor().unsafe_impl();
    if (overlaps(impl->data(), impl->nbytes())) {
      return true;
    }
  }
  for (size_t i = 0; i < index; ++i) {
    if (overlaps(outputs[i].caller_data, outputs[i].caller_nbytes)) {
      return true;
    }
  }
  return false;
}

/// Gives memory to the outputs for which the program planned none, or none that anything else depends on.
Error Method::State::open_outputs() {
  for (size_t i = 0; i < outputs.size(); ++i) {
    OutputSlot& slot = outputs[i];
    if (slot.binding == OutputSlot::Binding::kFixed) {
      continue;
    }
    TensorImpl* tensor = slot.tensor;
    const bool is_unbound = has(Feature::kDynamicShapes) && tensor->dynamism() == TensorShapeDynamism::kDynamicUnbound;
    const bool is_apart = slot.caller_data != nullptr && !shares_caller_memory(i);
    // Made elsewhere where there is room, and copied in the end.
    const bool is_moved = is_apart && slot.binding == OutputSlot::Binding::kOpenPast && !is_unbound &&
                          ends_with_page(slot.caller_data, slot.caller_nbytes);
    void* data = is_apart && !is_moved ? slot.caller_data : nullptr;
    if (data == nullptr && is_unbound) {
      continue;  // its kernel takes memory
    }
    size_t capacity = slot.caller_nbytes;
    if (slot.own_place != nullptr && (data == nullptr || capacity < slot.own_nbytes)) {
      data = slot.own_place;
      capacity = slot.own_nbytes;
    }
    if (data == nullptr) {
      const fb::Tensor& source =
          *plan->values()->Get(static_cast<uint32_t>(slot.value - values.data()))->val_as_Tensor();
      capacity = static_cast<size_t>(tensor_nbytes(source));
      data = memory.data_allocator == nullptr ? nullptr : memory.data_allocator->allocate(capacity, 64);
      if (data == nullptr && is_moved) {
        data = slot.caller_data;
        capacity = slot.caller_nbytes;
      }
      ET_CHECK_OR_RETURN(
          data != nullptr, MemoryAllocationFailed,
          "output %zu of method '%s' needs %zu bytes: give them with set_output_data_ptr (apart from inputs and "
          "other outputs), or a larger data_allocator",
          i, plan->name()->c_str(), capacity);
    }
    tensor->set_data(data, capacity);
    if (tensor->nbytes() > capacity) {
      const bool is_static = !has(Feature::kDynamicShapes) || tensor->dynamism() == TensorShapeDynamism::kStatic;
      ET_CHECK_OR_RETURN(!is_static && tensor->dim() > 0, OutOfResources,
                         "output %zu of method '%s' needs %zu bytes, set_output_data_ptr was given %zu", i,
                         plan->name()->c_str(), tensor->nbytes(), capacity);
      make_empty(tensor);  // its kernel gives it a size, which is checked against capacity
    }
  }
  return Error::Ok;
}

/// Copies what did not come out where the caller wants it. Kernels leave out what follows once the caller asked to
/// stop: the outputs are not whole then.
Error Method::State::finish() {
  if (is_cancelled.load(std::memory_order_relaxed)) {
    return instructions.size() == 0 ? Error::Cancelled : fail(Error::Cancelled, instructions.size() - 1);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputSlot& slot = outputs[i];
    if (slot.caller_data == nullptr || slot.tensor == nullptr) {
      continue;
    }
    const TensorImpl* result = slot.value->to_tensor().unsafe_impl();
    if (result->data() == slot.caller_data || result->numel() == 0) {
      continue;
    }
    ET_CHECK_OR_RETURN(result->data() != nullptr, InvalidState, "output %zu of method '%s' was never computed", i,
                       plan->name()->c_str());
    ET_CHECK_OR_RETURN(result->nbytes() <= slot.caller_nbytes, OutOfResources,
                       "output %zu of method '%s' has %zu bytes, set_output_data_ptr was given %zu", i,
                       plan->name()->c_str(), result->nbytes(), slot.caller_nbytes);
    std::memcpy(slot.caller_data, result->data(), result->nbytes());
    // From there it may become an input, unlike from the method's memory.
    if (slot.binding == OutputSlot::Binding::kOpenPast && result == slot.tensor) {
      slot.tensor->set_data(slot.caller_data, slot.caller_nbytes);
    }
  }
  for (const InputSlot& slot : inputs) {
    if (slot.binding == InputSlot::Binding::kCopiedBack && slot.memory != nullptr) {
      const Tensor tensor = slot.value->to_tensor();
      std::memcpy(slot.memory, tensor.const_data_ptr(), tensor.nbytes());
    }
  }
  return Error::Ok;
}

/// Gives the method and the state back. Inputs are for one execution.
void Method::State::end(Error result) {
  if (tracer_of(options) != nullptr) {
    end_trace(result);
  }
  for (InputSlot& slot : inputs) {
    slot.is_set = false;
  }
  if (uses_session_state) {
    options.session->release();
  }
  is_running.store(false, std::memory_order_release);
}

/// Runs instruction `*next` and says which one follows.
Error Method::State::run_one(KernelContext& context, size_t* next) {
  const size_t index = *next;
  const Instruction& instruction = instructions[index];
  Error error = Error::Ok;
  int32_t failed_step = -1;
  *next = index + 1;
  if (__builtin_expect(is_cancelled.load(std::memory_order_relaxed), 0)) {
    return fail(Error::Cancelled, index);
  }
  if (__builtin_expect(instruction.is_checked, 0)) {
    error = check_late_arguments(instruction);
    if (error != Error::Ok) {
      return fail(error, index);
    }
  }
  constexpr bool kOnlyKernels = !has(Feature::kDelegates) && !has(Feature::kControlFlow);
  switch (kOnlyKernels ? Instruction::Kind::kKernel : instruction.kind) {
    case Instruction::Kind::kKernel:
      error = instruction.run(context, {instruction.args, instruction.num_parameters}, instruction.state);
      context.reset_temp();
      break;
    case Instruction::Kind::kDelegate: {
      BackendExecutionContext delegate_context{context, tracer_of(options), meta.name(), 0,
                                               static_cast<int32_t>(index)};
      error = instruction.delegate->backend->execute(delegate_context, instruction.delegate->handle,
                                                     {instruction.args, instruction.num_args});
      context.reset_temp();
      failed_step = delegate_context.failed_step;
      break;
    }
    case Instruction::Kind::kMove: *instruction.args[0] = *instruction.from; break;
    case Instruction::Kind::kJumpFalse: error = jump_if_false(instruction, index, next); break;
    case Instruction::Kind::kFree: {
      TensorImpl* tensor = instruction.from->to_tensor().unsafe_impl();
      if (tensor->dynamism() == TensorShapeDynamism::kDynamicUnbound && tensor->dim() > 0) {
        make_empty(tensor);
      }
      break;
    }
  }
  return __builtin_expect(error == Error::Ok, 1) ? Error::Ok : fail(error, index, failed_step);
}

Error Method::State::jump_if_false(const Instruction& instruction, size_t index, size_t* next) {
  const EValue& condition = *instruction.from;
  bool is_true;
  if (condition.is_tensor()) {
    const Tensor tensor = condition.to_tensor();
    ET_CHECK_OR_RETURN(tensor.numel() == 1 && tensor.const_data_ptr() != nullptr, InvalidState,
                       "the condition of a branch is a tensor of %" PRId64 " elements, must be one bool",
                       tensor.numel());
    is_true = *static_cast<const uint8_t*>(tensor.const_data_ptr()) != 0;
  } else {
    is_true = condition.number_as_bool();
  }
  if (is_true) {
    return Error::Ok;
  }
  *next = instruction.target;
  if (instruction.target <= index) {
    ET_CHECK_OR_RETURN(++backward_jumps <= options.max_backward_jumps, OutOfResources,
                       "a loop went back %" PRIu64 " times; raise max_backward_jumps if that is meant",
                       backward_jumps - 1);
  }
  return Error::Ok;
}

/// Looks at tensors whose memory is known only now: it must be there, writable where the kernel writes, and apart from
/// what it still reads.
Error Method::State::check_late_arguments(const Instruction& instruction) {
  const char* signature = instruction.kind == Instruction::Kind::kKernel ? instruction.kernel->signature : nullptr;
  const auto check = [](const Tensor& tensor, bool is_written) {
    const TensorImpl* impl = tensor.unsafe_impl();
    ET_CHECK_OR_RETURN(impl->data() != nullptr || impl->numel() == 0, InvalidState,
                       "an argument has no memory: nothing has computed it yet");
    ET_CHECK_OR_RETURN(!is_written || !impl->read_only(), InvalidArgument,
                       "the operator writes to a tensor that is read-only (a constant, or an input given as such)");
    return Error::Ok;
  };
  bool in_signature = signature != nullptr;
  for (uint32_t i = 0; i < instruction.num_args; ++i) {
    in_signature = in_signature && signature[i] != '\0';
    const char letter = in_signature ? signature[i] : '\0';
    if (letter == 'p') {
      continue;  // the kernel gives it memory
    }
    const bool is_written = in_signature && signature_writes(signature, i);
    Error error = Error::Ok;
    all_tensors(*instruction.args[i], [&](const Tensor& tensor) {
      error = check(tensor, is_written);
      return error == Error::Ok;
    });
    ET_RETURN_IF_ERROR(error);
  }
  return signature == nullptr
             ? Error::Ok
             : check_written_apart(signature, {instruction.args, instruction.num_parameters}, Error::InvalidArgument);
}

namespace {

std::string_view instruction_name(const Instruction& instruction) {
  switch (instruction.kind) {
    case Instruction::Kind::kKernel:
      return instruction.kernel == nullptr ? std::string_view() : instruction.kernel->name;
    case Instruction::Kind::kDelegate: return instruction.delegate->name;
    case Instruction::Kind::kMove: return "move";
    case Instruction::Kind::kJumpFalse: return "jump_false";
    case Instruction::Kind::kFree: break;
  }
  return "free";
}

EventKind event_kind(Instruction::Kind kind) {
  switch (kind) {
    case Instruction::Kind::kKernel: return EventKind::kKernel;
    case Instruction::Kind::kDelegate: return EventKind::kDelegate;
    case Instruction::Kind::kMove: return EventKind::kMove;
    case Instruction::Kind::kJumpFalse: return EventKind::kJump;
    case Instruction::Kind::kFree: break;
  }
  return EventKind::kFree;
}

}  // namespace

/// Takes the tracer for this execution. Without one there is nothing to do.
Error Method::State::begin_trace() {
  if (tracer_of(options) == nullptr) {
    return Error::Ok;
  }
  if (!tracer_of(options)->try_acquire()) {
    if (uses_session_state) {
      options.session->release();
    }
    ET_LOG_ERROR(
        "the tracer of method '%s' is recording another execution; run one after the other, or give each "
        "method a tracer of its own",
        plan->name()->c_str());
    return Error::InvalidState;
  }
  traces_instructions = tracer_of(options)->wants_instructions() || tracer_of(options)->wants_values();
  tracer_of(options)->begin_execution(meta.name());
  execution_start_ns = platform_now_ns();
  return Error::Ok;
}

void Method::State::end_trace(Error result) {
  EventTracer& tracer = *options.tracer;
  tracer.set_position({});
  tracer.record({EventKind::kExecute, meta.name(), {}, {}, {}, execution_start_ns, platform_now_ns()});
  for (size_t i = 0; result == Error::Ok && tracer.wants_outputs() && i < outputs.size(); ++i) {
    TraceValue value;
    value.value = outputs[i].value;
    value.is_output = true;
    tracer.record_value(value);
  }
  tracer.release();
}

/// run_one under the eyes of the tracer.
Error Method::State::run_traced(KernelContext& context, size_t* next) {
  EventTracer& tracer = *options.tracer;
  const TracePosition position{0, static_cast<int32_t>(*next)};
  const Instruction& instruction = instructions[*next];
  tracer.set_position(position);
  const uint64_t start_ns = platform_now_ns();
  const Error error = run_one(context, next);
  const uint64_t end_ns = platform_now_ns();
  if (error == Error::Ok && tracer.wants_values()) {
    trace_values(instruction, position);
  }
  if (tracer.wants_instructions()) {
    tracer.record({event_kind(instruction.kind), instruction_name(instruction), position, {}, {}, start_ns, end_ns});
  }
  return error;
}

/// What an instruction computed. The runtime cannot tell the outputs of a delegate from its inputs: it shows both.
void Method::State::trace_values(const Instruction& instruction, TracePosition position) {
  const auto show = [&](const EValue& value) { options.tracer->record_value({&value, position}); };
  if (instruction.kind == Instruction::Kind::kDelegate) {
    for (uint32_t i = 0; i < instruction.num_args; ++i) {
      show(*instruction.args[i]);
    }
  } else if (instruction.kind == Instruction::Kind::kMove) {
    show(*instruction.args[0]);
  } else if (instruction.kind == Instruction::Kind::kKernel) {
    const char* const signature = instruction.kernel->signature;
    if (signature == nullptr && instruction.num_args > 0) {
      show(*instruction.args[instruction.num_args - 1]);
    }
    for (uint32_t i = 0; signature != nullptr && i < instruction.num_parameters; ++i) {
      if (signature_writes(signature, i) || signature[i] == 'r' || signature[i] == 'p') {
        show(*instruction.args[i]);
      }
    }
  }
}

/// The fields of an instruction's origin, or of a step's of the delegate that it calls. False when none is known.
bool Method::State::read_origin(size_t index, int32_t step, uint32_t (&fields)[kNumOriginFields],
                                uint32_t* debug_handle) const {
  if (!has(Feature::kDebugInfo) || debug == nullptr) {
    return false;
  }
  for (uint32_t i = 0; kTraces && step >= 0 && i < count(debug->delegates()); ++i) {
    const schema::debug::DelegateInfo& delegate = *debug->delegates()->Get(i);
    OriginReader origins(*program->debug_, delegate);
    for (uint32_t k = 0; delegate.instruction() == index && k < count(delegate.ids()); ++k) {
      static_cast<void>(origins.read(fields));  // verified
      if (delegate.ids()->Get(k) == static_cast<uint32_t>(step)) {
        *debug_handle = origins.debug_handle();
        return true;
      }
    }
  }
  if (step >= 0) {
    return false;
  }
  OriginReader origins(*program->debug_, *debug);
  for (size_t i = 0; i <= index; ++i) {
    static_cast<void>(origins.read(fields));
  }
  *debug_handle = origins.debug_handle();
  return true;
}

/// Says what an instruction is, or a step of the delegate that it calls; true where the step is known.
bool Method::State::locate(size_t index, int32_t step, FailureLocation* found) const {
  found->in_instruction = true;
  found->instruction = static_cast<uint32_t>(index);
  found->operator_name = instruction_name(instructions[index]);
  uint32_t fields[kNumOriginFields];
  const bool is_step = kTraces && step >= 0 && read_origin(index, step, fields, &found->debug_handle);
  if (is_step || read_origin(index, -1, fields, &found->debug_handle)) {
    const auto text = [&](OriginField field) { return view(program->debug_->strings()->Get(fields[field])); };
    found->step_name = is_step ? text(kOp) : std::string_view();
    found->module_path = text(kModulePath);
    found->source_file = text(kFile);
    found->source_line = fields[kLine];
  }
  return is_step;
}

/// Remembers and logs where an execution (or a load) stopped.
Error Method::State::fail(Error error, size_t index, int32_t step) {
  const bool is_step = locate(index, step, &failure);
  if (!kHasMessages) {
    // Names end with '\0': they are literals or strings of the file.
    log_name(failure.operator_name.empty() ? "?" : failure.operator_name.data());
    return error;
  }
  const auto length = [](std::string_view text) { return static_cast<int>(text.size()); };
  char handle[24] = "";
  if (failure.debug_handle != 0) {
    format_text(handle, sizeof(handle), " (handle %u)", failure.debug_handle);
  }
  char where[96];
  format_text(where, sizeof(where), "%s%.*s%s", is_step ? ", " : "", length(failure.step_name),
              failure.step_name.data(), handle);
  if (failure.source_file.empty()) {
    ET_LOG_CONTEXT("method '%s', instruction %zu, %.*s%s: %s", plan->name()->c_str(), index,
                   length(failure.operator_name), failure.operator_name.data(), where, to_string(error));
  } else {
    ET_LOG_CONTEXT("method '%s', instruction %zu, %.*s%s: %s; module '%.*s', %.*s:%u", plan->name()->c_str(), index,
                   length(failure.operator_name), failure.operator_name.data(), where, to_string(error),
                   length(failure.module_path), failure.module_path.data(), length(failure.source_file),
                   failure.source_file.data(), failure.source_line);
  }
  return error;
}

}  // namespace et::runtime
