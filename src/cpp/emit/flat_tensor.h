/// The `.ptd` beside a program: constants that stay outside, by name.
///
/// For: emit.cpp. The format: docs/reference/format.md, "Siblings".
#pragma once

#include <map>
#include <string>

#include "base/error.h"
#include "emit/sink.h"
#include "ir/constants.h"

namespace et::emit {

/// Constants of one file, by key.
using ExternalConstants = std::map<std::string, const ir::Constant*>;

/// Lays out `constants`, each in a segment of its own. The bytes are borrowed.
/// Errors: OutOfResources, the tables take 2 GiB or more.
Error lay_out_flat_tensor(const ExternalConstants& constants, uint64_t alignment, File& file);

}  // namespace et::emit
