#include "emit/sparse_constants.h"

#include <algorithm>
#include <set>

#include "emit/data_pool.h"
#include "numerics/sparse_bytes.h"
#include "ops/op_table.h"

namespace et::emit {
namespace {

/// Multiplies an input by integers. Tables of integers, whose rows are looked up, have no input.
bool is_product(const ops::OpInfo& op) {
  const auto takes = [&op](std::string_view name) {
    return std::any_of(op.arguments.begin(), op.arguments.end(), [name](const auto& one) { return one.name == name; });
  };
  return takes("input") && takes("weight_scales");
}

/// True when `value` is the weight of this call and no other argument.
bool is_weight_of(const ir::Value& value, const ir::Node& node) {
  const ops::OpInfo* const info = ops::find_out(node.op);
  if (info == nullptr || !is_product(*info)) {
    return false;
  }
  bool is_weight = false;
  for (size_t i = 0; i < node.args().size() && i < info->out_arguments.size(); ++i) {
    if (node.args()[i].value() == &value) {
      if (info->out_arguments[i].name != "weight") {
        return false;
      }
      is_weight = true;
    }
  }
  return is_weight;
}

class Search {
 public:
  explicit Search(const ir::Program& program) {
    for (const ir::ConstantMethod& method : program.constant_methods) {
      for (const ir::Argument& value : method.values) {
        const auto* const text = value.as<std::string>();
        if (text != nullptr && !text->empty()) {
          refused_.insert(std::string_view(*text).substr(1));
        }
      }
    }
    for (const ir::NamedData& entry : program.named_data) {
      const std::string_view key = entry.key;
      for (const std::string_view prefix : {kSparsePrefix, kSparseConstantPrefix}) {
        refused_.insert(key.substr(0, prefix.size()) == prefix ? key.substr(prefix.size()) : key);
      }
    }
    for (const auto& method : program.methods) {
      in_method_.clear();
      look_at(*method);
    }
  }

  bool may_be_sparse(std::string_view name) const { return found_.count(name) != 0 && refused_.count(name) == 0; }

 private:
  void look_at(const ir::Graph& graph) {
    for (const auto& node : graph.nodes()) {
      if (node->op == "constant") {
        const ir::Value& value = *node->result();
        const bool is_single = value.users().size() == 1 && !graph.is_output(&value) &&
                               is_weight_of(value, *value.users().front()) && in_method_.insert(node->symbol).second;
        (is_single ? found_ : refused_).insert(node->symbol);
      }
      for (const auto& region : node->regions) {
        look_at(*region);
      }
    }
  }

  std::set<std::string_view> found_, refused_;
  std::set<std::string_view> in_method_;  // found in the method that is looked at
};

}  // namespace

std::string sparse_form(Span<const uint8_t> dense, ScalarType dtype, double least_zeros) {
  const SparseLayout layout = sparse_layout(dense, dtype);
  const auto zeros = static_cast<double>(layout.num_elements - layout.num_values);
  if (layout.element_size == 0 || zeros < least_zeros * static_cast<double>(layout.num_elements) ||
      layout.nbytes > dense.size() - dense.size() / 16) {
    return {};
  }
  std::string out(layout.nbytes, '\0');
  write_sparse_bytes(layout, dense, reinterpret_cast<uint8_t*>(out.data()));
  return out;
}

std::map<std::string_view, SparseConstant> sparse_constants(const ir::Program& program, double least_zeros) {
  std::map<std::string_view, SparseConstant> out;
  if (least_zeros > 1) {
    return out;
  }
  const Search search(program);
  ContentIndex stored;
  std::vector<std::string_view> keys;
  for (const auto& [name, constant] : program.constants) {
    const auto nbytes = static_cast<size_t>(constant.type.max_nbytes());
    if (constant.data == nullptr || !constant.external_key.empty() || constant.type.dtype != ScalarType::Char ||
        nbytes < kLeastSparseBytes || name.empty() || !search.may_be_sparse(name)) {
      continue;
    }
    std::string bytes =
        sparse_form({static_cast<const uint8_t*>(constant.data), nbytes}, ScalarType::Char, least_zeros);
    if (bytes.empty()) {
      continue;
    }
    SparseConstant& made = out[name];
    made.bytes = std::move(bytes);
    const auto next = static_cast<uint32_t>(keys.size());
    const uint32_t index = stored.find_or_add(made.bytes.data(), made.bytes.size(), next);
    if (index == next) {
      keys.push_back(name);
    } else {
      made.bytes.clear();
    }
    made.key = keys[index];
  }
  return out;
}

}  // namespace et::emit
