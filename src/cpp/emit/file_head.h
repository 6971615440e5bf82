/// A file: its head, then its segments.
///
/// For: emit.cpp and flat_tensor.cpp, which have it in common.
#pragma once

#include "emit/data_pool.h"
#include "schema/file_head.h"

namespace et::emit {

using schema::insert_header;

/// Adds the segments' pieces to `file`, from `base` on, and sets its size.
inline void append_segments(const SegmentPool& segments, uint64_t base, File& file) {
  for (Piece piece : segments.pieces()) {
    piece.offset += base;
    file.pieces.push_back(piece);
  }
  file.nbytes = segments.nbytes() == 0 ? file.head.size() : base + segments.nbytes();
}

}  // namespace et::emit
