#include "runtime/debug_info.h"

#include <cstring>

#include "runtime/flatbuffer_views.h"

namespace et::runtime {

bool OriginReader::read(uint32_t (&fields)[kNumOriginFields]) {
  if (debug_.version() == 0) {
    static_assert(sizeof(schema::debug::InstructionInfo) == sizeof(fields));
    if (at_ == count(method_.instructions())) {
      return false;
    }
    // Copied: flatbuffers' verifier does not say that the structs are aligned.
    std::memcpy(fields, method_.instructions()->Data() + at_++ * sizeof(fields), sizeof(fields));
    if (uint64_t{fields[kNodeNumber]} + fields[kNumHandles] > count(method_.debug_handles())) {
      return false;
    }
    fields[kNodeNumber] = 0;
  } else {
    const Span<const uint8_t> bytes = span(method_.origins());
    uint64_t num_numbers = kNumOriginFields;
    for (uint64_t i = 0; i < num_numbers; ++i) {
      uint32_t number = 0;
      uint32_t shift = 0;
      uint8_t byte;
      do {
        if (at_ == bytes.size() || shift > 28) {
          return false;
        }
        byte = bytes[at_++];
        number |= static_cast<uint32_t>(byte & 0x7f) << shift;
        shift += 7;
      } while (byte >= 0x80);
      if (shift > 28 && byte > 0x0f) {
        return false;  // more than 32 bits
      }
      if (i < kNumOriginFields) {
        fields[i] = number;
      }
      if (i == kNumHandles) {
        num_numbers += number;  // each handle takes a byte at least
      }
    }
  }
  for (uint32_t i = kOp; i <= kFile; ++i) {
    if (fields[i] >= count(debug_.strings())) {
      return false;
    }
  }
  return true;
}

bool OriginReader::is_at_end() const {
  return at_ == (debug_.version() == 0 ? count(method_.instructions()) : count(method_.origins()));
}

InstructionOrigin OriginReader::next() {
  uint32_t fields[kNumOriginFields] = {};
  static_cast<void>(read(fields));  // verified
  const auto text = [&](OriginField field) { return view(debug_.strings()->Get(fields[field])); };
  return {text(kOp), text(kNode), fields[kNodeNumber], text(kModulePath), text(kFile), fields[kLine]};
}

}  // namespace et::runtime
