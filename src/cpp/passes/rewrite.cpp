#include "passes/rewrite.h"

#include <algorithm>
#include <cstring>

#include "base/half.h"
#include "ir/content_key.h"
#include "ir/op_views.h"
#include "ir/pattern.h"

namespace et::passes {
namespace {

template <typename T>
void append(const ir::Constant& constant, std::vector<double>& out) {
  const auto* data = static_cast<const T*>(constant.data);
  for (int64_t i = 0; i < constant.type.numel(); ++i) {
    out.push_back(static_cast<double>(data[i]));
  }
}

/// Elements of `kElement` bytes, one after the other, from `from`: along dim d of `sizes` they lie `steps[d]` apart.
template <size_t kElement>
void permute(const char* from, const std::vector<size_t>& sizes, const std::vector<size_t>& steps, char* to) {
  const size_t last = sizes.size() - 1;
  std::vector<size_t> index(last, 0);
  while (true) {
    for (size_t i = 0; i < sizes[last]; ++i, to += kElement) {
      std::memcpy(to, from + i * steps[last] * kElement, kElement);
    }
    size_t d = last;
    for (; d > 0; --d) {
      from += steps[d - 1] * kElement;
      if (++index[d - 1] < sizes[d - 1]) {
        break;
      }
      from -= steps[d - 1] * sizes[d - 1] * kElement;
      index[d - 1] = 0;
    }
    if (d == 0) {
      return;
    }
  }
}

}  // namespace

bool is_one_of(std::string_view op, std::initializer_list<std::string_view> ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

std::string external_file_of(const ir::Program& program, const ir::Value* value) {
  if (const ir::Constant* constant = constant_of(program, value)) {
    return constant->external_key.empty() ? "" : constant->external_file;
  }
  const ir::Node* producer = value == nullptr ? nullptr : value->producer();
  return producer != nullptr && ops::has_tag(producer->op, ops::kDequantizes)
             ? external_file_of(program, ops::QuantizedDecomposedDequantizePerTensor(*producer).input().value())
             : "";
}

ir::Node* producer_if(const ir::Argument& argument, std::initializer_list<std::string_view> ops) {
  const ir::Value* value = argument.value();
  ir::Node* producer = value == nullptr ? nullptr : value->producer();
  return producer != nullptr && is_one_of(producer->op, ops) ? producer : nullptr;
}

bool is_only_use(const ir::Value* value, const ir::Node* user) {
  return value->users().size() == 1 && value->users().front() == user && !value->graph()->is_output(value);
}

bool is_external(const ir::Value* value) {
  return value->producer() == nullptr || is_one_of(value->producer()->op, {"constant", "buffer"});
}

uint32_t overwritable_arguments(const ir::Node& node, const ir::Value* result, const PassContext& context) {
  if (const ops::OpInfo* op = ops::find_out(node.op)) {
    return op->in_place;
  }
  for (const auto& [name, custom] : context.custom_ops) {
    if (custom.kernel != node.op) {
      continue;
    }
    // The last results are the changed arguments' new values: from the end, each belongs to the next bit from the top.
    size_t index = node.results().size();
    for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
      if ((custom.changed & bit) != 0 && index > 0 && node.result(--index) == result) {
        return bit;
      }
    }
  }
  return 0;
}

bool is_untagged(const ir::Match& match) {
  const auto has_no_tag = [](const ir::Node* node) { return node->tag.empty(); };
  return std::all_of(match.nodes.begin(), match.nodes.end(), has_no_tag) &&
         std::all_of(match.kept.begin(), match.kept.end(), has_no_tag);
}

ir::Argument order_argument(const ir::TensorType& type) {
  ir::Argument::List order;
  for (const uint8_t dim : type.dim_order) {
    order.push_back({int64_t{dim}});
  }
  return {std::move(order)};
}

void serve(ir::Node* made, const ir::Node& other) {
  made->source = other.source;
  made->merged_handles = other.all_handles();
}

void serve_maker(ir::Node* made, const ir::Value* value) {
  if (!is_external(value)) {
    serve(made, *value->producer());
    return;
  }
  const auto other =
      std::find_if(value->users().begin(), value->users().end(), [&](const ir::Node* user) { return user != made; });
  if (other != value->users().end()) {
    serve(made, **other);
  }
}

ir::Node* create_like(const ir::Node& node, std::string_view op, std::vector<ir::Argument> args) {
  ir::Node* created = node.graph()->create_node(op, std::move(args), const_cast<ir::Node*>(&node));
  created->tag = node.tag;
  serve(created, node);
  return created;
}

void replace_node(ir::Node* node, ir::Node* created) {
  for (size_t i = 0; i < created->results().size(); ++i) {
    node->graph()->replace_all_uses(node->result(i), created->result(i));
    std::swap(node->result(i)->name, created->result(i)->name);
  }
  created->absorb(*node);
  node->graph()->erase(node);
}

void erase_unread(std::vector<ir::Node*> nodes, ir::Node* made) {
  ir::Graph& graph = *made->graph();
  const auto is_read = [&](const ir::Node* node) {
    return !std::all_of(node->results().begin(), node->results().end(),
                        [&](const auto& result) { return graph.is_unused(result.get()); });
  };
  for (bool is_done = false; !is_done;) {
    is_done = true;
    for (ir::Node*& node : nodes) {
      if (node != nullptr && !is_read(node)) {
        made->absorb(*node);
        graph.erase(node);
        node = nullptr;
        is_done = false;
      }
    }
  }
}

ir::Value* add_constant(ir::Program& program, ir::Graph& graph, std::string_view hint, ir::Constant constant,
                        ir::Node* before) {
  const std::string base = "_derived." + graph.method()->name + "." + std::string(hint);
  std::string name = base;
  for (int i = 1; program.constants.find(name) != program.constants.end(); ++i) {
    name = base + "." + std::to_string(i);
  }
  constant.external_key.clear();
  constant.external_file.clear();
  if (before != nullptr) {
    before->for_each_input([&](const ir::Value* value) {
      constant.external_file =
          constant.external_file.empty() ? external_file_of(program, value) : constant.external_file;
    });
  }
  if (!constant.external_file.empty()) {  // files of several programs have no name for different bytes
    const auto nbytes = static_cast<size_t>(constant.type.max_nbytes());
    constant.external_key = "_derived." + ir::content_key({static_cast<const char*>(constant.data), nbytes});
  }
  ir::Node* node = graph.create_node("constant", {}, before);
  node->symbol = name;
  ir::Value* value = node->add_result(hint, ir::Type::of(constant.type));
  program.constants.emplace(std::move(name), std::move(constant));
  return value;
}

std::string permuted_bytes(const void* from, size_t element, const std::vector<int64_t>& dims,
                           const std::vector<size_t>& perm) {
  std::vector<size_t> strides(dims.size());
  size_t count = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    strides[d] = count;
    count *= static_cast<size_t>(dims[d]);
  }
  const auto* const bytes = static_cast<const char*>(from);
  if (count == 0 || std::is_sorted(perm.begin(), perm.end())) {
    return {bytes, count * element};
  }
  std::vector<size_t> sizes, steps;
  for (const size_t d : perm) {
    sizes.push_back(static_cast<size_t>(dims[d]));
    steps.push_back(strides[d]);
  }
  std::string out(count * element, '\0');
  switch (element) {
    case 1: permute<1>(bytes, sizes, steps, out.data()); break;
    case 2: permute<2>(bytes, sizes, steps, out.data()); break;
    case 4: permute<4>(bytes, sizes, steps, out.data()); break;
    case 8: permute<8>(bytes, sizes, steps, out.data()); break;
    default: permute<16>(bytes, sizes, steps, out.data()); break;
  }
  return out;
}

std::string permuted_bytes(const ir::Constant& constant, const std::vector<size_t>& perm) {
  std::vector<int64_t> dims;
  for (const ir::Dim& dim : constant.type.dims) {
    dims.push_back(dim.max);
  }
  return permuted_bytes(constant.data, element_size(constant.type.dtype), dims, perm);
}

std::vector<double> numbers_of(const ir::Constant& constant) {
  std::vector<double> out;
  switch (constant.type.dtype) {
    case ScalarType::Float: append<float>(constant, out); break;
    case ScalarType::Double: append<double>(constant, out); break;
    case ScalarType::Half: append<Half>(constant, out); break;
    case ScalarType::BFloat16: append<BFloat16>(constant, out); break;
    case ScalarType::Long: append<int64_t>(constant, out); break;
    case ScalarType::Int: append<int32_t>(constant, out); break;
    case ScalarType::Short: append<int16_t>(constant, out); break;
    case ScalarType::Char: append<int8_t>(constant, out); break;
    case ScalarType::Byte: append<uint8_t>(constant, out); break;
    default: break;
  }
  return out;
}

}  // namespace et::passes
