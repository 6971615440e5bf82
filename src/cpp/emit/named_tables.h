/// The two named data entries that are ours: where instructions came from, and what is known about shapes.
///
/// For: emit.cpp. Other runtimes ignore the entries; ours reads them to name the failing operator and its Python line,
/// and to enforce lower bounds and equal dimensions (schema/debug_info.fbs, schema/shapes.fbs).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace et::emit {

inline constexpr const char* kDebugKey = "executorch_py.debug";
inline constexpr const char* kShapesKey = "executorch_py.shapes";

/// The instructions of a method, by the node that each came from.
struct MethodOrigins {
  const ir::Graph* graph = nullptr;
  std::vector<const ir::Node*> nodes;
};

/// Debug handle of a node -> those of the user's graph.
using UsersHandles = std::map<uint32_t, std::vector<uint32_t>>;

/// The position in Program::delegates of the one that a node calls; nothing for other nodes.
std::optional<size_t> delegate_called_by(const ir::Node& node);

/// The bytes of the entry "executorch_py.debug". `users_handles` as EmitOptions::debug_handles.
std::string debug_table(const ir::Program& program, const std::vector<MethodOrigins>& methods,
                        const UsersHandles& users_handles);

/// The bytes of the entry "executorch_py.shapes"; empty when there is nothing to say.
std::string shape_table(const std::vector<MethodOrigins>& methods, bool with_names);

/// scale * symbol + offset.
struct AffineSize {
  std::string symbol;
  int64_t scale = 1;
  int64_t offset = 0;
};

/// Reads a Dim::expr of that form ("s0", "2*s0 + 1", "(s0 - 1)*3"); nothing for any other (two symbols, //, %, min,
/// max) and for scale < 1.
std::optional<AffineSize> parse_affine(std::string_view expression);

}  // namespace et::emit
