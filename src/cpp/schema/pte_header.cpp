#include "schema/pte_header.h"

#include <cstring>

#include "base/checked_math.h"

namespace et::schema {
namespace {

uint64_t read_le(const uint8_t* bytes, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  }
  return value;
}

void write_le(uint8_t* bytes, size_t count, uint64_t value) {
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<uint8_t>(value >> (8 * i));
  }
}

/// True when [offset, offset + size) lies inside a file of `file_size` bytes.
bool in_file(uint64_t offset, uint64_t size, uint64_t file_size) {
  return offset <= file_size && size <= file_size - offset;
}

/// "XX12" as text that may be printed whatever the bytes are.
struct Printable {
  char text[5];
  explicit Printable(const uint8_t* bytes) {
    for (int i = 0; i < 4; ++i) {
      text[i] = bytes[i] >= 0x20 && bytes[i] < 0x7f ? static_cast<char>(bytes[i]) : '?';
    }
    text[4] = '\0';
  }
};

}  // namespace

Result<FileLayout> parse_pte_header(Span<const uint8_t> prefix, uint64_t file_size) {
  const uint8_t* bytes = prefix.data();
  ET_CHECK_OR_RETURN(prefix.size() >= 16 && file_size >= prefix.size(), InvalidProgram,
                     "the file has %" PRIu64 " bytes, too short for a .pte; is it empty or cut off?", file_size);
  if (std::memcmp(bytes + 4, "ET12", 4) != 0) {
    ET_LOG_ERROR("bytes 4 to 7 are '%s', a .pte has 'ET12' there; this is another kind of file or another version",
                 Printable(bytes + 4).text);
    return Error::InvalidProgram;
  }
  FileLayout layout;
  layout.flatbuffer_size = file_size;
  if (std::memcmp(bytes + kHeaderOffset, "eh00", 4) == 0) {
    const uint64_t length = read_le(bytes + 12, 4);
    ET_CHECK_OR_RETURN(length >= 24 && prefix.size() >= kHeaderOffset + (length < 32 ? 24 : 32), InvalidProgram,
                       "extended header at byte 8: length %" PRIu64 " is too short or the file ends inside it", length);
    layout.flatbuffer_size = read_le(bytes + 16, 8);
    layout.segment_base_offset = read_le(bytes + 24, 8);
    ET_CHECK_OR_RETURN(
        layout.flatbuffer_size >= kHeaderOffset + length && layout.flatbuffer_size <= file_size, InvalidProgram,
        "extended header: program_size is %" PRIu64 ", the file has %" PRIu64 " bytes; it is cut off or damaged",
        layout.flatbuffer_size, file_size);
    if (layout.segment_base_offset != 0) {
      ET_CHECK_OR_RETURN(
          layout.segment_base_offset >= layout.flatbuffer_size && layout.segment_base_offset <= file_size,
          InvalidProgram,
          "extended header: segment_base_offset is %" PRIu64 ", outside [program_size %" PRIu64 ", file size %" PRIu64
          "]; the file is cut off or damaged",
          layout.segment_base_offset, layout.flatbuffer_size, file_size);
      layout.segment_data_size = length >= 32 ? read_le(bytes + 32, 8) : file_size - layout.segment_base_offset;
      ET_CHECK_OR_RETURN(in_file(layout.segment_base_offset, layout.segment_data_size, file_size), InvalidProgram,
                         "extended header: %" PRIu64 " bytes of segments at byte %" PRIu64
                         ", the file has only %" PRIu64 " bytes; it is cut off",
                         layout.segment_data_size, layout.segment_base_offset, file_size);
    }
  }
  ET_CHECK_OR_RETURN(layout.flatbuffer_size <= kMaxFlatbufferSize, InvalidProgram,
                     "the program part has %" PRIu64 " bytes, the format allows %" PRIu64, layout.flatbuffer_size,
                     kMaxFlatbufferSize);
  return layout;
}

Result<FileLayout> parse_flat_tensor_header(Span<const uint8_t> prefix, uint64_t file_size) {
  const uint8_t* bytes = prefix.data();
  ET_CHECK_OR_RETURN(prefix.size() >= kHeaderOffset + kFlatTensorHeaderLength && file_size >= prefix.size(),
                     InvalidExternalData, "the file has %" PRIu64 " bytes, too short for a .ptd; is it cut off?",
                     file_size);
  if (std::memcmp(bytes + 4, "FT01", 4) != 0 || std::memcmp(bytes + kHeaderOffset, "FH01", 4) != 0) {
    ET_LOG_ERROR("bytes 4 to 11 are '%s%s', a .ptd has 'FT01FH01' there; this is another kind of file or version",
                 Printable(bytes + 4).text, Printable(bytes + kHeaderOffset).text);
    return Error::InvalidExternalData;
  }
  FileLayout layout;
  const uint64_t length = read_le(bytes + 12, 4);
  const uint64_t offset = read_le(bytes + 16, 8);
  const uint64_t size = read_le(bytes + 24, 8);
  layout.segment_base_offset = read_le(bytes + 32, 8);
  layout.segment_data_size = read_le(bytes + 40, 8);
  ET_CHECK_OR_RETURN(length >= kFlatTensorHeaderLength && offset <= kMaxFlatbufferSize && size <= kMaxFlatbufferSize &&
                         in_file(offset, size, file_size) &&
                         in_file(layout.segment_base_offset, layout.segment_data_size, file_size),
                     InvalidExternalData,
                     "header of the .ptd: flatbuffer of %" PRIu64 " bytes at %" PRIu64 ", segments of %" PRIu64
                     " bytes at %" PRIu64 ", the file has %" PRIu64 " bytes; it is cut off or damaged",
                     size, offset, layout.segment_data_size, layout.segment_base_offset, file_size);
  layout.flatbuffer_size = offset + size;
  ET_CHECK_OR_RETURN(layout.flatbuffer_size <= kMaxFlatbufferSize, InvalidExternalData,
                     "the table part of the .ptd has %" PRIu64 " bytes, the format allows %" PRIu64,
                     layout.flatbuffer_size, kMaxFlatbufferSize);
  return layout;
}

void write_pte_header(const FileLayout& layout, uint8_t* out) {
  std::memcpy(out, "eh00", 4);
  write_le(out + 4, 4, kPteHeaderLength);
  write_le(out + 8, 8, layout.flatbuffer_size);
  write_le(out + 16, 8, layout.segment_base_offset);
  write_le(out + 24, 8, layout.segment_data_size);
}

void write_flat_tensor_header(const FileLayout& layout, uint8_t* out) {
  std::memcpy(out, "FH01", 4);
  write_le(out + 4, 4, kFlatTensorHeaderLength);
  constexpr uint64_t kRest = kHeaderOffset + kFlatTensorHeaderLength;
  write_le(out + 8, 8, kRest);
  write_le(out + 16, 8, layout.flatbuffer_size - kRest);
  write_le(out + 24, 8, layout.segment_base_offset);
  write_le(out + 32, 8, layout.segment_data_size);
}

}  // namespace et::schema
