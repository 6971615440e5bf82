/// Products with integer weights: the constants that integer operators take, and products whose results are floats.
///
/// For: fuse_quantized.cpp.
#pragma once

#include "passes/quantized_values.h"

namespace et::passes {

/// Constants before a product: a weight of i8 (or packed), scales of f32, a bias of i32 or none.
struct ProductConstants {
  ir::Argument weight;
  ir::Argument scales;
  ir::Argument bias;
};

/// Those of a node (input, weight, bias, …) whose input has the scale `input_scale`. Nothing when its weight is no
/// dequantized constant, has zero points, groups or scales along another axis, or when its bias is not constant. Adds
/// constants in front of the node.
std::optional<ProductConstants> product_constants(ir::Program& program, ir::Node& node, float input_scale);

/// Makes et::dynamic_linear or et::weight_only_linear of a linear with an integer weight; true when it did.
bool fuse_float_product(ir::Program& program, ir::Node* node);
/// Makes et::dynamic_convolution or et::weight_only_convolution of a convolution, clamped or not, with an integer
/// filter; true when it did.
bool fuse_filter(ir::Program& program, ir::Node* node);
/// Makes et::quantized_embedding of an embedding of an integer weight; true when it did.
bool fuse_embedding(ir::Program& program, ir::Node* node);

}  // namespace et::passes
