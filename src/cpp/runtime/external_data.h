/// Tensors of a program whose bytes lie in a `.ptd`. Internal to runtime.
#pragma once

#include "runtime/named_data_map.h"
#include "schema/program_generated.h"

namespace et::runtime {

/// The bytes of a tensor that the (verified) program declares external. `map` may be nullptr.
/// Errors: InvalidExternalData when the name is missing or the entry is of another dtype, sizes, order or length,
///         naming both sides; those of the loader.
Result<FreeableBuffer> load_external_tensor(const NamedDataMap* map, const schema::Tensor& tensor);

}  // namespace et::runtime
