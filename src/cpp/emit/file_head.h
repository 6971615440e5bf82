/// The beginning of a file: an ordinary flatbuffer with a header inserted behind its first 8 bytes.
///
/// For: emit.cpp and flat_tensor.cpp, which have it in common.
#pragma once

#include <cstring>
#include <vector>

#include "base/log.h"
#include "emit/data_pool.h"
#include "flatbuffers/flatbuffers.h"
#include "schema/pte_header.h"

namespace et::emit {

/// Copies the finished flatbuffer to `head` with `length` zero bytes at kHeaderOffset, and raises its root offset by
/// that. Errors: OutOfResources, it is larger than a flatbuffer can be.
inline Error insert_header(const flatbuffers::FlatBufferBuilder& builder, size_t length, std::vector<uint8_t>& head) {
  const uint8_t* body = builder.GetBufferPointer();
  const size_t size = builder.GetSize();
  ET_CHECK_OR_RETURN(size + length <= schema::kMaxFlatbufferSize, OutOfResources,
                     "the tables of the file take %zu bytes, a flatbuffer holds 2 GiB", size);
  head.assign(size + length, 0);
  std::memcpy(head.data(), body, schema::kHeaderOffset);
  std::memcpy(head.data() + schema::kHeaderOffset + length, body + schema::kHeaderOffset, size - schema::kHeaderOffset);
  flatbuffers::WriteScalar(
      head.data(), flatbuffers::ReadScalar<flatbuffers::uoffset_t>(body) + static_cast<flatbuffers::uoffset_t>(length));
  return Error::Ok;
}

/// Adds the segments' pieces to `file`, from `base` on, and sets its size.
inline void append_segments(const SegmentPool& segments, uint64_t base, File& file) {
  for (Piece piece : segments.pieces()) {
    piece.offset += base;
    file.pieces.push_back(piece);
  }
  file.nbytes = segments.nbytes() == 0 ? file.head.size() : base + segments.nbytes();
}

}  // namespace et::emit
