#include "emit/data_pool.h"

#include <algorithm>
#include <cstring>

namespace et::emit {
namespace {

/// A number made from the size and up to 4 x 64 of the bytes: equal contents have equal samples.
/// Source: FNV-1a with 64-bit words, http://www.isthe.com/chongo/tech/comp/fnv/ (the multiplier is its 64-bit prime).
uint64_t sample(const void* data, uint64_t nbytes) {
  if (nbytes == 0) {
    return 0;
  }
  constexpr uint64_t kPrime = 0x100000001b3;
  constexpr uint64_t kWindow = 64;
  const auto* bytes = static_cast<const uint8_t*>(data);
  uint64_t hash = 0xcbf29ce484222325 ^ nbytes;
  const uint64_t last = nbytes - std::min(nbytes, kWindow);
  for (const uint64_t begin : {uint64_t{0}, last / 3, last / 3 * 2, last}) {
    const uint64_t end = begin + std::min(kWindow, nbytes);
    for (uint64_t i = begin; i < end; i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes + i, std::min<uint64_t>(8, end - i));
      hash = (hash ^ word) * kPrime;
      hash ^= hash >> 29;
    }
  }
  return hash;
}

}  // namespace

const ContentIndex::Entry* ContentIndex::find(uint64_t key, const void* data, uint64_t nbytes) const {
  const auto [begin, end] = entries_.equal_range(key);
  for (auto entry = begin; entry != end; ++entry) {
    const Entry& other = entry->second;
    if (other.nbytes == nbytes && (other.data == data || nbytes == 0 || std::memcmp(other.data, data, nbytes) == 0)) {
      return &other;
    }
  }
  return nullptr;
}

std::optional<uint32_t> ContentIndex::find(const void* data, uint64_t nbytes) const {
  const Entry* const entry = find(sample(data, nbytes), data, nbytes);
  return entry != nullptr ? std::optional(entry->id) : std::nullopt;
}

uint32_t ContentIndex::find_or_add(const void* data, uint64_t nbytes, uint32_t id) {
  const uint64_t key = sample(data, nbytes);
  if (const Entry* const entry = find(key, data, nbytes)) {
    return entry->id;
  }
  entries_.emplace(key, Entry{data, nbytes, id});
  return id;
}

std::optional<uint64_t> DataPool::find(const void* data, uint64_t nbytes) const {
  const std::optional<uint32_t> index = index_.find(data, nbytes);
  return index ? std::optional(offsets_[*index]) : std::nullopt;
}

uint32_t DataPool::add(const void* data, uint64_t nbytes) {
  const uint32_t next = static_cast<uint32_t>(offsets_.size());
  const uint32_t index = index_.find_or_add(data, nbytes, next);
  if (index != next) {
    return index;
  }
  if (nbytes == 0) {
    offsets_.push_back(0);  // a place that lies in the segment whatever else it holds
    return index;
  }
  const uint64_t offset = align_up(nbytes_, alignment_);
  offsets_.push_back(offset);
  pieces_.push_back({data, nbytes, offset});
  nbytes_ = offset + nbytes;
  return index;
}

uint32_t SegmentPool::add(const std::vector<Piece>& pieces, uint64_t nbytes) {
  const uint64_t alignment = nbytes < kLeastAlignedNbytes ? std::min(alignment_, kSmallAlignment) : alignment_;
  const uint64_t offset = nbytes == 0 ? nbytes_ : align_up(nbytes_, alignment);
  segments_.push_back({offset, nbytes});
  for (Piece piece : pieces) {
    piece.offset += offset;
    pieces_.push_back(piece);
  }
  nbytes_ = std::max(nbytes_, offset + nbytes);
  return static_cast<uint32_t>(segments_.size() - 1);
}

uint32_t SegmentPool::add_shared(const void* data, uint64_t nbytes) {
  const uint32_t next = static_cast<uint32_t>(segments_.size());
  const uint32_t index = index_.find_or_add(data, nbytes, next);
  return index != next ? index
                       : add(nbytes == 0 ? std::vector<Piece>{} : std::vector<Piece>{{data, nbytes, 0}}, nbytes);
}

uint32_t SegmentPool::add_view(uint64_t offset, uint64_t nbytes) {
  segments_.push_back({offset, nbytes});
  return static_cast<uint32_t>(segments_.size() - 1);
}

}  // namespace et::emit
