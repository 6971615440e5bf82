/// Pools of bytes that a file holds once: constants side by side in a segment, and segments behind the flatbuffer.
///
/// For: the emitter. Both pools borrow what they are given and compare by content, so that tied weights, equal payloads
/// and equal initial states are stored once. Contents are compared byte by byte when size and a sample agree; most
/// constants differ in the sample, so that adding a weight costs a look at a few hundred of its bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "emit/sink.h"

namespace et::emit {

/// Finds bytes that were seen before.
class ContentIndex {
 public:
  /// The id under which the same bytes were added before, or `id`, under which they are known from now on.
  uint32_t find_or_add(const void* data, uint64_t nbytes, uint32_t id);
  /// The id of the same bytes, if they were added.
  std::optional<uint32_t> find(const void* data, uint64_t nbytes) const;

 private:
  struct Entry {
    const void* data;
    uint64_t nbytes;
    uint32_t id;
  };
  const Entry* find(uint64_t key, const void* data, uint64_t nbytes) const;

  std::unordered_multimap<uint64_t, Entry> entries_;
};

/// Data inside one segment, as Program.constant_segment and mutable_data_segments describe it.
class DataPool {
 public:
  explicit DataPool(uint64_t alignment) : alignment_(alignment) {}

  /// Index of the bytes in `offsets()`, from 1.
  uint32_t add(const void* data, uint64_t nbytes);
  /// Where the same bytes lie, from the segment's beginning, if they were added.
  std::optional<uint64_t> find(const void* data, uint64_t nbytes) const;
  /// offsets()[0] = 0 is reserved: index 0 means "no data".
  const std::vector<uint64_t>& offsets() const { return offsets_; }
  /// Pieces with offsets from the segment's beginning.
  const std::vector<Piece>& pieces() const { return pieces_; }
  /// Bytes up to the end of the last piece.
  uint64_t nbytes() const { return nbytes_; }

 private:
  uint64_t alignment_;
  uint64_t nbytes_ = 0;
  std::vector<uint64_t> offsets_{0};
  std::vector<Piece> pieces_;
  ContentIndex index_;
};

/// Smaller segments stand at multiples of `kSmallAlignment`, which is what payloads and constants need. A delegate has
/// many of a few hundred bytes (biases, scales), and the padding before each would be a good part of them.
inline constexpr uint64_t kLeastAlignedNbytes = 4096;
inline constexpr uint64_t kSmallAlignment = 16;

/// Segments in the order in which they are added.
class SegmentPool {
 public:
  struct Segment {
    uint64_t offset = 0;  ///< from the segments' beginning
    uint64_t nbytes = 0;
  };

  explicit SegmentPool(uint64_t alignment) : alignment_(alignment) {}

  /// A segment of its own made of `pieces`, whose offsets count from its beginning.
  uint32_t add(const std::vector<Piece>& pieces, uint64_t nbytes);
  /// A segment with these bytes; one that `add_shared` made before when it has the same.
  uint32_t add_shared(const void* data, uint64_t nbytes);
  /// A segment of bytes that another one holds. `offset`: from the segments' beginning.
  uint32_t add_view(uint64_t offset, uint64_t nbytes);

  const std::vector<Segment>& segments() const { return segments_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  /// Bytes up to the end of the last segment; it is not padded.
  uint64_t nbytes() const { return nbytes_; }

 private:
  uint64_t alignment_;
  uint64_t nbytes_ = 0;
  std::vector<Segment> segments_;
  std::vector<Piece> pieces_;
  ContentIndex index_;
};

/// `value` rounded up to a multiple of `alignment`, a power of two.
inline uint64_t align_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }

}  // namespace et::emit
