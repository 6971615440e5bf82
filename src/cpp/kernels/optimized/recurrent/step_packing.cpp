#include "kernels/optimized/recurrent/step_packing.h"

#include <algorithm>
#include <new>

#include "numerics/nibbles.h"
#include "runtime/shared_cache.h"

namespace et::kernels::optimized::recurrent {

using runtime::PrepareContext;

const int8_t* StepPacking::row(size_t n, int8_t* memory) const {
  if (weight->scalar_type() == ScalarType::Char) {
    return weight->const_data_ptr<int8_t>() + n * hidden;
  }
  unpack_nibbles(weight->const_data_ptr<uint8_t>() + n * packed_count(hidden), hidden, memory);
  return memory;
}

size_t StepPacking::lane(size_t n) const {
  const size_t gate = n / hidden, unit = n % hidden;
  return (unit / lanes * gates + gate) * lanes + unit % lanes;
}

namespace {

constexpr char kMaker = 0;  // its address names our entries in the shared cache

void pack(const StepPacking& p, int8_t* memory, int8_t* to) {
  std::fill_n(to, p.size(), int8_t{0});
  const size_t width = p.gates * p.lanes;  // lanes of a strip
  for (size_t n = 0; n < p.rows(); ++n) {
    const int8_t* const row = p.row(n, memory);
    const size_t lane = p.lane(n);
    int8_t* const from_strip = to + (lane / width * p.depth()) * width + lane % width * 4;
    for (size_t k = 0; k < p.hidden; ++k) {
      from_strip[k / 4 * 4 * width + k % 4] = row[k];
    }
  }
}

constexpr std::align_val_t kAlignment{64};

Result<void*> create_packed(void* argument) {
  const auto& packing = *static_cast<const StepPacking*>(argument);
  void* const memory = ::operator new(packing.size() + packing.hidden, kAlignment, std::nothrow);
  ET_CHECK_OR_RETURN(memory != nullptr, MemoryAllocationFailed, "no memory for %zu bytes of packed weights",
                     packing.size() + packing.hidden);
  auto* const to = static_cast<int8_t*>(memory);
  pack(packing, to + packing.size(), to);
  return memory;
}
void destroy_packed(void* object) { ::operator delete(object, kAlignment); }

}  // namespace

Result<const int8_t*> packed_steps(PrepareContext& context, StepPacking packing) {
  if (context.shared() != nullptr) {
    const auto dtype = static_cast<uint64_t>(packing.weight->scalar_type());
    const uint64_t variant = dtype << 32 | uint64_t{packing.gates} << 8 | packing.lanes;
    ET_TRY(void* const object, context.shared()->get_or_create(
                                   {&kMaker, packing.weight->const_data_ptr(), nullptr, variant, packing.hidden},
                                   &create_packed, &packing, &destroy_packed));
    return static_cast<const int8_t*>(object);
  }
  ET_TRY(void* const memory, context.allocate(packing.size() + packing.hidden, 64));
  auto* const to = static_cast<int8_t*>(memory);
  pack(packing, to + packing.size(), to);
  return to;
}

}  // namespace et::kernels::optimized::recurrent
