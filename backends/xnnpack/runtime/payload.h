/// The bytes of a payload: the header and the flatbuffer behind it.
///
/// For: model.h, which reads the graph. Not for: what the graph says; only that its bytes can be read without leaving
///      them.
///
///     offset  0  u32  0
///             4       "XH00"
///             8  u16  length of this header, 30
///            10  u32  offset of the flatbuffer        14  u32  its size
///            18  u32  offset of the constants         22  u64  their size
///
/// Place: first thing that `init` does with the hostile bytes of a file.
#pragma once

#include "backends/xnnpack/schema/payload_generated.h"
#include "base/span.h"
#include "runtime/data_loader.h"

namespace et::backends::xnnpack {

struct Payload {
  const payload::Graph* graph = nullptr;
  Span<const uint8_t> constants;  ///< what stands behind the flatbuffer; empty when all constants are named data
};

/// Finds the parts of a payload and runs FlatBuffers' verifier over the graph. Points into `bytes`.
/// Errors: InvalidProgram, saying what is wrong; DelegateInvalidCompatibility for another version.
Result<Payload> read_payload(Span<const uint8_t> bytes);

}  // namespace et::backends::xnnpack
