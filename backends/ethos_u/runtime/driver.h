/// The device as the delegate sees it: two functions that a product defines with Arm's core driver.
///
/// For: register.cpp, which calls them. driver_stub.cpp has weak ones, so that firmware links without a driver; they
/// check what the device would get and run nothing.
///
///     et::Error et::backends::ethos_u::invoke(const Invocation& call) {
///       return ethosu_invoke_v3(my_driver, call.commands.data(), …) == 0 ? et::Error::Ok : et::Error::DelegateError;
///     }
#pragma once

#include "base/error.h"
#include "base/span.h"

namespace et::backends::ethos_u {

/// What the device reads and writes in one inference. Everything begins at a multiple of 16.
struct Invocation {
  Span<const uint8_t> commands;
  Span<const uint8_t> weights;  ///< region 0
  Span<uint8_t> scratch;        ///< region 1: inputs, outputs and what is between them
};

/// Whether there is a device, or a stub that stands in for one. A method is refused without.
bool is_there();

/// Runs the commands until their end. Errors: those of the driver.
Error invoke(const Invocation& call);

}  // namespace et::backends::ethos_u
