/// One part of a program for the NPU: a payload that was checked, and how a call of it reaches the device.
///
/// For: register.cpp and tests.
#pragma once

#include "backends/ethos_u/runtime/command_payload.h"
#include "backends/ethos_u/runtime/driver.h"
#include "runtime/backend.h"

namespace et::backends::ethos_u {

/// Checks the values of a call: their number and bytes. Errors: InvalidArgument.
Error check_arguments(const CommandPayload& payload, Span<runtime::EValue* const> args);

/// Copies the inputs into the scratch, calls the device, and copies the outputs back.
/// Errors: MemoryAllocationFailed when the temporary memory is too small for the scratch; those of the driver.
Error execute(const CommandPayload& payload, runtime::KernelContext& context, Span<runtime::EValue* const> args);

}  // namespace et::backends::ethos_u
