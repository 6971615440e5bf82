#include "runtime/debug_info.h"

#include "runtime/flatbuffer_views.h"

namespace et::runtime {

bool read_packed_number(Span<const uint8_t> bytes, size_t* at, uint32_t* number) {
  uint64_t value = 0;
  for (uint32_t shift = 0; shift < 35 && *at < bytes.size(); shift += 7) {
    const uint8_t byte = bytes[(*at)++];
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *number = static_cast<uint32_t>(value);
      return value <= UINT32_MAX;
    }
  }
  return false;
}

bool read_packed_origin(Span<const uint8_t> bytes, size_t* at, PackedOrigin* origin) {
  for (uint32_t* number : {&origin->op, &origin->node, &origin->node_number, &origin->module_path, &origin->file,
                           &origin->line, &origin->num_handles}) {
    if (!read_packed_number(bytes, at, number)) {
      return false;
    }
  }
  uint32_t step = 0;
  for (uint32_t i = 0; i < origin->num_handles; ++i) {  // each takes a byte at least
    if (!read_packed_number(bytes, at, &step)) {
      return false;
    }
  }
  return true;
}

InstructionOrigin OriginReader::next() {
  if (debug_.version() == 0) {
    const schema::debug::InstructionInfo& info = span(method_.instructions())[instruction_++];
    const auto text = [this](uint32_t i) { return view(debug_.strings()->Get(i)); };
    return {text(info.op()), text(info.node()), 0, text(info.module_path()), text(info.file()), info.line()};
  }
  PackedOrigin packed;
  static_cast<void>(read_packed_origin(span(method_.origins()), &at_, &packed));  // verified
  const auto text = [this](uint32_t offset) {
    return std::string_view(reinterpret_cast<const char*>(debug_.text()->data()) + offset);  // up to its zero
  };
  return {text(packed.op),          text(packed.node), packed.node_number,
          text(packed.module_path), text(packed.file), packed.line};
}

}  // namespace et::runtime
