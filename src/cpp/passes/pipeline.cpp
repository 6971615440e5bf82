#include "passes/pipeline.h"

#include <algorithm>
#include <set>
#include <string>

#include "passes/all_passes.h"  // generated: the header of each pass

namespace et::passes {
namespace {

template <class P>
std::unique_ptr<Pass> make() {
  return std::make_unique<P>();
}

using Maker = std::unique_ptr<Pass> (*)();

/// A place in the order.
struct Place {
  Maker make;
  bool is_before_delegation;
};

constexpr Place kPlaces[] = {
#define ET_BEFORE_DELEGATION(Class) {&make<Class>, true},
#define ET_AFTER_DELEGATION(Class) {&make<Class>, false},
#include "passes/pipeline.def"
#undef ET_BEFORE_DELEGATION
#undef ET_AFTER_DELEGATION
};

std::vector<std::string_view> ids_of(bool is_before_delegation) {
  std::vector<std::string_view> ids;
  for (const Place& place : kPlaces) {
    if (place.is_before_delegation == is_before_delegation) {
      ids.emplace_back(place.make()->info().id);
    }
  }
  return ids;
}

void collect(const ir::Graph& graph, std::set<std::string>& constants, std::set<std::string>& buffers) {
  for (const auto& node : graph.nodes()) {
    if (node->op == "constant") {
      constants.insert(node->symbol);
    } else if (node->op == "buffer") {
      buffers.insert(node->symbol);
    }
    for (const auto& region : node->regions) {
      collect(*region, constants, buffers);
    }
  }
}

template <typename Table>
void keep(Table& table, const std::set<std::string>& names) {
  for (auto entry = table.begin(); entry != table.end();) {
    entry = names.count(entry->first) == 0 ? table.erase(entry) : std::next(entry);
  }
}

}  // namespace

Span<const std::string_view> before_delegation() {
  static const std::vector<std::string_view> ids = ids_of(true);
  return {ids.data(), ids.size()};
}

Span<const std::string_view> after_delegation() {
  static const std::vector<std::string_view> ids = ids_of(false);
  return {ids.data(), ids.size()};
}

std::vector<std::unique_ptr<Pass>> all_passes() {
  std::vector<std::unique_ptr<Pass>> passes;
  std::set<Maker> made;
  for (const Place& place : kPlaces) {
    if (made.insert(place.make).second) {
      passes.push_back(place.make());
    }
  }
  std::sort(passes.begin(), passes.end(),
            [](const auto& a, const auto& b) { return std::string_view(a->info().id) < b->info().id; });
  return passes;
}

std::unique_ptr<Pass> make_pass(std::string_view id) {
  for (const Place& place : kPlaces) {
    if (std::unique_ptr<Pass> pass = place.make(); pass->info().id == id) {
      return pass;
    }
  }
  return nullptr;
}

void drop_unused_symbols(ir::Program& program) {
  std::set<std::string> constants;
  std::set<std::string> buffers;
  for (const auto& method : program.methods) {
    collect(*method, constants, buffers);
    for (const ir::Write& write : method->writes) {
      buffers.insert(write.buffer);
    }
  }
  for (const ir::ConstantMethod& method : program.constant_methods) {
    for (const ir::Argument& value : method.values) {
      if (const auto* name = value.as<std::string>(); name != nullptr && !name->empty() && name->front() == '@') {
        constants.insert(name->substr(1));
      }
    }
  }
  keep(program.constants, constants);
  keep(program.buffers, buffers);
}

}  // namespace et::passes
