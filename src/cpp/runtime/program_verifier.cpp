#include "runtime/program_verifier.h"

#include <cstdarg>

#include "base/checked_math.h"
#include "base/dtype.h"
#include "base/format.h"
#include "runtime/tensor.h"

namespace et::runtime {
namespace {

namespace fb = schema;

#define ET_VERIFY(condition, ...) ET_CHECK_OR_RETURN(condition, InvalidProgram, __VA_ARGS__)
/// The same inside a method: the message begins with its name and with what is looked at.
#ifdef ET_STRIP_MESSAGES
#define ET_VERIFY_PLAN_AS(code, condition, ...) ET_CHECK_OR_RETURN(condition, code, __VA_ARGS__)
#else
#define ET_VERIFY_PLAN_AS(code, condition, ...)           \
  do {                                                    \
    if (__builtin_expect(!(condition), 0)) {              \
      return refuse(ET_LINE_AND_CODE(code), __VA_ARGS__); \
    }                                                     \
  } while (false)
#endif
#define ET_VERIFY_PLAN(condition, ...) ET_VERIFY_PLAN_AS(InvalidProgram, condition, __VA_ARGS__)
#define ET_VERIFY_FEATURE(feature, is_unused, what)            \
  ET_VERIFY_PLAN_AS(NotSupported, has(feature) || (is_unused), \
                    "has %s, which this build leaves out (runtime/features.h)", what)

/// Longest operator name with its overload; MethodLoader joins them in a buffer of this size.
constexpr size_t kMaxOperatorName = 200;
/// Longest method name. Names are compared with each other.
constexpr size_t kMaxMethodName = 255;
constexpr size_t kMaxBuffers = 256;

class Verifier {
 public:
  Verifier(const fb::Program& program, const schema::FileLayout& layout)
      : program_(program), layout_(layout), budget_(layout.flatbuffer_size) {}

  Error run() {
    ET_VERIFY(program_.version() == 0, "the program has version %u, this runtime reads version 0; update the runtime",
              program_.version());
    ET_VERIFY(count(program_.constant_buffer()) == 0,
              "constants are stored inside the tables (constant_buffer), a form that is no longer read; export again");
    ET_RETURN_IF_ERROR(verify_segments());
    const uint32_t num_plans = count(program_.execution_plan());
    ET_VERIFY(num_plans > 0 && num_plans <= 4096, "the program has %u methods, must be 1 to 4096", num_plans);
    for (uint32_t i = 0; i < num_plans; ++i) {
      plan_ = program_.execution_plan()->Get(i);
      ET_VERIFY(count(plan_->name()) <= kMaxMethodName && budget_.is_name(plan_->name()),
                "method %u has no name, one of over %zu bytes, or one that is not UTF-8", i, kMaxMethodName);
      name_ = plan_->name()->c_str();
      look_at(nullptr, 0);
      for (uint32_t other = 0; other < i; ++other) {
        ET_VERIFY_PLAN(view(program_.execution_plan()->Get(other)->name()) != view(plan_->name()),
                       "there are two methods of this name");
      }
      ET_RETURN_IF_ERROR(verify_plan());
    }
    return Error::Ok;
  }

 private:
  const fb::DataSegment* segment(uint64_t index) const {
    return index < count(program_.segments()) ? program_.segments()->Get(static_cast<uint32_t>(index)) : nullptr;
  }

  Error verify_segments() {
    for (uint32_t i = 0; i < count(program_.segments()); ++i) {
      const fb::DataSegment* s = program_.segments()->Get(i);
      ET_VERIFY(s->offset() <= layout_.segment_data_size && s->size() <= layout_.segment_data_size - s->offset(),
                "segment %u: %" PRIu64 " bytes at %" PRIu64 " are not inside the %" PRIu64 " bytes of segments", i,
                s->size(), s->offset(), layout_.segment_data_size);
    }
    if (program_.constant_segment() != nullptr) {
      ET_RETURN_IF_ERROR(verify_subsegments(*program_.constant_segment(), "constant_segment"));
    }
    for (uint32_t i = 0; i < count(program_.mutable_data_segments()); ++i) {
      ET_RETURN_IF_ERROR(verify_subsegments(*program_.mutable_data_segments()->Get(i), "mutable_data_segments"));
    }
    for (uint32_t i = 0; i < count(program_.named_data()); ++i) {
      const fb::NamedData* entry = program_.named_data()->Get(i);
      ET_VERIFY(budget_.is_name(entry->key()), "named data %u has no key or one that is not UTF-8", i);
      ET_VERIFY(segment(entry->segment_index()) != nullptr, "named data '%s': segment %u, there are %u",
                entry->key()->c_str(), entry->segment_index(), count(program_.segments()));
    }
    for (uint32_t i = 0; i < count(program_.backend_delegate_data()); ++i) {
      const auto* data = program_.backend_delegate_data()->Get(i)->data();
      ET_VERIFY(data == nullptr || reinterpret_cast<uintptr_t>(data->Data()) % 16 == 0,
                "inline payload %u is not aligned to 16 bytes", i);
    }
    return Error::Ok;
  }

  Error verify_subsegments(const fb::SubsegmentOffsets& table, const char* what) {
    const Span<const uint64_t> offsets = span(table.offsets());
    if (offsets.size() <= 1) {  // only the reserved entry: nothing is stored
      return Error::Ok;
    }
    const fb::DataSegment* s = segment(table.segment_index());
    ET_VERIFY(s != nullptr && is_aligned(offsets), "%s: segment %u, there are %u", what, table.segment_index(),
              count(program_.segments()));
    ET_RETURN_IF_ERROR(budget_.spend(offsets.size()));
    for (size_t i = 0; i < offsets.size(); ++i) {
      ET_VERIFY(offsets[i] <= s->size(), "%s: entry %zu is at %" PRIu64 ", the segment has %" PRIu64 " bytes", what, i,
                offsets[i], s->size());
    }
    return Error::Ok;
  }

  Error verify_plan() {
    num_values_ = count(plan_->values());
    const Span<const int64_t> buffers = span(plan_->non_const_buffer_sizes());
    ET_VERIFY_PLAN(is_aligned(buffers) && buffers.size() <= kMaxBuffers, "%zu planned buffers, at most %zu are read",
                   buffers.size(), kMaxBuffers);
    for (size_t i = 0; i < buffers.size(); ++i) {
      ET_VERIFY_PLAN(buffers[i] >= 0, "planned buffer %zu has %" PRId64 " bytes", i, buffers[i]);
    }
    for (uint32_t i = 0; i < count(plan_->non_const_buffer_device()); ++i) {
      ET_VERIFY_PLAN(plan_->non_const_buffer_device()->Get(i)->device_type() == fb::DeviceType_CPU,
                     "a planned buffer is meant for another device than the CPU");
    }
    for (uint32_t i = 0; i < num_values_; ++i) {
      ET_RETURN_IF_ERROR(verify_value(i));
    }
    look_at(nullptr, 0);
    ET_RETURN_IF_ERROR(verify_indices(span(plan_->inputs()), "inputs"));
    ET_RETURN_IF_ERROR(verify_indices(span(plan_->outputs()), "outputs"));
    for (const int32_t index : span(plan_->inputs())) {
      const fb::Tensor* tensor = value(index)->val_as_Tensor();
      ET_VERIFY_PLAN(tensor == nullptr || (tensor->data_buffer_idx() == 0 && !is_external(*tensor)),
                     "input value %d is a constant", index);
    }
    for (uint32_t i = 0; i < count(plan_->operators()); ++i) {
      const fb::Operator* op = plan_->operators()->Get(i);
      ET_VERIFY_PLAN(view(op->name()).size() + view(op->overload()).size() + 1 < kMaxOperatorName &&
                         budget_.is_name(op->name()) && budget_.is_text(op->overload()),
                     "operator %u has no name, one that is not UTF-8, or one of over %zu bytes", i, kMaxOperatorName);
    }
    ET_RETURN_IF_ERROR(verify_delegates());
    look_at(nullptr, 0);
    if (plan_->container_meta_type() != nullptr) {
      ET_VERIFY_PLAN(budget_.is_text(plan_->container_meta_type()->encoded_inp_str()) &&
                         budget_.is_text(plan_->container_meta_type()->encoded_out_str()),
                     "the structure of inputs or outputs is not UTF-8");
    }
    ET_VERIFY_PLAN(count(plan_->chains()) <= 1, "%u chains of instructions, the format has one",
                   count(plan_->chains()));
    return count(plan_->chains()) == 0 ? Error::Ok : verify_chain(*plan_->chains()->Get(0));
  }

  /// Names the part that the messages to come are about; nullptr: the method itself.
  void look_at(const char* what, uint32_t index) {
    what_ = what;
    index_ = index;
  }

#ifndef ET_STRIP_MESSAGES
  /// Logs "method 'forward': tensor value 3: …" and returns the code.
  __attribute__((cold, noinline, format(printf, 3, 4))) Error refuse(uint32_t line_and_code, const char* format,
                                                                     ...) const {
    char text[320];
    va_list arguments;
    va_start(arguments, format);
    format_arguments(text, sizeof(text), format, arguments);
    va_end(arguments);
    return what_ == nullptr ? detail::log_error(ET_FILE_NAME, line_and_code, "method '%s': %s", name_, text)
                            : et::detail::log_error(ET_FILE_NAME, line_and_code, "method '%s': %s %u: %s", name_, what_,
                                                    index_, text);
  }
#endif

  const fb::EValue* value(int64_t index) const { return plan_->values()->Get(static_cast<uint32_t>(index)); }
  bool is_value(int64_t index) const { return index >= 0 && index < static_cast<int64_t>(num_values_); }

  Error verify_indices(Span<const int32_t> indices, const char* what) {
    ET_RETURN_IF_ERROR(budget_.spend(indices.size()));
    for (size_t i = 0; i < indices.size(); ++i) {
      ET_VERIFY_PLAN(is_value(indices[i]), "%s[%zu] is value %d, there are %u values", what, i, indices[i],
                     num_values_);
    }
    return Error::Ok;
  }

  /// Items of a list: every one must be a value of type `wanted` (or `also`); -1 is allowed for optional tensors.
  template <typename T>
  Error verify_list(Span<const T> items, fb::KernelTypes wanted, fb::KernelTypes also, bool optional) {
    ET_VERIFY_PLAN(is_aligned(items), "list is not aligned");
    ET_RETURN_IF_ERROR(budget_.spend(items.size()));
    for (size_t i = 0; i < items.size(); ++i) {
      if (optional && items[i] == -1) {
        continue;
      }
      ET_VERIFY_PLAN(is_value(items[i]), "item %zu of the list is value %" PRId64 ", there are %u values", i,
                     static_cast<int64_t>(items[i]), num_values_);
      const fb::KernelTypes type = value(items[i])->val_type();
      ET_VERIFY_PLAN(type == wanted || type == also, "item %zu of the list is of kind %d, must be %d", i,
                     static_cast<int>(type), static_cast<int>(wanted));
    }
    return Error::Ok;
  }

  Error verify_value(uint32_t index) {
    const fb::EValue& v = *value(index);
    look_at(v.val_type() == fb::KernelTypes_Tensor ? "tensor value" : "value", index);
    ET_VERIFY_PLAN(v.val() != nullptr, "not set (kind %d)", static_cast<int>(v.val_type()));
    switch (v.val_type()) {
      case fb::KernelTypes_Null:
      case fb::KernelTypes_Int:
      case fb::KernelTypes_Bool:
      case fb::KernelTypes_Double: return Error::Ok;
      case fb::KernelTypes_Tensor: return verify_tensor(*v.val_as_Tensor());
      case fb::KernelTypes_String:
        ET_VERIFY_PLAN(v.val_as_String()->string_val() != nullptr && budget_.is_text(v.val_as_String()->string_val()),
                       "the string is missing or not UTF-8");
        return Error::Ok;
      case fb::KernelTypes_IntList:
        return verify_list(span(v.val_as_IntList()->items()), fb::KernelTypes_Int, fb::KernelTypes_Int, false);
      case fb::KernelTypes_DoubleList:
        ET_VERIFY_PLAN(is_aligned(span(v.val_as_DoubleList()->items())), "list is not aligned");
        return Error::Ok;
      case fb::KernelTypes_BoolList: {
        const Span<const uint8_t> items = span(v.val_as_BoolList()->items());
        ET_RETURN_IF_ERROR(budget_.spend(items.size()));
        for (const uint8_t item : items) {
          ET_VERIFY_PLAN(item <= 1, "a bool is %d", item);
        }
        return Error::Ok;
      }
      case fb::KernelTypes_TensorList:
        return verify_list(span(v.val_as_TensorList()->items()), fb::KernelTypes_Tensor, fb::KernelTypes_Tensor, false);
      case fb::KernelTypes_OptionalTensorList:
        return verify_list(span(v.val_as_OptionalTensorList()->items()), fb::KernelTypes_Tensor, fb::KernelTypes_Null,
                           true);
      default: break;
    }
    ET_VERIFY_PLAN(false, "unknown kind %d; the file is of a newer version", static_cast<int>(v.val_type()));
    return Error::Ok;
  }

  Error verify_tensor(const fb::Tensor& t) {
    const int dtype = t.scalar_type();
    ET_VERIFY_PLAN(is_valid_dtype(dtype), "dtype %d is not supported by this runtime", dtype);
    ET_VERIFY_PLAN(t.storage_offset() == 0 && t.layout() == 0, "storage_offset %d and layout %d, must be 0",
                   t.storage_offset(), t.layout());
    const Span<const int32_t> sizes = span(t.sizes());
    const Span<const uint8_t> dim_order = span(t.dim_order());
    ET_VERIFY_PLAN(sizes.size() <= kMaxRank && dim_order.size() == sizes.size(),
                   "%zu sizes and %zu entries of dim_order, must be equal and at most %zu", sizes.size(),
                   dim_order.size(), kMaxRank);
    uint32_t seen = 0;
    int64_t extent = static_cast<int64_t>(element_size(static_cast<ScalarType>(dtype)));
    const uint64_t alignment = static_cast<uint64_t>(extent);
    for (size_t d = 0; d < sizes.size(); ++d) {
      ET_VERIFY_PLAN(sizes[d] >= 0, "size %d of dimension %zu is negative", sizes[d], d);
      const bool overflows = mul_overflow(extent, int64_t{sizes[d] > 0 ? sizes[d] : 1}, &extent);
      ET_VERIFY_PLAN(!overflows && static_cast<uint64_t>(extent) <= SIZE_MAX / 2,
                     "its number of bytes does not fit the address space");
      seen |= dim_order[d] < kMaxRank ? 1u << dim_order[d] : 0;
    }
    ET_VERIFY_PLAN(seen == (1u << sizes.size()) - 1, "dim_order is not a permutation of its dimensions");
    const int dynamism = t.shape_dynamism();
    ET_VERIFY_PLAN(dynamism >= 0 && dynamism <= 2, "shape_dynamism %d is not known", dynamism);
    ET_VERIFY_FEATURE(Feature::kDynamicShapes, dynamism == fb::TensorShapeDynamism_STATIC, "dynamic shapes");
    return verify_placement(t, alignment);
  }

  /// Where the bytes of a tensor lie. Units: bytes.
  Error verify_placement(const fb::Tensor& t, uint64_t alignment) {
    const uint64_t nbytes = tensor_nbytes(t);
    const fb::AllocationDetails* allocation = t.allocation_info();
    if (allocation != nullptr) {
      const Span<const int64_t> buffers = span(plan_->non_const_buffer_sizes());
      const uint64_t offset = allocation_offset(*allocation);
      const uint32_t id = allocation->memory_id();
      ET_VERIFY_PLAN(id >= 1 && id < buffers.size(), "memory_id %u, must be 1 to %zd", id,
                     static_cast<ptrdiff_t>(buffers.size()) - 1);
      const uint64_t capacity = static_cast<uint64_t>(buffers[id]);
      ET_VERIFY_PLAN(offset <= capacity && nbytes <= capacity - offset && is_multiple_of(offset, alignment),
                     "%" PRIu64 " bytes at offset %" PRIu64
                     " are not inside (or not aligned in) planned buffer %u of %" PRIu64 " bytes",
                     nbytes, offset, id, capacity);
    }
    const fb::ExtraTensorInfo* extra = t.extra_tensor_info();
    if (extra != nullptr) {
      ET_VERIFY_PLAN(budget_.is_text(extra->fully_qualified_name()), "its name is not UTF-8");
      ET_VERIFY_PLAN(
          extra->location() == fb::TensorDataLocation_SEGMENT ||
              (extra->location() == fb::TensorDataLocation_EXTERNAL && budget_.is_name(extra->fully_qualified_name())),
          "location %d without a name, or not known", static_cast<int>(extra->location()));
      ET_VERIFY_PLAN(extra->device_type() == fb::DeviceType_CPU, "is on another device than the CPU");
      ET_VERIFY_FEATURE(Feature::kExternalTensors, extra->location() == fb::TensorDataLocation_SEGMENT,
                        "constants in other files");
      ET_VERIFY_FEATURE(Feature::kKeptMemory, allocation == nullptr || count(extra->fully_qualified_name()) == 0,
                        "state");
    }
    const uint32_t data = t.data_buffer_idx();
    if (data == 0 || is_external(t)) {
      return Error::Ok;
    }
    const uint64_t table_index = extra == nullptr ? 0 : extra->mutable_data_segments_idx();
    const fb::SubsegmentOffsets* table = nullptr;
    if (allocation == nullptr) {
      table = program_.constant_segment();
    } else if (table_index < count(program_.mutable_data_segments())) {
      table = program_.mutable_data_segments()->Get(static_cast<uint32_t>(table_index));
    }
    const Span<const uint64_t> offsets = table == nullptr ? Span<const uint64_t>() : span(table->offsets());
    ET_VERIFY_PLAN(data < offsets.size(), "data_buffer_idx %u, there are %zu entries", data, offsets.size());
    const fb::DataSegment& s = *segment(table->segment_index());
    const uint64_t start = layout_.segment_base_offset + s.offset() + offsets[data];
    ET_VERIFY_PLAN(nbytes <= s.size() - offsets[data],
                   "%" PRIu64 " bytes at %" PRIu64 " are not inside the segment of %" PRIu64 " bytes", nbytes,
                   offsets[data], s.size());
    ET_VERIFY_PLAN(allocation != nullptr || is_multiple_of(start, alignment),
                   "its constant stands at byte %" PRIu64 ", which is not aligned to its dtype", start);
    return Error::Ok;
  }

  Error verify_delegates() {
    for (uint32_t i = 0; i < count(plan_->delegates()); ++i) {
      const fb::BackendDelegate* delegate = plan_->delegates()->Get(i);
      look_at("delegate", i);
      ET_VERIFY_FEATURE(Feature::kDelegates, false, "delegates");
      ET_VERIFY_PLAN(budget_.is_name(delegate->id()), "no backend name or one that is not UTF-8");
      const fb::BackendDelegateDataReference* data = delegate->processed();
      ET_VERIFY_PLAN(data != nullptr, "no payload");
      const bool is_inline = data->location() == fb::DataLocation_INLINE;
      ET_VERIFY_PLAN(is_inline || data->location() == fb::DataLocation_SEGMENT, "location %d is not known",
                     static_cast<int>(data->location()));
      const uint32_t limit = is_inline ? count(program_.backend_delegate_data()) : count(program_.segments());
      ET_VERIFY_PLAN(data->index() < limit, "payload %u, there are %u", data->index(), limit);
      for (uint32_t k = 0; k < count(delegate->compile_specs()); ++k) {
        ET_VERIFY_PLAN(budget_.is_name(delegate->compile_specs()->Get(k)->key()),
                       "compile spec %u has no key or one that is not UTF-8", k);
      }
    }
    return Error::Ok;
  }

  Error verify_chain(const fb::Chain& chain) {
    const uint32_t length = count(chain.instructions());
    for (uint32_t i = 0; i < length; ++i) {
      const fb::Instruction& instruction = *chain.instructions()->Get(i);
      look_at("instruction", i);
      ET_VERIFY_PLAN(instruction.instr_args() != nullptr, "not set (kind %d)",
                     static_cast<int>(instruction.instr_args_type()));
      switch (instruction.instr_args_type()) {
        case fb::InstructionArguments_KernelCall: {
          const fb::KernelCall& call = *instruction.instr_args_as_KernelCall();
          ET_VERIFY_PLAN(call.op_index() >= 0 && static_cast<uint32_t>(call.op_index()) < count(plan_->operators()),
                         "op_index %d, there are %u operators", call.op_index(), count(plan_->operators()));
          ET_RETURN_IF_ERROR(verify_indices(span(call.args()), "arguments of a kernel"));
          break;
        }
        case fb::InstructionArguments_DelegateCall: {
          ET_VERIFY_FEATURE(Feature::kDelegates, false, "delegates");
          const fb::DelegateCall& call = *instruction.instr_args_as_DelegateCall();
          ET_VERIFY_PLAN(
              call.delegate_index() >= 0 && static_cast<uint32_t>(call.delegate_index()) < count(plan_->delegates()),
              "delegate_index %d, there are %u delegates", call.delegate_index(), count(plan_->delegates()));
          ET_RETURN_IF_ERROR(verify_indices(span(call.args()), "arguments of a delegate"));
          break;
        }
        case fb::InstructionArguments_MoveCall:
          ET_VERIFY_FEATURE(Feature::kControlFlow, false, "moves");
          ET_RETURN_IF_ERROR(verify_move(*instruction.instr_args_as_MoveCall()));
          break;
        case fb::InstructionArguments_JumpFalseCall: {
          ET_VERIFY_FEATURE(Feature::kControlFlow, false, "jumps");
          const fb::JumpFalseCall& jump = *instruction.instr_args_as_JumpFalseCall();
          ET_VERIFY_PLAN(
              jump.destination_instruction() >= 0 && static_cast<uint32_t>(jump.destination_instruction()) <= length,
              "jump to %d, there are %u instructions", jump.destination_instruction(), length);
          ET_VERIFY_PLAN(is_value(jump.cond_value_index()), "condition is value %d, there are %u values",
                         jump.cond_value_index(), num_values_);
          const fb::EValue* condition = value(jump.cond_value_index());
          const fb::Tensor* tensor = condition->val_as_Tensor();
          ET_VERIFY_PLAN(condition->val_type() == fb::KernelTypes_Bool ||
                             (tensor != nullptr && tensor->scalar_type() == fb::ScalarType_Bool),
                         "condition (value %d) is neither a Bool nor a bool tensor", jump.cond_value_index());
          break;
        }
        case fb::InstructionArguments_FreeCall: {
          ET_VERIFY_FEATURE(Feature::kControlFlow, false, "memory that is given back");
          const int32_t index = instruction.instr_args_as_FreeCall()->value_index();
          ET_VERIFY_PLAN(is_value(index) && value(index)->val_type() == fb::KernelTypes_Tensor,
                         "frees value %d, which is no tensor", index);
          break;
        }
        default:
          ET_VERIFY_PLAN(false, "unknown kind %d; the file is of a newer version",
                         static_cast<int>(instruction.instr_args_type()));
      }
    }
    return Error::Ok;
  }

  Error verify_move(const fb::MoveCall& move) {
    ET_VERIFY_PLAN(is_value(move.move_from()) && is_value(move.move_to()), "moves value %d to %d, there are %u values",
                   move.move_from(), move.move_to(), num_values_);
    const fb::EValue& from = *value(move.move_from());
    const fb::EValue& to = *value(move.move_to());
    ET_VERIFY_PLAN(from.val_type() == to.val_type() && from.val_type() <= fb::KernelTypes_Tensor,
                   "moves value %d of kind %d to value %d of kind %d, must be equal and no list", move.move_from(),
                   static_cast<int>(from.val_type()), move.move_to(), static_cast<int>(to.val_type()));
    const fb::Tensor* a = from.val_as_Tensor();
    const fb::Tensor* b = to.val_as_Tensor();
    if (a != nullptr) {
      // Kernels are prepared for the destination as it is described, so the source must be one of those.
      bool fits = a->scalar_type() == b->scalar_type() && equal(span(a->dim_order()), span(b->dim_order())) &&
                  a->shape_dynamism() <= b->shape_dynamism();
      for (size_t d = 0; fits && d < count(a->sizes()); ++d) {
        const int32_t have = span(a->sizes())[d];
        const int32_t want = span(b->sizes())[d];
        fits = b->shape_dynamism() == fb::TensorShapeDynamism_STATIC          ? have == want
               : b->shape_dynamism() == fb::TensorShapeDynamism_DYNAMIC_BOUND ? have <= want
                                                                              : true;
      }
      ET_VERIFY_PLAN(fits, "moves tensor %d to tensor %d of another dtype, rank, dim_order or larger size",
                     move.move_from(), move.move_to());
    }
    return Error::Ok;
  }

  const fb::Program& program_;
  const schema::FileLayout& layout_;
  WorkBudget budget_;
  const fb::ExecutionPlan* plan_ = nullptr;
  const char* name_ = "";
  uint32_t num_values_ = 0;
  const char* what_ = nullptr;  // "value", "instruction", …: the part of the method that is looked at
  uint32_t index_ = 0;          // and which one it is
};

}  // namespace

Error WorkBudget::spend(uint64_t items) {
  ET_VERIFY(items <= left_,
            "tables refer to the same lists or strings again and again; the file is damaged or hostile");
  left_ -= items;
  return Error::Ok;
}

bool WorkBudget::is_text(const flatbuffers::String* text) {
  return text == nullptr || (spend(text->size() / 4 + 1) == Error::Ok && is_utf8(view(text)));
}

Error verify_program(const fb::Program& program, const schema::FileLayout& layout) {
  return Verifier(program, layout).run();
}

uint64_t tensor_nbytes(const fb::Tensor& tensor) {
  uint64_t nbytes = element_size(static_cast<ScalarType>(tensor.scalar_type()));
  for (const int32_t size : span(tensor.sizes())) {
    nbytes *= static_cast<uint64_t>(size);
  }
  return nbytes;
}

bool is_utf8(std::string_view text) {
  const auto* p = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* const end = p + text.size();
  while (p < end) {
    const uint8_t lead = *p++;
    if (lead < 0x80) {
      continue;
    }
    const int extra = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || end - p < extra) {
      return false;
    }
    // The second byte tells overlong forms, surrogates and values that are too large.
    const uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (p[0] < low || p[0] > high) {
      return false;
    }
    for (int i = 1; i < extra; ++i) {
      if ((p[i] & 0xc0) != 0x80) {
        return false;
      }
    }
    p += extra;
  }
  return true;
}

}  // namespace et::runtime
