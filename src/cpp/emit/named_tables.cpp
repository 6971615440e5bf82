#include "emit/named_tables.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ops/op_table.h"
#include "schema/debug_info_generated.h"
#include "schema/shapes_generated.h"

namespace et::emit {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

std::string bytes_of(const FlatBufferBuilder& builder) {
  return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
}

/// "aten::embedding.out" is "aten.embedding.default" to the user.
std::string user_name(const std::string& given) {
  const ops::OpInfo* op = ops::find_out(given);
  std::string name(op != nullptr ? op->name : std::string_view(given));
  const size_t colons = name.find("::");
  if (colons == std::string::npos) {
    return name;  // cond, while_loop
  }
  if (name.find('.') == std::string::npos) {
    name += ".default";
  }
  return name.replace(colons, 2, ".");
}

/// Strings stored once, named by index; 0 is the empty one.
class StringTable {
 public:
  uint32_t add(std::string_view text) {
    const auto [entry, is_new] = indices_.emplace(text, static_cast<uint32_t>(strings_.size()));
    if (is_new) {
      strings_.emplace_back(text);
    }
    return entry->second;
  }
  const std::vector<std::string>& strings() const { return strings_; }

 private:
  std::map<std::string, uint32_t, std::less<>> indices_{{"", 0}};
  std::vector<std::string> strings_{""};
};

/// The form of MethodInfo.origins.
class OriginWriter {
 public:
  OriginWriter(StringTable& strings, const UsersHandles& users_handles)
      : strings_(strings), users_handles_(users_handles) {}

  void add(const ir::Program& program, const ir::Node& node) {
    const std::optional<size_t> delegate = delegate_called_by(node);
    add(delegate && *delegate < program.delegates.size() ? program.delegates[*delegate].backend_id : user_name(node.op),
        node.source, node.all_handles());
  }

  void add(const ir::Delegate::Step& step) { add(user_name(step.op), step.source, step.handles); }

  void add(const std::string& op, const ir::Source& source, const std::vector<uint32_t>& of_nodes) {
    const std::vector<uint32_t> handles = known_to_the_user(of_nodes);
    add_number(strings_.add(op));
    const std::string_view name = source.fx_name;
    const std::optional<uint32_t> number = number_behind(name);
    add_number(strings_.add(number ? name.substr(0, name.rfind('_')) : name));
    add_number(strings_.add(source.module_path));
    add_number(strings_.add(source.file));
    add_number(static_cast<uint32_t>(std::max(source.line, 0)));
    add_number(number ? *number + 1 : 0);
    add_number(static_cast<uint32_t>(handles.size()));
    for (const uint32_t handle : handles) {
      const auto step = static_cast<int32_t>(handle - last_handle_);  // modulo 2^32
      add_number(static_cast<uint32_t>(step) << 1 ^ (step < 0 ? UINT32_MAX : 0));
      last_handle_ = handle;
    }
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  /// 3 of "embedding_3"; nothing for names that another one with that number would not give back.
  static std::optional<uint32_t> number_behind(std::string_view name) {
    const size_t begin = name.rfind('_') + 1;
    const std::string_view digits = name.substr(begin);
    if (begin == 0 || digits.empty() || digits.size() > 9 || (digits[0] == '0' && digits.size() > 1) ||
        digits.find_first_not_of("0123456789") != std::string_view::npos) {
      return std::nullopt;
    }
    return static_cast<uint32_t>(std::stoul(std::string(digits)));
  }

  std::vector<uint32_t> known_to_the_user(const std::vector<uint32_t>& of_nodes) const {
    if (users_handles_.empty()) {
      return of_nodes;
    }
    std::vector<uint32_t> out;
    for (const uint32_t handle : of_nodes) {
      const auto known = users_handles_.find(handle);
      for (size_t i = 0; known != users_handles_.end() && i < known->second.size(); ++i) {
        if (std::find(out.begin(), out.end(), known->second[i]) == out.end()) {
          out.push_back(known->second[i]);
        }
      }
    }
    return out;
  }

  void add_number(uint32_t number) {
    for (; number >= 0x80; number >>= 7) {
      bytes_.push_back(static_cast<uint8_t>(number | 0x80));
    }
    bytes_.push_back(static_cast<uint8_t>(number));
  }

  StringTable& strings_;
  const UsersHandles& users_handles_;
  std::vector<uint8_t> bytes_;
  uint32_t last_handle_ = 0;
};

/// The symbols of a method with the bounds that all its dimensions together give.
class SymbolTable {
 public:
  /// Adds `size` (of dimension `dim` of value number `value`) to `relations` when it is dynamic.
  void relate(uint32_t value, int32_t dim, const ir::Dim& size, std::vector<schema::shapes::SizeRelation>& relations) {
    if (size.is_static()) {
      return;
    }
    AffineSize affine = parse_affine(size.expr).value_or(AffineSize{size.expr, 1, 0});
    const uint32_t symbol = index_of(affine.symbol);
    // size = scale * symbol + offset lies in [min, max]
    Bounds& bounds = bounds_[symbol];
    bounds.lower = std::max(bounds.lower, floor_div(size.min - affine.offset + affine.scale - 1, affine.scale));
    if (size.is_bounded()) {
      bounds.upper = std::min(bounds.upper, floor_div(size.max - affine.offset, affine.scale));
    }
    relations.emplace_back(value, dim, symbol, 0, affine.scale, affine.offset);
  }

  std::vector<Offset<schema::shapes::Symbol>> write(FlatBufferBuilder& builder) const {
    std::vector<Offset<schema::shapes::Symbol>> out;
    for (size_t i = 0; i < names_.size(); ++i) {
      out.push_back(schema::shapes::CreateSymbolDirect(builder, names_[i].c_str(), bounds_[i].lower, bounds_[i].upper));
    }
    return out;
  }
  bool empty() const { return names_.empty(); }

 private:
  struct Bounds {
    int64_t lower = 0;
    int64_t upper = ir::kUnbounded;
  };

  static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

  uint32_t index_of(const std::string& name) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) {
      names_.push_back(name);
      bounds_.emplace_back();
      return static_cast<uint32_t>(names_.size() - 1);
    }
    return static_cast<uint32_t>(found - names_.begin());
  }

  std::vector<std::string> names_;
  std::vector<Bounds> bounds_;
};

void relate_value(SymbolTable& symbols, uint32_t number, const ir::Value& value,
                  std::vector<schema::shapes::SizeRelation>& relations) {
  if (value.type.kind == ir::Kind::kInt && (value.type.dim.is_static() || value.type.dim.min >= 0)) {
    symbols.relate(number, -1, value.type.dim, relations);
  } else if (value.type.is_tensor()) {
    for (size_t d = 0; d < value.type.tensor.rank(); ++d) {
      symbols.relate(number, static_cast<int32_t>(d), value.type.tensor.dims[d], relations);
    }
  }
}

/// The steps of the delegates that a method calls, in the order of its instructions.
std::vector<Offset<schema::debug::DelegateInfo>> write_delegates(FlatBufferBuilder& builder, StringTable& strings,
                                                                 const ir::Program& program,
                                                                 const MethodOrigins& method,
                                                                 const UsersHandles& users_handles) {
  std::vector<Offset<schema::debug::DelegateInfo>> out;
  for (size_t i = 0; i < method.nodes.size(); ++i) {
    const std::optional<size_t> delegate = delegate_called_by(*method.nodes[i]);
    if (!delegate || *delegate >= program.delegates.size() || program.delegates[*delegate].steps.empty()) {
      continue;
    }
    OriginWriter origins(strings, users_handles);
    std::vector<uint32_t> ids;
    for (const ir::Delegate::Step& step : program.delegates[*delegate].steps) {
      ids.push_back(step.id);
      origins.add(step);
    }
    out.push_back(schema::debug::CreateDelegateInfoDirect(builder, static_cast<uint32_t>(i), &ids, &origins.bytes()));
  }
  return out;
}

}  // namespace

std::optional<size_t> delegate_called_by(const ir::Node& node) {
  return node.op == "delegate" ? std::optional<size_t>(std::strtoull(node.symbol.c_str(), nullptr, 10)) : std::nullopt;
}

std::string debug_table(const ir::Program& program, const std::vector<MethodOrigins>& methods,
                        const UsersHandles& users_handles) {
  FlatBufferBuilder builder;
  StringTable strings;
  std::vector<Offset<schema::debug::MethodInfo>> infos;
  for (const MethodOrigins& method : methods) {
    OriginWriter origins(strings, users_handles);
    for (const ir::Node* node : method.nodes) {
      origins.add(program, *node);
    }
    const auto delegates = write_delegates(builder, strings, program, method, users_handles);
    infos.push_back(schema::debug::CreateMethodInfoDirect(builder, method.graph->name.c_str(), nullptr, nullptr,
                                                          &origins.bytes(), delegates.empty() ? nullptr : &delegates));
  }
  const auto table = schema::debug::CreateDebugInfo(builder, 1, builder.CreateVectorOfStrings(strings.strings()),
                                                    builder.CreateVector(infos));
  schema::debug::FinishDebugInfoBuffer(builder, table);
  return bytes_of(builder);
}

std::string shape_table(const std::vector<MethodOrigins>& methods, bool with_names) {
  FlatBufferBuilder builder;
  std::vector<Offset<schema::shapes::MethodShapes>> shapes;
  for (const MethodOrigins& method : methods) {
    const ir::Graph& graph = *method.graph;
    SymbolTable symbols;
    std::vector<schema::shapes::SizeRelation> inputs;
    std::vector<schema::shapes::SizeRelation> outputs;
    std::vector<std::string> input_names;
    std::vector<std::string> output_names;
    for (const auto& input : graph.inputs()) {
      relate_value(symbols, static_cast<uint32_t>(input_names.size()), *input, inputs);
      input_names.push_back(input->name);
    }
    for (const ir::Output& output : graph.outputs) {
      const ir::Value* value = output.value();
      if (value != nullptr) {
        relate_value(symbols, static_cast<uint32_t>(output_names.size()), *value, outputs);
      }
      output_names.push_back(value != nullptr ? value->name : "");
    }
    if (symbols.empty() && !with_names) {
      continue;
    }
    const auto table = symbols.write(builder);
    shapes.push_back(schema::shapes::CreateMethodShapes(
        builder, builder.CreateString(graph.name), builder.CreateVector(table), builder.CreateVectorOfStructs(inputs),
        builder.CreateVectorOfStructs(outputs), with_names ? builder.CreateVectorOfStrings(input_names) : 0,
        with_names ? builder.CreateVectorOfStrings(output_names) : 0));
  }
  if (shapes.empty()) {
    return {};
  }
  schema::shapes::FinishShapesBuffer(builder, schema::shapes::CreateShapes(builder, 0, builder.CreateVector(shapes)));
  return bytes_of(builder);
}

}  // namespace et::emit
