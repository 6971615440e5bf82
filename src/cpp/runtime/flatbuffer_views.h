/// Spans and string views over the vectors and strings of a verified flatbuffer. Internal to runtime.
#pragma once

#include <string_view>

#include <flatbuffers/flatbuffers.h>

#include "base/span.h"

namespace et::runtime {

static_assert(FLATBUFFERS_LITTLEENDIAN, "files are read in place: the processor must be little-endian");

inline std::string_view view(const flatbuffers::String* text) {
  return text == nullptr ? std::string_view() : std::string_view(text->c_str(), text->size());
}

/// The elements of a vector of numbers or structs; empty when the field is absent.
template <typename T>
Span<const T> span(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr ? Span<const T>()
                           : Span<const T>(reinterpret_cast<const T*>(vector->Data()), vector->size());
}
template <typename T>
Span<const T> span(const flatbuffers::Vector<const T*>* vector) {
  return vector == nullptr ? Span<const T>()
                           : Span<const T>(reinterpret_cast<const T*>(vector->Data()), vector->size());
}

/// Number of elements; 0 when the field is absent.
template <typename T>
uint32_t count(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr ? 0 : vector->size();
}

/// True when the elements may be read in place. What verifies tables checks only where the length stands.
template <typename T>
bool is_aligned(Span<const T> elements) {
  return elements.empty() || reinterpret_cast<uintptr_t>(elements.data()) % alignof(T) == 0;
}

}  // namespace et::runtime
