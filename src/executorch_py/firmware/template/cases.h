// The test cases of this project: inputs of the model, and the outputs that are expected for them.
#pragma once

#include "runtime/method.h"

namespace firmware {

/// The bytes of the `.pte`.
et::Result<et::Span<const uint8_t>> program_bytes();

size_t num_cases();

/// Gives a case's inputs to the method; they stay where they are in flash.
et::Error set_inputs(et::runtime::Method& method, size_t test_case);

/// Writes how the outputs of the last execution compare with those that a case expects; true when all are right.
bool check_outputs(const et::runtime::Method& method, size_t test_case);

}  // namespace firmware
