/// The beginning of a file: an ordinary flatbuffer with a header inserted behind its first 8 bytes.
///
/// For: writers of `.pte` and `.ptd` files. Not for: readers (pte_header.h).
#pragma once

#include <cstring>
#include <vector>

#include "base/log.h"
#include "flatbuffers/flatbuffers.h"
#include "schema/pte_header.h"

namespace et::schema {

/// Copies the finished flatbuffer to `head` with `length` zero bytes at kHeaderOffset, and raises its root offset by
/// that. Errors: OutOfResources, it is larger than a flatbuffer can be.
inline Error insert_header(const flatbuffers::FlatBufferBuilder& builder, size_t length, std::vector<uint8_t>& head) {
  const uint8_t* body = builder.GetBufferPointer();
  const size_t size = builder.GetSize();
  ET_CHECK_OR_RETURN(size + length <= kMaxFlatbufferSize, OutOfResources,
                     "the tables of the file take %zu bytes, a flatbuffer holds 2 GiB", size);
  head.assign(size + length, 0);
  std::memcpy(head.data(), body, kHeaderOffset);
  std::memcpy(head.data() + kHeaderOffset + length, body + kHeaderOffset, size - kHeaderOffset);
  flatbuffers::WriteScalar(
      head.data(), flatbuffers::ReadScalar<flatbuffers::uoffset_t>(body) + static_cast<flatbuffers::uoffset_t>(length));
  return Error::Ok;
}

}  // namespace et::schema
