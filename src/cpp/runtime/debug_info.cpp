#include "runtime/debug_info.h"

#include <cstring>

#include "runtime/flatbuffer_views.h"

namespace et::runtime {

OriginReader::OriginReader(const schema::debug::DebugInfo& debug, const schema::debug::MethodInfo& method)
    : debug_(debug) {
  if (debug.version() == 0) {
    method_ = &method;
  } else {
    bytes_ = span(method.origins());
  }
}

OriginReader::OriginReader(const schema::debug::DebugInfo& debug, const schema::debug::DelegateInfo& delegate)
    : debug_(debug), bytes_(span(delegate.origins())) {}

bool OriginReader::read(uint32_t (&fields)[kNumOriginFields]) {
  debug_handle_ = 0;
  if (method_ != nullptr) {
    static_assert(sizeof(schema::debug::InstructionInfo) == sizeof(fields));
    if (at_ == count(method_->instructions())) {
      return false;
    }
    // Copied: flatbuffers' verifier does not say that the structs are aligned.
    std::memcpy(fields, method_->instructions()->Data() + at_++ * sizeof(fields), sizeof(fields));
    if (uint64_t{fields[kNodeNumber]} + fields[kNumHandles] > count(method_->debug_handles())) {
      return false;
    }
    if (fields[kNumHandles] > 0) {
      debug_handle_ = method_->debug_handles()->Get(fields[kNodeNumber]);
    }
    fields[kNodeNumber] = 0;
  } else {
    uint64_t num_numbers = kNumOriginFields;
    for (uint64_t i = 0; i < num_numbers; ++i) {
      uint32_t number = 0;
      uint32_t shift = 0;
      uint8_t byte;
      do {
        if (at_ == bytes_.size() || shift > 28) {
          return false;
        }
        byte = bytes_[at_++];
        number |= static_cast<uint32_t>(byte & 0x7f) << shift;
        shift += 7;
      } while (byte >= 0x80);
      if (shift > 28 && byte > 0x0f) {
        return false;  // more than 32 bits
      }
      if (i < kNumOriginFields) {
        fields[i] = number;
      } else {
        last_handle_ += number >> 1 ^ (0 - (number & 1));  // modulo 2^32
        debug_handle_ = i == kNumOriginFields ? last_handle_ : debug_handle_;
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
  return at_ == (method_ != nullptr ? count(method_->instructions()) : bytes_.size());
}

InstructionOrigin OriginReader::next() {
  uint32_t fields[kNumOriginFields] = {};
  static_cast<void>(read(fields));  // verified
  const auto text = [&](OriginField field) { return view(debug_.strings()->Get(fields[field])); };
  return {text(kOp), text(kNode), fields[kNodeNumber], text(kModulePath), text(kFile), fields[kLine]};
}

}  // namespace et::runtime
