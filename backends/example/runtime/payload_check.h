/// Verifies a payload, once, so that the rest of the runtime half may trust it.
///
/// A payload comes out of a file and a file may come from anybody: FlatBuffers' verifier checks that offsets stay
/// inside the bytes; this checks that the content makes sense. What depends on the sizes of inputs is checked by
/// delegate.cpp at each call.
#pragma once

#include "backends/example/schema/payload_generated.h"
#include "runtime/data_loader.h"

namespace et::backends::example {

inline constexpr uint32_t kPayloadVersion = 1;

/// The graph in `bytes`.
///
/// Guarantees: ids and indices are in range. Every value has one definition, before its uses. Constants have as many
/// elements as their sizes say. Filters have rank 4, biases rank 1 and matching channels. Strides and dilations are
/// positive. Errors: InvalidProgram, saying what is wrong; DelegateInvalidCompatibility for another version.
Result<const payload::Graph*> checked_graph(const runtime::FreeableBuffer& bytes);

}  // namespace et::backends::example
