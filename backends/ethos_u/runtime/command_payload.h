/// The payload of EthosUBackend: blocks of a name, a size and bytes, as the published flow writes them.
///
/// For: register.cpp. Bytes are hostile: parse() checks all that is read later.
///
///     block     16 bytes name, uint32 size, 12 bytes 0, the bytes, zeros up to a multiple of 16
///     payload   vela_bin_stream (empty), cmd_data, weight_data, scratch_size (uint32), inputs, outputs,
///               vela_end_stream (empty)
///     inputs    int32 count, then for each 9 int32: six sizes, bytes of an element, offset in the scratch, region
#pragma once

#include "base/error.h"
#include "base/result.h"
#include "base/span.h"

namespace et::backends::ethos_u {

/// Where an input or an output stands in the scratch.
struct Place {
  uint32_t offset = 0;
  uint32_t nbytes = 0;
};

struct CommandPayload {
  Span<const uint8_t> commands;
  Span<const uint8_t> weights;
  uint32_t scratch_nbytes = 0;
  uint32_t num_inputs = 0;
  uint32_t num_outputs = 0;
  const uint8_t* places = nullptr;  ///< of the inputs; those of the outputs begin at output_places
  const uint8_t* output_places = nullptr;

  /// Of argument i: inputs, then outputs.
  Place place(uint32_t i) const;
};

/// Reads a payload, which must outlive the result.
///
/// After it: the commands begin with COP1 and are whole words, everything begins at a multiple of 16, and each place
/// lies in the scratch. Errors: DelegateInvalidCompatibility for bytes that are no such payload; InvalidProgram for a
/// damaged one, saying what is wrong.
Result<CommandPayload> parse(Span<const uint8_t> bytes);

}  // namespace et::backends::ethos_u
