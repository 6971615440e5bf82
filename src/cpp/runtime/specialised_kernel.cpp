#include "runtime/specialised_kernel.h"

#include "runtime/tensor_lists.h"

namespace et::runtime {
namespace {

bool meets(const Tensor& tensor, const TensorDemand& demand) {
  if (demand.dtypes != 0 && (demand.dtypes >> static_cast<uint32_t>(tensor.scalar_type()) & 1u) == 0) {
    return false;
  }
  switch (demand.order) {
    case MemoryOrder::kContiguous: return is_contiguous_dim_order(dim_order(tensor));
    case MemoryOrder::kChannelsLast: return is_channels_last_dim_order(dim_order(tensor));
    default: return true;
  }
}

bool meets(const EValue& value, const TensorDemand& demand) {
  constexpr size_t kMostItems = 256;  // a load does not take as long as a file likes
  return list_length(value) <= kMostItems &&
         all_tensors(value, [&demand](const Tensor& tensor) { return meets(tensor, demand); });
}

}  // namespace

bool meets(Span<EValue* const> args, Span<const TensorDemand> demands) {
  for (const TensorDemand& demand : demands) {
    if (demand.argument < args.size() && !meets(*args[demand.argument], demand)) {
      return false;
    }
  }
  return true;
}

}  // namespace et::runtime
