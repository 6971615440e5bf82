#include "kernels/optimized/recurrent/step_packing.h"

#include <algorithm>

#include "kernels/optimized/vec/prepared.h"
#include "numerics/nibbles.h"

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

}  // namespace

Result<const int8_t*> packed_steps(PrepareContext& context, StepPacking packing) {
  const auto dtype = static_cast<uint64_t>(packing.weight->scalar_type());
  const Packing of{packing.weight->const_data_ptr(), dtype << 32 | uint64_t{packing.gates} << 8 | packing.lanes,
                   packing.hidden};
  return packed_once<int8_t>(context, of, packing.size() + packing.hidden,
                             [&](int8_t* to) { pack(packing, to + packing.size(), to); });
}

}  // namespace et::kernels::optimized::recurrent
