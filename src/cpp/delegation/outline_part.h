/// A part of a graph as a graph of its own: what a backend's compiler is given.
///
/// For: outline_delegates and query_support. The graph that the part stands in is left as it is.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace et::delegation {

/// The copy, and what it takes from and gives to the method.
struct Outline {
  explicit Outline(const std::string& name) : graph(name) {}

  ir::Graph graph;
  std::vector<ir::Argument> inputs;
  std::vector<ir::Value*> outputs;
};

/// Copies the nodes of a part, in its order, without their tags. Constants and dequantized constants come along.
std::unique_ptr<Outline> outline_part(const std::vector<ir::Node*>& part, const std::string& name);

/// An integer weight: what folding leaves alone so that backends see integers.
bool is_dequantized_constant(const ir::Node& node);

}  // namespace et::delegation
