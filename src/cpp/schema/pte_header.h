/// The headers of `.pte` and `.ptd` files: where the flatbuffer ends and the segments begin.
///
/// For: the first step of reading a file, and the last of writing one. Not for: what stands in the flatbuffer.
///
///     offset  .pte                                         .ptd
///     0       u32 offset of the root table                 u32 offset of the root table
///     4       "ET12"                                       "FT01"
///     8       "eh00"                                       "FH01"
///     12      u32 length of this header (>= 24)            u32 length of this header (>= 40)
///     16      u64 program_size, from byte 0                u64 offset of the rest of the flatbuffer (48)
///     24      u64 segment_base_offset, 0 = no segments     u64 size of that rest
///     32      u64 segment_data_size (length >= 32)         u64 segment_base_offset
///     40      …                                            u64 segment_data_size
///
/// All numbers are little-endian and in bytes. The header is inserted behind the first 8 bytes of an ordinary
/// flatbuffer, whose root offset is raised by its length: seen from byte 0 the flatbuffer stays one. A `.pte` without
/// segments may have no header: then the flatbuffer is the whole file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "base/span.h"

namespace et::schema {

/// Bytes that a reader needs to see at most to parse a header.
inline constexpr size_t kHeaderPrefixSize = 64;
/// Where a header stands, and the length of the one that `write_pte_header` writes.
inline constexpr size_t kHeaderOffset = 8;
inline constexpr size_t kPteHeaderLength = 32;
inline constexpr size_t kFlatTensorHeaderLength = 40;
/// Multiple of the file offset at which a segment starts, unless its writer chose another one.
inline constexpr size_t kDefaultSegmentAlignment = 128;
/// A flatbuffer addresses itself with 31 bits.
inline constexpr uint64_t kMaxFlatbufferSize = 0x7fffffff;

/// The parts of a file. Ranges lie inside the file and do not overlap.
struct FileLayout {
  uint64_t flatbuffer_size = 0;      ///< Bytes of the flatbuffer with the headers, from byte 0.
  uint64_t segment_base_offset = 0;  ///< Start of the segments; 0 when there are none.
  uint64_t segment_data_size = 0;    ///< Bytes from segment_base_offset on that segments may use.
};

/// Reads the header of a `.pte`. `prefix` is the beginning of the file, at least min(file_size, kHeaderPrefixSize)
/// bytes.
///
/// Errors: InvalidProgram, saying where, when this is no `.pte`, is of another format version, or is shorter than its
///         header says.
Result<FileLayout> parse_pte_header(Span<const uint8_t> prefix, uint64_t file_size);

/// The same for a `.ptd`. Errors: InvalidExternalData.
Result<FileLayout> parse_flat_tensor_header(Span<const uint8_t> prefix, uint64_t file_size);

/// Writes the 32 bytes that stand at kHeaderOffset of a `.pte`.
void write_pte_header(const FileLayout& layout, uint8_t* out);

/// Writes the 40 bytes that stand at kHeaderOffset of a `.ptd`.
void write_flat_tensor_header(const FileLayout& layout, uint8_t* out);

}  // namespace et::schema
