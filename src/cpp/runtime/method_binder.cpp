// The part of MethodLoader that joins instructions with kernels and delegates.
#include <algorithm>
#include <cstring>

#include "base/format.h"
#include "base/name_log.h"
#include "runtime/method_loader.h"
#include "runtime/overlapped_kernel.h"
#include "runtime/program_verifier.h"
#include "runtime/tensor_lists.h"
#include "runtime/tracing.h"

namespace et::runtime {

namespace fb = schema;

namespace {

/// How many arguments of a call a kernel gets; -1 when they do not fit its signature. More arguments than parameters
/// are the returned values once more; nothing says that they are, so the kernel does not get them. A kernel without a
/// signature looks at its arguments itself.
int32_t count_parameters(const Kernel& kernel, const Instruction& call) {
  if (kernel.signature == nullptr) {
    return static_cast<int32_t>(call.num_args);
  }
  uint32_t n = 0;
  for (; kernel.signature[n] != '\0'; ++n) {
    if (n == call.num_args || !signature_accepts(kernel.signature[n], *call.args[n])) {
      return -1;
    }
  }
  return static_cast<int32_t>(n);
}

/// What an instruction does, of what the verifier let pass.
fb::InstructionArguments kind_of(const fb::Instruction& source) {
  constexpr bool kOnlyKernels = !has(Feature::kDelegates) && !has(Feature::kControlFlow);
  return kOnlyKernels ? fb::InstructionArguments_KernelCall : source.instr_args_type();
}

}  // namespace

Error MethodLoader::find_candidates() {
  const size_t n = state_.meta.num_operators();
  ET_RETURN_IF_ERROR(allocate(n, &candidates_));
  for (size_t i = 0; i < n && state_.options.kernels != nullptr; ++i) {
    char buffer[256];
    const std::string_view op = state_.meta.operator_name(i, buffer);
    const Kernel* found[kMaxCandidates];
    const size_t num_found = state_.options.kernels->find(op, found);
    ET_CHECK_OR_RETURN(num_found <= kMaxCandidates, OutOfResources,
                       "method '%s': %zu kernels are registered for %.*s, %zu can be", name(), num_found,
                       static_cast<int>(op.size()), op.data(), kMaxCandidates);
    ET_RETURN_IF_ERROR(allocate(num_found, &candidates_[i].kernels));
    for (size_t k = 0; k < num_found; ++k) {  // std::copy links memmove
      candidates_[i].kernels[k] = found[k];
    }
  }
  return Error::Ok;
}

Error MethodLoader::make_instructions() {
  const size_t n = state_.meta.num_instructions();
  ET_RETURN_IF_ERROR(allocate(n, &state_.instructions));
  ET_RETURN_IF_ERROR(allocate(count(plan().delegates()), &state_.delegates));
  ET_RETURN_IF_ERROR(allocate(count(plan().delegates()), &first_call_));
  bool any_missing = false;
  for (size_t i = 0; i < n; ++i) {
    const fb::Instruction& source = *plan().chains()->Get(0)->instructions()->Get(static_cast<uint32_t>(i));
    ET_RETURN_IF_ERROR(make_instruction(source, &state_.instructions[i], i));
    const fb::KernelCall* call = source.instr_args_as_KernelCall();
    if (call != nullptr) {
      Candidates& candidates = candidates_[static_cast<size_t>(call->op_index())];
      candidates.is_missing = candidates.kernels.empty();
      any_missing = any_missing || candidates.is_missing;
      if (!candidates.is_missing) {
        ET_RETURN_IF_ERROR(classify_kernel_call(state_.instructions[i], candidates, i));
      }
    }
  }
  if (any_missing) {
    return report_missing();
  }
  // What is true of a list is true of its items; each list is looked at once, however often it is used.
  for (size_t i = 0; i < state_.values.size(); ++i) {
    const uint16_t flags = value_flags_[i] & (kUsed | kWritten | kReadPast);
    for_each_item(state_.values[i], [&](uint16_t& item) { item |= flags; });
  }
  return Error::Ok;
}

Error MethodLoader::make_arguments(Span<const int32_t> indices, Instruction* out) {
  Span<EValue*> args;
  ET_RETURN_IF_ERROR(allocate(indices.size(), &args));
  for (size_t i = 0; i < indices.size(); ++i) {
    const size_t index = static_cast<size_t>(indices[i]);
    args[i] = &state_.values[index];
    value_flags_[index] |= kUsed;
  }
  out->args = args.data();
  out->num_args = static_cast<uint32_t>(args.size());
  return Error::Ok;
}

Error MethodLoader::make_instruction(const fb::Instruction& source, Instruction* out, size_t index) {
  *out = Instruction{};
  const auto value_at = [this](int32_t i) { return &state_.values[static_cast<size_t>(i)]; };
  switch (kind_of(source)) {
    case fb::InstructionArguments_KernelCall:
      out->kind = Instruction::Kind::kKernel;
      return make_arguments(span(source.instr_args_as_KernelCall()->args()), out);
    case fb::InstructionArguments_DelegateCall: {
      const fb::DelegateCall& call = *source.instr_args_as_DelegateCall();
      const size_t delegate = static_cast<size_t>(call.delegate_index());
      out->kind = Instruction::Kind::kDelegate;
      out->delegate = &state_.delegates[delegate];
      ET_RETURN_IF_ERROR(make_arguments(span(call.args()), out));
      for (const int32_t i : span(call.args())) {
        flags_of(value_at(i)) |= kReadPast;
      }
      if (first_call_[delegate] == nullptr) {
        first_call_[delegate] = &state_.instructions[index];
      }
      return Error::Ok;
    }
    case fb::InstructionArguments_MoveCall: {
      const fb::MoveCall& call = *source.instr_args_as_MoveCall();
      out->kind = Instruction::Kind::kMove;
      out->from = value_at(call.move_from());
      Span<EValue*> destination;
      ET_RETURN_IF_ERROR(allocate(1, &destination));
      destination[0] = value_at(call.move_to());
      out->args = destination.data();
      out->num_args = 1;
      flags_of(out->from) |= kUsed | kReadPast;  // as what it is moved to may be
      flags_of(destination[0]) |= kUsed | kVariable | kRebound | kLate;
      return Error::Ok;
    }
    case fb::InstructionArguments_JumpFalseCall: {
      const fb::JumpFalseCall& call = *source.instr_args_as_JumpFalseCall();
      out->kind = Instruction::Kind::kJumpFalse;
      out->from = value_at(call.cond_value_index());
      out->target = static_cast<uint32_t>(call.destination_instruction());
      flags_of(out->from) |= kUsed;
      return Error::Ok;
    }
    default:
      out->kind = Instruction::Kind::kFree;
      out->from = value_at(source.instr_args_as_FreeCall()->value_index());
      return Error::Ok;
  }
}

Error MethodLoader::classify_kernel_call(const Instruction& call, const Candidates& candidates, size_t index) {
  bool any = false;
  for (const Kernel* candidate : candidates.kernels) {
    const Kernel& kernel = *candidate;
    if (count_parameters(kernel, call) < 0) {
      continue;
    }
    any = true;
    if (kernel.signature == nullptr) {  // may do anything with its arguments
      for (uint32_t i = 0; i < call.num_args; ++i) {
        uint16_t& flags = flags_of(call.args[i]);
        flags = static_cast<uint16_t>(
            flags | (call.args[i]->is_tensor() ? kLate | kWritten | kRepointed | kReadPast : kVariable));
      }
      continue;
    }
    // Who reads a view is not known here.
    const bool reads_past = kHasPages && (kernel.reads_past || std::strchr(kernel.signature, 'p') != nullptr);
    for (size_t i = 0; kernel.signature[i] != '\0'; ++i) {
      uint16_t& flags = flags_of(call.args[i]);
      switch (kernel.signature[i]) {
        case 'r': flags |= kVariable; break;
        case 'p': flags |= kLate | kRepointed; break;
        default:
          flags = static_cast<uint16_t>(flags | (signature_writes(kernel.signature, i) ? kWritten
                                                 : reads_past                          ? kReadPast
                                                                                       : 0));
      }
    }
  }
  if (!any && !kHasMessages) {
    log_name(candidates.kernels[0]->name);
    return Error::InvalidProgram;
  }
  if (!any) {
    const fb::Instruction& source = *plan().chains()->Get(0)->instructions()->Get(static_cast<uint32_t>(index));
    char buffer[256];
    const std::string_view op =
        state_.meta.operator_name(static_cast<size_t>(source.instr_args_as_KernelCall()->op_index()), buffer);
    const Kernel& kernel = *candidates.kernels[0];
    size_t bad = 0;
    while (kernel.signature[bad] != '\0' && bad < call.num_args &&
           signature_accepts(kernel.signature[bad], *call.args[bad])) {
      ++bad;
    }
    ET_CHECK_OR_RETURN(
        false, InvalidProgram,
        "method '%s': instruction %zu: %.*s has %u arguments, of which argument %zu (%s) does not fit its "
        "signature '%s' (letters: runtime/unboxing.h)",
        name(), index, static_cast<int>(op.size()), op.data(), call.num_args, bad,
        bad < call.num_args ? to_string(call.args[bad]->tag()) : "missing", kernel.signature);
  }
  return Error::Ok;
}

Error MethodLoader::report_missing() {
  char names[320] = "";
  size_t length = 0;
  size_t num_missing = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (!candidates_[i].is_missing) {
      continue;
    }
    char buffer[256];
    const std::string_view op = state_.meta.operator_name(i, {buffer, sizeof(buffer) - 1});
    if (!kHasMessages) {
      buffer[op.size()] = '\0';
      log_name(buffer);
      continue;
    }
    length += format_text(names + length, sizeof(names) - length, "%s%.*s", ++num_missing > 1 ? ", " : "",
                          static_cast<int>(op.size()), op.data());
  }
  ET_CHECK_OR_RETURN(false, OperatorMissing,
                     "method '%s' calls %zu operators that no registered kernel implements: %s; register a kernel "
                     "library that has them, or export with them decomposed or delegated",
                     name(), num_missing, names);
  return Error::Ok;
}

void MethodLoader::mark_checked_instructions() {
  constexpr size_t kLongList = 64;  // looked at before each run, which takes as long as the list anyway, not at load
  for (Instruction& instruction : state_.instructions) {
    if (instruction.kind != Instruction::Kind::kKernel && instruction.kind != Instruction::Kind::kDelegate) {
      continue;
    }
    for (uint32_t i = 0; i < instruction.num_args; ++i) {
      const bool is_late =
          (flags_of(instruction.args[i]) & kLate) != 0 || list_length(*instruction.args[i]) > kLongList;
      instruction.is_checked = instruction.is_checked || is_late;
    }
  }
}

Error MethodLoader::init_delegates() {
  for (uint32_t i = 0; has(Feature::kDelegates) && i < state_.delegates.size(); ++i) {
    ET_RETURN_IF_ERROR(init_delegate(*plan().delegates()->Get(i), &state_.delegates[i], i));
  }
  return Error::Ok;
}

Error MethodLoader::init_delegate(const fb::BackendDelegate& source, DelegateState* delegate, uint32_t index) {
  const BackendRegistry* registry = state_.options.backends;
  delegate->name = view(source.id());
  delegate->backend = registry == nullptr ? nullptr : registry->find(delegate->name);
  ET_CHECK_OR_RETURN(delegate->backend != nullptr, NotFound,
                     "method '%s' needs backend '%s', which is not registered in this process", name(),
                     source.id()->c_str());
  ET_CHECK_OR_RETURN(delegate->backend->is_available(), NotSupported,
                     "method '%s' needs backend '%s', which says that its device or library is not there", name(),
                     source.id()->c_str());
  if (source.processed()->location() == fb::DataLocation_INLINE) {
    const auto* data = program_.tables_->backend_delegate_data()->Get(source.processed()->index())->data();
    delegate->processed = FreeableBuffer(span(data).data(), count(data));
  } else {
    ET_TRY(delegate->processed, program_.load_segment(source.processed()->index()));
  }
  ET_CHECK_OR_RETURN(reinterpret_cast<uintptr_t>(delegate->processed.data()) % 16 == 0, InvalidProgram,
                     "method '%s': the payload of delegate %u is not aligned to 16 bytes", name(), index);
  Span<CompileSpec> specs;
  ET_RETURN_IF_ERROR(allocate(count(source.compile_specs()), &specs));
  for (uint32_t i = 0; i < specs.size(); ++i) {
    const fb::CompileSpec* spec = source.compile_specs()->Get(i);
    specs[i] = {view(spec->key()), span(spec->value())};
  }
  const NamedDataMap* const maps[] = {&program_.named_data(), state_.options.external_data};
  const MergedDataMap named_data(maps);
  BackendInitContext context;
  context.allocator = state_.memory.method_allocator;
  context.named_data = &named_data;
  context.shared = state_.options.shared_cache;
  context.pool = state_.options.pool;
  context.tracer = tracer_of(state_.options);
  context.method_name = state_.meta.name();
  context.delegate_index = index;
  context.method = &state_;
  if (first_call_[index] != nullptr) {
    context.args = {first_call_[index]->args, first_call_[index]->num_args};
  }
  const TraceSpan span(tracer_of(state_.options), EventKind::kDelegateInit, delegate->name);
  const Result<DelegateHandle*> handle = delegate->backend->init(context, &delegate->processed, specs);
  if (!handle.ok()) {
    ET_LOG_CONTEXT("method '%s': backend '%s' cannot make delegate %u: %s", name(), source.id()->c_str(), index,
                   to_string(handle.error()));
    if (kTraces && context.failed_step >= 0 && first_call_[index] != nullptr) {
      return state_.fail(handle.error(), static_cast<size_t>(first_call_[index] - state_.instructions.data()),
                         context.failed_step);
    }
    return handle.error();
  }
  delegate->handle = handle.get();
  delegate->is_initialized = true;
  return Error::Ok;
}

Error MethodLoader::try_kernel(PrepareContext& context, const Kernel& kernel, KernelOffer* offer, Choice* choice) {
  Instruction& call = *choice->call;
  const int32_t count = count_parameters(kernel, call);
  if (count < 0) {
    return Error::NotSupported;
  }
  call.state = offer;
  call.kernel = &kernel;
  call.run = kernel.run;
  call.num_parameters = static_cast<uint32_t>(count);
  const Span<EValue* const> args{call.args, call.num_parameters};
  if (kernel.signature != nullptr && !call.is_checked &&
      find_overlap_before_prepare(kernel.signature, args, &choice->overlap)) {
    choice->in_the_way = &kernel;  // another one may work in place
    return Error::NotSupported;
  }
  const Error error = kernel.prepare == nullptr ? Error::Ok : kernel.prepare(context, args, &call.state);
  call.state = call.state == offer ? nullptr : call.state;
  return error;
}

/// By priority; from kPriorityLibrary up to a user's, what offers the least comes first.
Error MethodLoader::choose_kernel(PrepareContext& context, Span<const Kernel* const> kernels, Choice* choice) {
  Error error = Error::NotSupported;
  const Kernel* cheapest = nullptr;
  double least = 0;
  size_t i = 0;
  for (; kComparesOffers && i < kernels.size() && error == Error::NotSupported &&
         kernels[i]->priority >= kPriorityLibrary;
       ++i) {
    KernelOffer offer;
    error = try_kernel(context, *kernels[i], kernels[i]->priority < kPriorityUser ? &offer : nullptr, choice);
    if (offer.nanoseconds >= 0 && (cheapest == nullptr || offer.nanoseconds < least)) {
      cheapest = kernels[i];
      least = offer.nanoseconds;
    }
  }
  if (cheapest != nullptr && error == Error::NotSupported) {
    error = try_kernel(context, *cheapest, nullptr, choice);
    i = 0;  // if it cannot be prepared, what offered more is next
  }
  for (; i < kernels.size() && error == Error::NotSupported; ++i) {
    error = try_kernel(context, *kernels[i], nullptr, choice);
  }
  return error;
}

Error MethodLoader::prepare_kernels() {
  PrepareContext context(state_.memory.method_allocator, state_.options.shared_cache, state_.options.pool);
  context.set_constant_query(&MethodLoader::is_constant, this, &MethodLoader::discard);
  for (size_t i = 0; i < state_.instructions.size(); ++i) {
    Instruction& instruction = state_.instructions[i];
    if (instruction.kind == Instruction::Kind::kKernel) {
      const fb::Instruction& source = *plan().chains()->Get(0)->instructions()->Get(static_cast<uint32_t>(i));
      Choice choice{&instruction};
      const size_t op = static_cast<size_t>(source.instr_args_as_KernelCall()->op_index());
      Error error = choose_kernel(context, candidates_[op].kernels, &choice);
      if (error == Error::NotSupported && choice.in_the_way != nullptr) {
        instruction.kernel = choice.in_the_way;
        report(choice.overlap);
        error = Error::InvalidProgram;
      }
      if (error != Error::Ok) {
        instruction.state = nullptr;
        return state_.fail(error, i);
      }
      if (instruction.state != nullptr) {
        discard_constants({instruction.args, instruction.num_parameters});
      }
    }
    state_.num_prepared = i + 1;
  }
  discard_gathered();
  return Error::Ok;
}

/// A kernel that made a state has read what it packs; what it reads at run time, it has not read yet. So the file's
/// pages behind its constants are given back, or else weights would be in memory twice when a load ends. Neighbours are
/// gathered, because a call of the system takes as long as to pack some hundred numbers.
void MethodLoader::discard_constants(Span<EValue* const> args) {
  constexpr size_t kGap = 4096;
  constexpr size_t kWorthACall = size_t{1} << 20;
  for (const EValue* const arg : args) {
    if (!arg->is_tensor() || !is_constant(this, *arg)) {
      continue;
    }
    const auto begin = reinterpret_cast<uintptr_t>(arg->to_tensor().const_data_ptr());
    const size_t nbytes = arg->to_tensor().nbytes();
    if (begin < discarded_ || begin - discarded_ > discarded_nbytes_ + kGap) {
      discard_gathered();
      discarded_ = begin;
    }
    discarded_nbytes_ = std::max(discarded_nbytes_, begin - discarded_ + nbytes);
  }
  if (discarded_nbytes_ >= kWorthACall) {
    discard_gathered();
  }
}

void MethodLoader::discard_gathered() {
  discard(this, reinterpret_cast<const void*>(discarded_), discarded_nbytes_);
  discarded_nbytes_ = 0;
}

void MethodLoader::discard(const void* opaque, const void* data, size_t nbytes) {
  const Method::State& state = static_cast<const MethodLoader*>(opaque)->state_;
  state.program->named_data().discard(data, nbytes);
  if (state.options.external_data != nullptr) {
    state.options.external_data->discard(data, nbytes);
  }
}

}  // namespace et::runtime
