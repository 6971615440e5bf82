#include "runtime/session.h"

#include <cstring>
#include <new>

#include "runtime/memory_allocator.h"
#include "runtime/program.h"
#include "runtime/program_verifier.h"

namespace et::runtime {

namespace fb = schema;

Result<Session*> Session::create(const Program& program, MemoryAllocator& allocator,
                                 const NamedDataMap* external_data) {
  uint32_t num_ids = 0;
  for (uint32_t id = 1; id < 64; ++id) {
    num_ids = program.is_state_memory(id) ? id + 1 : num_ids;
  }
  ET_TRY(Span<uint8_t>* const list, allocator.allocate_list<Span<uint8_t>>(num_ids));
  for (uint32_t id = 0; id < num_ids; ++id) {
    new (&list[id]) Span<uint8_t>();
    const uint64_t nbytes = program.is_state_memory(id) ? program.state_memory_size(id) : 0;
    if (nbytes > 0) {
      void* memory = nbytes <= SIZE_MAX ? allocator.allocate(static_cast<size_t>(nbytes)) : nullptr;
      ET_CHECK_OR_RETURN(memory != nullptr, MemoryAllocationFailed,
                         "no room for %" PRIu64 " bytes of the session's state (memory id %u)", nbytes, id);
      list[id] = {static_cast<uint8_t*>(memory), static_cast<size_t>(nbytes)};
    }
  }
  ET_TRY(uint8_t* const memory, allocator.allocate_list<uint8_t>(sizeof(Session)));
  Session* session = new (memory) Session(program, {list, num_ids}, external_data);
  ET_RETURN_IF_ERROR(session->write_initial_values());
  return session;
}

Error Session::write_initial_values() {
  for (const Span<uint8_t>& memory : memory_) {
    if (!memory.empty()) {
      std::memset(memory.data(), 0, memory.size());
    }
  }
  const fb::Program& tables = *program_->tables_;
  for (uint32_t p = 0; p < count(tables.execution_plan()); ++p) {
    const fb::ExecutionPlan& plan = *tables.execution_plan()->Get(p);
    for (uint32_t i = 0; i < count(plan.values()); ++i) {
      const fb::Tensor* tensor = plan.values()->Get(i)->val_as_Tensor();
      if (tensor == nullptr || tensor->allocation_info() == nullptr) {
        continue;
      }
      const Span<uint8_t> buffer = memory(tensor->allocation_info()->memory_id());
      if (!buffer.empty()) {
        uint8_t* place = buffer.data() + allocation_offset(*tensor->allocation_info());
        ET_RETURN_IF_ERROR(program_->write_initial_value(*tensor, external_data_, place));
      }
    }
  }
  return Error::Ok;
}

Error Session::reset() {
  ET_CHECK_OR_RETURN(try_acquire(), InvalidState, "a method of this session is running; reset it when it is done");
  const Error error = write_initial_values();
  release();
  return error;
}

Span<uint8_t> Session::memory(uint32_t memory_id) const {
  return memory_id < memory_.size() ? memory_[memory_id] : Span<uint8_t>();
}

}  // namespace et::runtime
