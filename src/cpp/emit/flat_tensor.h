/// The `.ptd` beside a program: constants and named data of delegates that stay outside, by name.
///
/// For: emit.cpp. The format: docs/reference/format.md, "Siblings".
#pragma once

#include <map>
#include <string>

#include "base/error.h"
#include "emit/sink.h"
#include "ir/constants.h"

namespace et::emit {

/// One entry of a file.
struct ExternalEntry {
  const void* data = nullptr;
  uint64_t nbytes = 0;
  const ir::Constant* tensor = nullptr;  ///< whose bytes they are; nullptr: bytes that a delegate wants
};
/// The entries of one file, by key.
using ExternalEntries = std::map<std::string, ExternalEntry>;

/// Lays out `entries`; equal bytes are one segment. The bytes are borrowed.
/// Errors: OutOfResources, the tables take 2 GiB or more.
Error lay_out_flat_tensor(const ExternalEntries& entries, uint64_t alignment, File& file);

}  // namespace et::emit
