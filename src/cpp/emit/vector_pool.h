/// VectorPool: vectors of numbers of a flatbuffer, equal ones once.
///
/// For: the sizes and dim orders of tensors, of which a method has few different ones. Not for: vectors that are long
/// or never equal, such as an instruction's arguments. Tables may point at one vector as often as they like.
///
///     const auto sizes = vectors.add(std::vector<int32_t>{1, 8});
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "flatbuffers/flatbuffers.h"

namespace et::emit {

class VectorPool {
 public:
  explicit VectorPool(flatbuffers::FlatBufferBuilder& builder) : builder_(builder) {}

  /// The vector with these elements in the builder's buffer.
  template <typename T>
  flatbuffers::Offset<flatbuffers::Vector<T>> add(const std::vector<T>& elements) {
    std::string key(1, static_cast<char>(sizeof(T)));
    key.append(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T));
    const auto [entry, is_new] = offsets_.emplace(std::move(key), 0);
    if (is_new) {
      entry->second = builder_.CreateVector(elements).o;
    }
    return entry->second;
  }

 private:
  flatbuffers::FlatBufferBuilder& builder_;
  std::unordered_map<std::string, flatbuffers::uoffset_t> offsets_;
};

}  // namespace et::emit
