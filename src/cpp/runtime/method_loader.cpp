#include "runtime/method_loader.h"

#include "base/checked_math.h"
#include "runtime/external_data.h"
#include "runtime/program_verifier.h"
#include "runtime/tracing.h"

namespace et::runtime {

namespace fb = schema;

Result<Method> MethodLoader::load(const Program& program, std::string_view name, const MemoryManager& memory,
                                  const MethodOptions& options) {
  ET_CHECK_OR_RETURN(memory.method_allocator != nullptr, InvalidArgument, "the MemoryManager has no method_allocator");
  ET_CHECK_OR_RETURN(options.tracer == tracer_of(options), NotSupported,
                     "this build has no event tracer; build with ET_EVENT_TRACER=ON");
  const TraceSpan span(tracer_of(options), EventKind::kMethodLoad, name);
  ET_TRY(const MethodMeta meta, program.method_meta(name));
  ET_TRY(uint8_t* const place, memory.method_allocator->allocate_list<uint8_t>(sizeof(Method::State)));
  auto* state = new (place) Method::State(meta, memory, options);
  Method method(state);  // undoes everything when an error returns from here
  state->program = &program;
  state->plan = program.find_plan(name, &state->plan_index);
  state->shapes = meta.shapes_;
  for (uint32_t i = 0; has(Feature::kDebugInfo) && program.debug_ != nullptr && i < count(program.debug_->methods());
       ++i) {
    if (view(program.debug_->methods()->Get(i)->name()) == name) {
      state->debug = program.debug_->methods()->Get(i);
    }
  }
  if (tracer_of(options) != nullptr) {
    ET_RETURN_IF_ERROR(state->trace_allocators());
  }
  const size_t used_before = memory.method_allocator->used();
  {
    const TraceSpan init(tracer_of(options), EventKind::kMethodInit, name);
    ET_RETURN_IF_ERROR(MethodLoader(program, *state).run());
  }
  if (tracer_of(options) != nullptr) {
    state->trace_memory(memory.method_allocator->used() - used_before);
  }
  return method;
}

/// Puts allocators that report in the place of those for scratch memory.
Error Method::State::trace_allocators() {
  const auto wrap = [this](MemoryAllocator** allocator, const char* name) {
    if (*allocator != nullptr) {
      ET_TRY(TracedAllocator* const place, memory.method_allocator->allocate_list<TracedAllocator>(1));
      *allocator = new (place) TracedAllocator(**allocator, *options.tracer, name);
    }
    return Error::Ok;
  };
  ET_RETURN_IF_ERROR(wrap(&memory.temp_allocator, "temporary"));
  return wrap(&memory.data_allocator, "data-dependent");
}

/// Reports the memory that a loaded method holds.
void Method::State::trace_memory(size_t method_nbytes) {
  EventTracer& tracer = *options.tracer;
  tracer.record_allocation(tracer.add_allocator("method"), method_nbytes);
  const uint32_t planned = tracer.add_allocator("planned");
  for (size_t i = 0; i < meta.num_memory_planned_buffers(); ++i) {
    tracer.record_allocation(planned, static_cast<size_t>(meta.memory_planned_buffer_size(i)));
  }
}

Error MethodLoader::run() {
  ET_RETURN_IF_ERROR(check_planned_buffers());
  ET_RETURN_IF_ERROR(make_values());
  ET_RETURN_IF_ERROR(find_candidates());
  ET_RETURN_IF_ERROR(make_instructions());
  ET_RETURN_IF_ERROR(make_inputs());
  ET_RETURN_IF_ERROR(finish_values());
  ET_RETURN_IF_ERROR(make_outputs());
  ET_RETURN_IF_ERROR(make_restore_lists());
  mark_checked_instructions();
  ET_RETURN_IF_ERROR(state_.write_own_initial_values());
  ET_RETURN_IF_ERROR(init_delegates());
  return prepare_kernels();
}

Error MethodLoader::check_planned_buffers() {
  const MethodMeta& meta = state_.meta;
  for (size_t i = 0; i < meta.num_memory_planned_buffers(); ++i) {
    const uint32_t id = static_cast<uint32_t>(i + 1);
    const uint64_t needed = meta.memory_planned_buffer_size(i);
    if (needed == 0) {
      continue;
    }
    const Span<uint8_t> buffer = state_.planned_buffer(id);
    ET_CHECK_OR_RETURN(buffer.size() >= needed && reinterpret_cast<uintptr_t>(buffer.data()) % 16 == 0, InvalidArgument,
                       "method '%s' needs planned buffer %u of %" PRIu64
                       " bytes, aligned to 16; the MemoryManager has %zu bytes at %p",
                       name(), id, needed, buffer.size(), static_cast<void*>(buffer.data()));
    state_.uses_session_state =
        state_.uses_session_state || (state_.options.session != nullptr && program_.is_state_memory(id));
  }
  return Error::Ok;
}

Error MethodLoader::make_values() {
  const uint32_t n = count(plan().values());
  ET_RETURN_IF_ERROR(allocate(n, &state_.values));
  ET_RETURN_IF_ERROR(allocate(n, &value_flags_));
  size_t num_external = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const fb::Tensor* tensor = plan().values()->Get(i)->val_as_Tensor();
    num_external += tensor != nullptr && is_external(*tensor) && tensor->allocation_info() == nullptr ? 1 : 0;
  }
  ET_RETURN_IF_ERROR(allocate(num_external, &state_.external_buffers));
  for (uint32_t i = 0; i < n; ++i) {
    ET_RETURN_IF_ERROR(make_value(*plan().values()->Get(i), &state_.values[i]));
  }
  return Error::Ok;
}

Error MethodLoader::make_value(const fb::EValue& source, EValue* value) {
  switch (source.val_type()) {
    case fb::KernelTypes_Int: *value = EValue(int64_t{source.val_as_Int()->int_val()}); return Error::Ok;
    case fb::KernelTypes_Bool: *value = EValue(source.val_as_Bool()->bool_val()); return Error::Ok;
    case fb::KernelTypes_Double: *value = EValue(source.val_as_Double()->double_val()); return Error::Ok;
    case fb::KernelTypes_Tensor: return make_tensor(*source.val_as_Tensor(), value);
    case fb::KernelTypes_String: {
      std::string_view* text;
      ET_RETURN_IF_ERROR(allocate_one(&text));
      *text = view(source.val_as_String()->string_val());
      *value = EValue(text);
      return Error::Ok;
    }
    case fb::KernelTypes_IntList: return make_list<int64_t>(span(source.val_as_IntList()->items()), value);
    case fb::KernelTypes_DoubleList: {
      Span<const double>* list;
      ET_RETURN_IF_ERROR(allocate_one(&list));
      *list = span(source.val_as_DoubleList()->items());
      *value = EValue(list);
      return Error::Ok;
    }
    case fb::KernelTypes_BoolList: {
      Span<const bool>* list;
      ET_RETURN_IF_ERROR(allocate_one(&list));
      const Span<const uint8_t> bytes = span(source.val_as_BoolList()->items());  // verified to be 0 or 1
      *list = Span<const bool>(reinterpret_cast<const bool*>(bytes.data()), bytes.size());
      *value = EValue(list);
      return Error::Ok;
    }
    case fb::KernelTypes_TensorList: return make_list<Tensor>(span(source.val_as_TensorList()->items()), value);
    case fb::KernelTypes_OptionalTensorList:
      return make_list<std::optional<Tensor>>(span(source.val_as_OptionalTensorList()->items()), value);
    default: return Error::Ok;  // Null: a value is None when it is made
  }
}

void* MethodLoader::allocate_bytes(size_t count, size_t size, size_t alignment) {
  MemoryAllocator& allocator = *state_.memory.method_allocator;
  size_t nbytes;
  void* const memory = mul_overflow(count, size, &nbytes) ? nullptr : allocator.allocate(nbytes, alignment);
  if (memory == nullptr) {
    ET_LOG_ERROR(
        "method '%s': the method_allocator has no room for %zu objects of %zu bytes (%zu bytes are used); give it more "
        "memory",
        name(), count, size, allocator.used());
  }
  return memory;
}

/// A tensor before `value` whose sizes, and their order in memory, are the same and never change. Looks at the nearest
/// ones: they are mostly the neighbours' in a network.
const TensorImpl* MethodLoader::find_same_shape(const fb::Tensor& source, const EValue* value) const {
  constexpr ptrdiff_t kMostLooks = 64;
  const Span<const int32_t> sizes = span(source.sizes());
  const EValue* const first = value - std::min(kMostLooks, value - state_.values.data());
  while (source.shape_dynamism() == fb::TensorShapeDynamism_STATIC && value != first) {
    const TensorImpl* const other = (--value)->is_tensor() ? value->to_tensor().unsafe_impl() : nullptr;
    if (other != nullptr && other->dynamism() == TensorShapeDynamism::kStatic && other->dim() == sizes.size() &&
        std::equal(sizes.begin(), sizes.end(), other->sizes().begin()) &&
        equal(other->dim_order(), span(source.dim_order()))) {
      return other;
    }
  }
  return nullptr;
}

Error MethodLoader::make_tensor(const fb::Tensor& source, EValue* value) {
  const Span<const int32_t> bound = span(source.sizes());
  const size_t rank = bound.size();
  const auto dynamism = has(Feature::kDynamicShapes) ? static_cast<TensorShapeDynamism>(source.shape_dynamism())
                                                     : TensorShapeDynamism::kStatic;
  TensorImpl* impl;
  Span<int64_t> sizes;
  Span<int64_t> strides;
  ET_RETURN_IF_ERROR(allocate_one(&impl));
  if (const TensorImpl* const same = find_same_shape(source, value)) {
    sizes = {const_cast<int64_t*>(same->sizes().data()), rank};  // which nothing changes
    strides = {const_cast<int64_t*>(same->strides().data()), rank};
  } else {
    ET_RETURN_IF_ERROR(allocate(rank, &sizes));
    ET_RETURN_IF_ERROR(allocate(rank, &strides));
  }
  // A tensor that has no memory until its size is known is empty until then. Our files say so with a size of 0, beside
  // sizes that kernels may want to know before the first call.
  const bool is_unknown = has(Feature::kDynamicShapes) && dynamism == TensorShapeDynamism::kDynamicUnbound &&
                          source.allocation_info() == nullptr && tensor_nbytes(source) != 0;
  for (size_t d = 0; d < rank; ++d) {
    sizes[d] = is_unknown ? 0 : bound[d];
  }
  *impl = TensorImpl(static_cast<ScalarType>(source.scalar_type()), rank, sizes.data(), strides.data(),
                     span(source.dim_order()).data(), nullptr, 0, dynamism);
  *value = EValue(Tensor(impl));
  return bind_tensor(source, impl);
}

Error MethodLoader::bind_tensor(const fb::Tensor& source, TensorImpl* impl) {
  const size_t nbytes = static_cast<size_t>(tensor_nbytes(source));
  if (source.allocation_info() != nullptr) {
    const Span<uint8_t> buffer = state_.planned_buffer(source.allocation_info()->memory_id());
    impl->set_data(buffer.data() + allocation_offset(*source.allocation_info()), nbytes);
  } else if (is_external(source)) {
    FreeableBuffer& bytes = state_.external_buffers[num_external_++];
    ET_TRY(bytes, load_external_tensor(state_.options.external_data, source));
    impl->set_data(const_cast<uint8_t*>(bytes.data()), nbytes);
    impl->set_read_only(true);
  } else if (source.data_buffer_idx() > 0) {
    impl->set_data(const_cast<uint8_t*>(program_.constant_data(source.data_buffer_idx())), nbytes);
    impl->set_read_only(true);
  } else if (has(Feature::kDynamicShapes) && impl->dim() == 0 &&
             impl->dynamism() == TensorShapeDynamism::kDynamicUnbound) {
    Span<uint8_t> element;  // one element, whatever the data is
    ET_RETURN_IF_ERROR(allocate(nbytes, &element));
    impl->set_data(element.data(), nbytes);
  }
  return Error::Ok;
}

Error MethodLoader::make_inputs() {
  const Span<const int32_t> indices = span(plan().inputs());
  ET_RETURN_IF_ERROR(allocate(indices.size(), &state_.inputs));
  for (size_t i = 0; i < indices.size(); ++i) {
    const size_t index = static_cast<size_t>(indices[i]);
    InputSlot& slot = state_.inputs[i];
    slot.value = &state_.values[index];
    uint16_t& flags = value_flags_[index];
    if (slot.value->is_number() && (flags & kUsed) != 0) {
      flags |= kVariable;
      slot.binding = InputSlot::Binding::kNumber;
    }
    if (!slot.value->is_tensor()) {
      continue;
    }
    const fb::Tensor& source = *plan().values()->Get(static_cast<uint32_t>(index))->val_as_Tensor();
    const bool is_planned = source.allocation_info() != nullptr;
    const bool is_written = (flags & kWritten) != 0;
    if (is_planned && (is_written || !has_own_place(index))) {
      slot.binding = is_written ? InputSlot::Binding::kCopiedBack : InputSlot::Binding::kCopied;
    } else {
      slot.binding = is_written ? InputSlot::Binding::kWritten : InputSlot::Binding::kBorrowed;
      flags |= is_written ? kInput | kLate : kInput;  // the caller's tensor may be read-only
    }
    if (slot.binding == InputSlot::Binding::kBorrowed && reads_past(flags)) {
      slot.binding = InputSlot::Binding::kBorrowedPast;
      slot.memory = is_planned ? slot.value->to_tensor().unsafe_impl()->data() : nullptr;
      slot.nbytes = is_planned ? slot.value->to_tensor().nbytes() : 0;
    }
    if (has(Feature::kDynamicShapes) && source.shape_dynamism() != fb::TensorShapeDynamism_STATIC &&
        state_.shapes == nullptr) {
      slot.dynamic_dims = 0xffff;
    }
  }
  if (has(Feature::kDynamicShapes) && state_.shapes != nullptr) {
    Span<int64_t> symbols;
    ET_RETURN_IF_ERROR(allocate(count(state_.shapes->symbols()), &symbols));
    state_.symbol_values = symbols;
    for (const fb::shapes::SizeRelation& relation : span(state_.shapes->inputs())) {
      if (relation.dim() >= 0) {
        state_.inputs[relation.value()].dynamic_dims |= static_cast<uint16_t>(1u << relation.dim());
      } else {
        state_.inputs[relation.value()].binding = InputSlot::Binding::kNumber;
      }
    }
  }
  return Error::Ok;
}

Error MethodLoader::finish_values() {
  for (size_t i = 0; i < state_.values.size(); ++i) {
    const EValue& value = state_.values[i];
    uint16_t& flags = value_flags_[i];
    uint16_t items = 0;
    for_each_item(value, [&](uint16_t item) { items |= item; });
    flags |= items & kLate;
    // Items that never change are read now, once for all.
    const bool is_fixed = (items & kVariable) == 0;
    if (value.is_int_list()) {
      static_cast<void>(value.to_int_list());
      const_cast<BoxedList<int64_t>&>(value.int_list_items()).is_constant = is_fixed;
    } else if (value.is_tensor_list()) {
      static_cast<void>(value.to_tensor_list());
      const_cast<BoxedList<Tensor>&>(value.tensor_list_items()).is_constant = is_fixed;
    } else if (value.is_optional_tensor_list()) {
      static_cast<void>(value.to_optional_tensor_list());
      const_cast<BoxedList<std::optional<Tensor>>&>(value.optional_tensor_list_items()).is_constant = is_fixed;
    } else if (value.is_tensor()) {
      ET_CHECK_OR_RETURN((flags & kWritten) == 0 || !value.to_tensor().unsafe_impl()->read_only(), InvalidProgram,
                         "method '%s': value %zu is a constant, but an operator writes to it", name(), i);
    }
  }
  return Error::Ok;
}

/// True for a planned tensor of which no other value has a byte, and that begins without a value. No view of it and
/// nothing that is made in place can then depend on where it lies.
bool MethodLoader::has_own_place(size_t index) const {
  constexpr size_t kMostLooks = size_t{1} << 22;  // a load takes no more time than its file has bytes, some times over
  const fb::Tensor& tensor = *plan().values()->Get(static_cast<uint32_t>(index))->val_as_Tensor();
  const size_t num_ends = count(plan().inputs()) + count(plan().outputs());
  if (count(plan().values()) + num_ends > kMostLooks / std::max<size_t>(num_ends, 1)) {
    return false;  // its bytes are copied
  }
  if (tensor.allocation_info() == nullptr || tensor.data_buffer_idx() > 0 || is_external(tensor)) {
    return false;
  }
  const uint32_t memory_id = tensor.allocation_info()->memory_id();
  if (program_.is_state_memory(memory_id)) {
    return false;
  }
  const uint64_t begin = allocation_offset(*tensor.allocation_info());
  const uint64_t end = begin + static_cast<uint64_t>(tensor_nbytes(tensor));
  for (uint32_t i = 0; i < count(plan().values()); ++i) {
    const fb::Tensor* other = plan().values()->Get(i)->val_as_Tensor();
    if (i == index || other == nullptr || other->allocation_info() == nullptr ||
        other->allocation_info()->memory_id() != memory_id) {
      continue;
    }
    const uint64_t start = allocation_offset(*other->allocation_info());
    if (start < end && begin < start + static_cast<uint64_t>(tensor_nbytes(*other))) {
      return false;
    }
  }
  return true;
}

Error MethodLoader::make_outputs() {
  const Span<const int32_t> indices = span(plan().outputs());
  ET_RETURN_IF_ERROR(allocate(indices.size(), &state_.outputs));
  for (size_t i = 0; i < indices.size(); ++i) {
    const size_t index = static_cast<size_t>(indices[i]);
    OutputSlot& slot = state_.outputs[i];
    slot.value = &state_.values[index];
    if (!slot.value->is_tensor()) {
      continue;
    }
    slot.tensor = slot.value->to_tensor().unsafe_impl();
    uint16_t& flags = value_flags_[index];
    bool is_open = slot.tensor->data() == nullptr && (flags & (kLate | kRebound | kInput | kOpenOutput)) == 0;
    const auto is_same = [&slot](const InputSlot& input) { return input.value == slot.value; };
    if ((flags & (kLate | kRebound | kRepointed | kOpenOutput)) == 0 && has_own_place(index) &&
        std::none_of(state_.inputs.begin(), state_.inputs.end(), is_same)) {
      slot.own_place = slot.tensor->data();
      slot.own_nbytes = slot.tensor->nbytes();
      is_open = true;
    }
    if (is_open) {
      slot.binding = reads_past(flags) ? OutputSlot::Binding::kOpenPast : OutputSlot::Binding::kOpen;
      flags |= kOpenOutput;  // one that is returned twice is opened once
    }
  }
  // Every tensor that an instruction uses has memory now, or a rule by which it gets some.
  for (size_t i = 0; i < state_.values.size(); ++i) {
    const EValue& value = state_.values[i];
    if (!value.is_tensor() || (value_flags_[i] & (kUsed | kLate | kInput | kOpenOutput)) != kUsed) {
      continue;
    }
    const TensorImpl* impl = value.to_tensor().unsafe_impl();
    ET_CHECK_OR_RETURN(
        impl->data() != nullptr || impl->numel() == 0, InvalidProgram,
        "method '%s': tensor value %zu is used, but nothing gives it memory (it is neither planned, nor a "
        "constant, an input or an output)",
        name(), i);
  }
  return Error::Ok;
}

Error MethodLoader::make_restore_lists() {
  const auto is_restored = [this](size_t i) {
    const EValue& value = state_.values[i];
    if (!value.is_tensor() || (value_flags_[i] & kInput) != 0) {
      return false;
    }
    return (value_flags_[i] & kRepointed) != 0 ||
           value.to_tensor().unsafe_impl()->dynamism() == TensorShapeDynamism::kDynamicUnbound;
  };
  size_t num_restored = 0;
  size_t num_rebound = 0;
  for (size_t i = 0; i < state_.values.size(); ++i) {
    num_restored += is_restored(i) ? 1 : 0;
    num_rebound += (value_flags_[i] & kRebound) != 0 ? 1 : 0;
  }
  ET_RETURN_IF_ERROR(allocate(num_restored, &state_.restored));
  ET_RETURN_IF_ERROR(allocate(num_rebound, &state_.rebound));
  for (size_t i = 0; i < state_.values.size(); ++i) {
    EValue& value = state_.values[i];
    if (is_restored(i)) {
      TensorImpl* impl = value.to_tensor().unsafe_impl();
      state_.restored[--num_restored] = {impl, impl->data(), impl->capacity(), impl->read_only()};
    }
    if ((value_flags_[i] & kRebound) != 0) {
      state_.rebound[--num_rebound] = {&value, value};
    }
  }
  return Error::Ok;
}

bool MethodLoader::is_constant(const void* opaque, const EValue& value) {
  const auto& loader = *static_cast<const MethodLoader*>(opaque);
  const Span<EValue> values = loader.state_.values;
  if (&value < values.begin() || &value >= values.end()) {
    return false;
  }
  const uint16_t flags = loader.value_flags_[static_cast<size_t>(&value - values.begin())];
  switch (value.tag()) {
    case Tag::kTensor: return (flags & (kVariable | kLate)) == 0 && value.to_tensor().unsafe_impl()->read_only();
    case Tag::kIntList: return value.int_list_items().is_constant;
    case Tag::kTensorList:
    case Tag::kOptionalTensorList: return false;  // the tensors in it answer for themselves
    default: return (flags & kVariable) == 0;
  }
}

}  // namespace et::runtime
