#include "mutator.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "schema/pte_header.h"

/// A file may ask for any amount of memory; being refused it is an answer.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace et::test {
namespace {

namespace fb = schema;

template <typename T>
void put(Bytes* bytes, size_t offset, T value) {
  if (offset + sizeof(T) <= bytes->size()) {
    std::memcpy(bytes->data() + offset, &value, sizeof(T));
  }
}

template <typename T>
void damage(T* number, Random& random) {
  *number = static_cast<T>(random.awkward(static_cast<int64_t>(*number)));
}

/// Damages one element of a list, or its length.
template <typename T>
void damage_list(std::vector<T>* items, Random& random) {
  switch (random.below(4)) {
    case 0: items->push_back(static_cast<T>(random.awkward(0))); break;
    case 1:
      if (!items->empty()) {
        items->erase(items->begin() + static_cast<std::ptrdiff_t>(random.below(items->size())));
      }
      break;
    default:
      if (!items->empty()) {
        damage(&(*items)[random.below(items->size())], random);
      }
  }
}

void damage_tensor(fb::TensorT* tensor, Random& random) {
  int number = tensor->scalar_type;
  switch (random.below(10)) {
    case 0:
      number = static_cast<int>(random.below(20)) - 1;
      tensor->scalar_type = static_cast<fb::ScalarType>(number);
      break;
    case 1: damage_list(&tensor->sizes, random); break;
    case 2: damage_list(&tensor->dim_order, random); break;
    case 3: damage(&tensor->data_buffer_idx, random); break;
    case 4:
      if (tensor->allocation_info != nullptr) {
        damage(&tensor->allocation_info->memory_offset_low, random);
      }
      break;
    case 5:
      if (tensor->allocation_info != nullptr) {
        damage(&tensor->allocation_info->memory_id, random);
      }
      break;
    case 6: tensor->allocation_info.reset(); break;
    case 7: tensor->shape_dynamism = static_cast<fb::TensorShapeDynamism>(random.below(4)); break;
    case 8:  // the same element count in another shape, which only kernels can see
      tensor->sizes.assign(1, 1);
      tensor->dim_order.assign(1, 0);
      break;
    default:
      std::shuffle(tensor->sizes.begin(), tensor->sizes.end(), std::minstd_rand(static_cast<uint32_t>(random.next())));
  }
}

void damage_value(fb::EValueT* value, const fb::ExecutionPlanT& plan, Random& random) {
  if (random.below(8) == 0 && !plan.values.empty()) {  // another value's content
    const auto& from = *plan.values[random.below(plan.values.size())];
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(fb::EValue::Pack(builder, &from));
    value->val.Reset();
    flatbuffers::GetRoot<fb::EValue>(builder.GetBufferPointer())->UnPackTo(value);
    return;
  }
  switch (value->val.type) {
    case fb::KernelTypes_Int: damage(&value->val.AsInt()->int_val, random); break;
    case fb::KernelTypes_Bool: value->val.AsBool()->bool_val = !value->val.AsBool()->bool_val; break;
    case fb::KernelTypes_Double: value->val.AsDouble()->double_val = random.below(2) == 0 ? 1e308 : -1.0; break;
    case fb::KernelTypes_Tensor: damage_tensor(value->val.AsTensor(), random); break;
    case fb::KernelTypes_IntList: damage_list(&value->val.AsIntList()->items, random); break;
    case fb::KernelTypes_TensorList: damage_list(&value->val.AsTensorList()->items, random); break;
    case fb::KernelTypes_OptionalTensorList: damage_list(&value->val.AsOptionalTensorList()->items, random); break;
    default: value->val.Reset();
  }
}

void damage_instruction(fb::InstructionT* instruction, const fb::ExecutionPlanT& plan, Random& random) {
  if (fb::KernelCallT* call = instruction->instr_args.AsKernelCall()) {
    if (random.below(3) == 0) {
      call->op_index = random.below(4) == 0 ? static_cast<int32_t>(random.awkward(0))
                                            : static_cast<int32_t>(random.below(plan.operators.size() + 1));
    } else if (!call->args.empty() && random.below(4) != 0) {  // another value of the plan
      call->args[random.below(call->args.size())] = static_cast<int32_t>(random.below(plan.values.size() + 1));
    } else {
      damage_list(&call->args, random);
    }
  } else if (fb::MoveCallT* move = instruction->instr_args.AsMoveCall()) {
    (random.below(2) == 0 ? move->move_from : move->move_to) =
        static_cast<int32_t>(random.below(plan.values.size() + 1));
  } else if (fb::JumpFalseCallT* jump = instruction->instr_args.AsJumpFalseCall()) {
    if (random.below(2) == 0) {
      jump->destination_instruction = static_cast<int32_t>(random.below(10)) - 1;
    } else {
      jump->cond_value_index = static_cast<int32_t>(random.below(plan.values.size() + 1));
    }
  } else if (fb::DelegateCallT* call = instruction->instr_args.AsDelegateCall()) {
    damage_list(&call->args, random);
  }
}

void damage_instructions(fb::ExecutionPlanT* plan, Random& random) {
  if (plan->chains.empty() || plan->chains[0]->instructions.empty()) {
    return;
  }
  auto& list = plan->chains[0]->instructions;
  const size_t i = random.below(list.size());
  switch (random.below(8)) {
    case 0: std::swap(list[i], list[random.below(list.size())]); break;
    case 1: list.erase(list.begin() + static_cast<std::ptrdiff_t>(i)); break;
    case 2: {
      fb::MoveCallT move;
      move.move_from = static_cast<int32_t>(random.below(plan->values.size() + 1));
      move.move_to = static_cast<int32_t>(random.below(plan->values.size() + 1));
      list[i]->instr_args.Set(move);
      break;
    }
    case 3: {
      fb::JumpFalseCallT jump;
      jump.cond_value_index = static_cast<int32_t>(random.below(plan->values.size() + 1));
      jump.destination_instruction = static_cast<int32_t>(random.below(list.size() + 2));
      list[i]->instr_args.Set(jump);
      break;
    }
    case 4: {
      fb::FreeCallT free;
      free.value_index = static_cast<int32_t>(random.below(plan->values.size() + 1));
      list[i]->instr_args.Set(free);
      break;
    }
    default: damage_instruction(list[i].get(), *plan, random);
  }
}

void damage_program(fb::ProgramT* program, Random& random) {
  if (program->execution_plan.empty() || program->execution_plan[0] == nullptr) {
    return;
  }
  fb::ExecutionPlanT& plan = *program->execution_plan[random.below(program->execution_plan.size())];
  switch (random.below(12)) {
    case 0: damage_list(&plan.inputs, random); break;
    case 1: damage_list(&plan.outputs, random); break;
    case 2: damage_list(&plan.non_const_buffer_sizes, random); break;
    case 3:
      if (!plan.operators.empty()) {
        auto& op = *plan.operators[random.below(plan.operators.size())];
        const auto& other = *plan.operators[random.below(plan.operators.size())];
        op.name = random.below(4) == 0 ? std::string("\xff") : other.name;
        op.overload = other.overload;
      }
      break;
    case 4:
      if (!program->segments.empty()) {
        auto& segment = *program->segments[random.below(program->segments.size())];
        damage(random.below(2) == 0 ? &segment.offset : &segment.size, random);
      }
      break;
    case 5:
      if (program->constant_segment != nullptr) {
        random.below(3) == 0 ? damage(&program->constant_segment->segment_index, random)
                             : damage_list(&program->constant_segment->offsets, random);
      }
      break;
    case 6:
    case 7:
    case 8:
      if (!plan.values.empty()) {
        damage_value(plan.values[random.below(plan.values.size())].get(), plan, random);
      }
      break;
    default: damage_instructions(&plan, random);
  }
}

}  // namespace

int64_t Random::awkward(int64_t around) {
  static constexpr int64_t kValues[] = {
      0,         1,         -1,        2,           7,         16,        127,
      255,       256,       65535,     65536,       INT32_MAX, INT32_MIN, 0x7fffffffLL * 2,
      INT64_MAX, INT64_MIN, 1LL << 40, -(1LL << 40)};
  switch (below(3)) {
    case 0: return kValues[below(sizeof(kValues) / sizeof(kValues[0]))];
    case 1: return static_cast<int64_t>(static_cast<uint64_t>(around) + below(9) - 4);
    default: return static_cast<int64_t>(below(20));
  }
}

Bytes mutate_bytes(const Bytes& seed, const Bytes& other, Random& random) {
  Bytes bytes = seed;
  const size_t size = bytes.size();
  switch (random.below(7)) {
    case 0:  // bits
      for (size_t n = 1 + random.below(8); n > 0; --n) {
        bytes[random.below(size)] ^= static_cast<uint8_t>(1u << random.below(8));
      }
      break;
    case 1:  // a 32-bit word: an offset, an index, a length
      put(&bytes, random.below(size) / 4 * 4, static_cast<uint32_t>(random.awkward(0)));
      break;
    case 2:  // a 16-bit word: an entry of a vtable
      put(&bytes, random.below(size) / 2 * 2, static_cast<uint16_t>(random.awkward(0)));
      break;
    case 3:  // the header
      put(&bytes, random.below(40) / 4 * 4, static_cast<uint32_t>(random.awkward(static_cast<int64_t>(size))));
      break;
    case 4:  // cut off
      bytes.resize(random.below(size));
      break;
    case 5: {  // a piece of another file
      const size_t from = random.below(other.size());
      const size_t to = random.below(size);
      const size_t length = std::min({random.below(256) + 1, other.size() - from, size - to});
      std::memcpy(bytes.data() + to, other.data() + from, length);
      break;
    }
    default:  // noise
      for (size_t at = random.below(size), n = 1 + random.below(16); n > 0 && at < size; --n, ++at) {
        bytes[at] = static_cast<uint8_t>(random.next());
      }
  }
  return bytes;
}

Bytes with_tables(const Bytes& seed, const fb::ProgramT& program) {
  const auto layout = fb::parse_pte_header({seed.data(), seed.size()}, seed.size());
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::Program::Pack(builder, &program), fb::ProgramIdentifier());
  const uint8_t* body = builder.GetBufferPointer();
  Bytes bytes(body, body + 8);
  uint32_t root;
  std::memcpy(&root, body, 4);
  put(&bytes, 0, root + static_cast<uint32_t>(fb::kPteHeaderLength));
  bytes.resize(8 + fb::kPteHeaderLength);
  bytes.insert(bytes.end(), body + 8, body + builder.GetSize());
  fb::FileLayout written;
  written.flatbuffer_size = bytes.size();
  bytes.resize((bytes.size() + 127) / 128 * 128);
  written.segment_base_offset = bytes.size();
  if (layout->segment_base_offset != 0) {
    bytes.insert(bytes.end(), seed.begin() + static_cast<std::ptrdiff_t>(layout->segment_base_offset), seed.end());
  }
  written.segment_data_size = bytes.size() - written.segment_base_offset;
  fb::write_pte_header(written, bytes.data() + 8);
  return bytes;
}

Bytes mutate_tables(const Bytes& seed, Random& random) {
  fb::ProgramT program;
  fb::GetProgram(seed.data())->UnPackTo(&program);
  for (size_t n = 1 + random.below(3); n > 0; --n) {
    damage_program(&program, random);
  }
  return with_tables(seed, program);
}

}  // namespace et::test
