#include "runtime/specialised_kernel.h"

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
  if (value.is_tensor()) {
    return meets(value.to_tensor(), demand);
  }
  constexpr size_t kMostItems = 256;  // nor is a load as long as a file likes
  const size_t num_items = value.is_tensor_list()            ? value.tensor_list_items().size
                           : value.is_optional_tensor_list() ? value.optional_tensor_list_items().size
                                                             : 0;
  if (num_items > kMostItems) {
    return false;
  }
  bool all = true;
  if (value.is_tensor_list()) {
    for (const Tensor& tensor : value.to_tensor_list()) {
      all = all && meets(tensor, demand);
    }
  } else if (value.is_optional_tensor_list()) {
    for (const std::optional<Tensor>& tensor : value.to_optional_tensor_list()) {
      all = all && (!tensor.has_value() || meets(*tensor, demand));
    }
  }
  return all;
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
