/// Small networks for tests of the delegate: as text, as files, with everything that a process needs to run them.
///
/// Each node is tagged for the delegate, so a network is one payload; `lowered(text, false)` makes the same run on
/// kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "passes/backend_compiler.h"
#include "runtime/backend.h"
#include "runtime/kernel.h"

namespace et::test {

struct Network {
  const char* name;
  std::string text;  ///< an Edge program with the method "forward"
};

/// Together they have most of the node types of the payload, in float32 and in integers; sizes are fixed.
const std::vector<Network>& networks();

/// Convolutions, a pooling and a linear layer for images [s0 <= 4, 3, s1, s2], 8 <= s1, s2 <= 24, with enough work for
/// several threads. `methods`: "forward" and, over the same weights, "again".
std::string dynamic_network();

/// "constant @name : dtype[sizes] = [...]" with numbers around 0 that do not repeat soon, whole ones for integers.
std::string weight(const std::string& name, const std::string& dtype, const std::vector<int>& sizes);

/// The file of a program; `delegated` = all of it for the delegate.
std::vector<uint8_t> lowered(const std::string& text, bool delegated = true);
/// The file of a method, text, whose delegate @0 has this payload.
std::vector<uint8_t> lowered(const std::string& text, passes::BackendPayload payload);

const runtime::KernelRegistry& portable_kernels();
/// Those and what the backends have.
const runtime::KernelRegistry& all_kernels();
const runtime::BackendRegistry& all_backends();

}  // namespace et::test
