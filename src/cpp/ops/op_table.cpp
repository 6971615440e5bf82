#include "ops/op_table.h"

#include <algorithm>

namespace et::ops {
namespace {

// Defines kArguments, kOps (ordered by name) and kByOutName (indices into kOps, ordered by out_name).
#include "ops/op_table.inc"

}  // namespace

const OpInfo* find_op(std::string_view functional_name) {
  const OpInfo* end = kOps + kNumOps;
  const OpInfo* op = std::lower_bound(kOps, end, functional_name,
                                      [](const OpInfo& a, std::string_view name) { return a.name < name; });
  return op != end && op->name == functional_name ? op : nullptr;
}

const OpInfo* find_out(std::string_view out_name) {
  const uint16_t* end = kByOutName + kNumOps;
  const uint16_t* index = std::lower_bound(kByOutName, end, out_name,
                                           [](uint16_t i, std::string_view name) { return kOps[i].out_name < name; });
  return index != end && kOps[*index].out_name == out_name ? &kOps[*index] : nullptr;
}

Moves moves_of(std::string_view functional_name) {
  const OpInfo* op = find_op(functional_name);
  return op == nullptr ? Moves::kNot : op->moves;
}

bool has_tag(std::string_view functional_name, Tag tag) {
  const OpInfo* op = find_op(functional_name);
  return op != nullptr && op->has_tag(tag);
}

bool is_primitive(std::string_view name) {
  constexpr std::string_view kNamespace = "executorch_prim::";
  return name.substr(0, kNamespace.size()) == kNamespace;
}

Span<const OpInfo> all_ops() { return {kOps, kNumOps}; }

}  // namespace et::ops
