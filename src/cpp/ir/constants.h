/// Constants and mutable buffers of a program: named, typed, borrowed bytes.
///
/// For: weights on their way from torch to the file. Bytes are borrowed with a handle that keeps them alive (a torch
/// tensor, a mapped file, or a buffer that a pass made) and copied only by the segment writer.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ir/type.h"

namespace et::ir {

/// Borrowed bytes of a dense tensor in its type's dim_order. Two constants that share a storage share `data`.
struct Constant {
  TensorType type;                         ///< static
  const void* data = nullptr;              ///< type.max_nbytes() bytes
  std::shared_ptr<const void> keep_alive;  ///< owner of `data`
  /// Not empty: the bytes go to a .ptd under this fully qualified name instead of the program's segment.
  std::string external_key;
  /// Name of that .ptd, without its extension; empty = the default one. Only with an external_key.
  std::string external_file;
  /// True when the constant's dtype and layout make its bytes equal to torch's; set false by passes that made it.
  bool from_module = true;
};

/// A mutable buffer: what it holds at the start and what it is called in the module.
struct Buffer {
  Constant initial;
  std::string fully_qualified_name;
  bool is_shared = false;  ///< more than one method uses the same storage
};

/// Ordered by name, so that the same program gives the same bytes.
using ConstantTable = std::map<std::string, Constant, std::less<>>;
using BufferTable = std::map<std::string, Buffer, std::less<>>;

}  // namespace et::ir
