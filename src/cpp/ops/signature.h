/// What identifies a kernel to the runtime: its operator, and a letter for each argument (runtime/unboxing.h).
///
/// For: the generated ops/signatures/<library>/<op_file>.h, `signature::add_out` and the like. Not for: plain
/// functions, whose letters follow from their types.
#pragma once

namespace et::ops {

struct Signature {
  const char* name;     ///< "aten::add.out"
  const char* letters;  ///< "eeno"
};

}  // namespace et::ops
