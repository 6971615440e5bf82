/// Sizes of values from the sizes of the delegate's inputs.
///
/// For: delegate.cpp, at load (upper bounds) and whenever a call brings other sizes. The library computes sizes, too,
/// but trusts what it is given in many places; what passes here it can run without leaving any buffer.
#pragma once

#include "backends/xnnpack/runtime/model.h"

namespace et::backends::xnnpack {

/// Fills `shapes` [values], which holds those of the inputs and constants, for all other values.
/// Errors: InvalidArgument when sizes do not fit together or a value is larger than any buffer; names the node.
/// `*failed` is then that node's debug handle.
Error infer_shapes(const Model& model, Span<Shape> shapes, int32_t* failed);

/// Multiplications that a call costs with these sizes, roughly; says whether threads are worth waking.
double num_multiplications(const Model& model, Span<const Shape> shapes);

}  // namespace et::backends::xnnpack
