/// What `prepare` of a kernel leaves for its calls: a state, and constants in the order in which loops read them.
///
/// For: kernels whose loops want a weight in another order than the file has. Not for: packed weights with a head
///      (winograd.cpp, the records of quantized/).
///
///     ET_TRY(p.filter, packed_once<float>(context, {weight.const_data_ptr(), taps, channels}, floats,
///                                         [&](float* to) { … }));
///     return keep_state(context, p, state);
#pragma once

#include "runtime/host/packed_memory.h"
#include "runtime/kernel_types.h"
#include "runtime/shared_cache.h"

namespace et::kernels::optimized {

/// What is packed: the address of the constant, and all that decides how it is packed and how large that becomes.
struct Packing {
  const void* data;
  uint64_t variant = 0, shape = 0;
};

/// `count` numbers, as `fill(T* to)` writes them, at a cache line. The methods of a Program share what one place in the
/// code made of the same Packing; where there is no cache they are in the Method's memory.
/// Errors: MemoryAllocationFailed.
template <typename T, typename Fill>
Result<const T*> packed_once(runtime::PrepareContext& context, const Packing& packing, size_t count, const Fill& fill) {
  static constexpr char kMaker = 0;  // each call has a type of Fill of its own
  struct Request {
    runtime::PackedMemory* memory;
    size_t nbytes;
    const Fill& fill;
  } request{nullptr, count * sizeof(T), fill};
  if (context.shared() == nullptr) {
    ET_TRY(void* const memory, context.allocate(request.nbytes, 64));
    fill(static_cast<T*>(memory));
    return static_cast<const T*>(memory);
  }
  const auto create = [](void* argument) -> Result<void*> {
    const auto& of = *static_cast<const Request*>(argument);
    ET_TRY(void* const memory, of.memory->allocate(of.nbytes));
    of.fill(static_cast<T*>(memory));
    return memory;
  };
  request.memory = &context.shared()->memory();
  ET_TRY(void* const object,
         context.shared()->get_or_create({&kMaker, packing.data, nullptr, packing.variant, packing.shape}, create,
                                         &request, nullptr));
  return static_cast<const T*>(object);
}

/// A kernel's state: a copy of `made` in the Method's memory. Errors: MemoryAllocationFailed.
template <typename T>
Error keep_state(runtime::PrepareContext& context, const T& made, void** state) {
  ET_TRY(void* const memory, context.allocate(sizeof(T), alignof(T)));
  *state = new (memory) T(made);
  return Error::Ok;
}

}  // namespace et::kernels::optimized
