/// FlatBuffers written from front to back, to wherever bytes go, without memory of its own.
///
/// For: etdump.cpp. FlatBuffers' builder begins with the leaves and needs the whole file in memory. Here a tree of
/// nodes on the stack is measured, then streamed: parents first, as references point forward. Not for: reading, or
/// large trees whose nodes are dear to measure; each level measures its children once more.
///
///     const String name("forward");
///     const Table run({Field::node(&name), Field::scalar<int32_t>(-1)});
///     Out out(sink, context);
///     write_size_prefixed(out, run, "ED00");
#pragma once

#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/span.h"

namespace et::devtools {

/// Takes bytes in order. An error ends the writing.
using WriteBytes = Error (*)(void* context, const void* data, size_t nbytes);

/// Where bytes go, and how many went.
class Out {
 public:
  Out(WriteBytes write, void* context) : write_(write), context_(context) {}
  Out(const Out&) = delete;
  Out& operator=(const Out&) = delete;

  void bytes(const void* data, size_t nbytes);
  template <typename T>
  void number(T value) {
    bytes(&value, sizeof(value));
  }
  /// Zeros up to `position`.
  void pad_to(size_t position);
  size_t position() const { return position_; }
  /// Passes on what is held back. Errors: the first that `write` gave.
  Error flush();

 private:
  WriteBytes write_;
  void* context_;
  size_t position_ = 0;
  Error error_ = Error::Ok;
  size_t held_ = 0;
  uint8_t buffer_[256];
};

/// Something that a reference points at.
class Node {
 public:
  /// Where it begins and ends when the bytes before it end at `at`.
  struct Place {
    size_t entry;  ///< what references point at
    size_t end;
  };
  virtual Place place(size_t at) const = 0;
  virtual void write(Out& out) const = 0;

 protected:
  ~Node() = default;
};

/// A text, in one or two parts, with the zero behind it.
class String final : public Node {
 public:
  explicit String(std::string_view text, std::string_view rest = {}) : text_(text), rest_(rest) {}
  Place place(size_t at) const override;
  void write(Out& out) const override;

 private:
  std::string_view text_;
  std::string_view rest_;
};

/// A vector of numbers of `item_size` bytes each.
class Numbers final : public Node {
 public:
  Numbers(const void* data, size_t count, size_t item_size) : data_(data), count_(count), item_size_(item_size) {}
  Place place(size_t at) const override;
  void write(Out& out) const override;

 private:
  const void* data_;
  size_t count_;
  size_t item_size_;
};

/// A vector of references. A derived class makes its items, the same ones in each walk.
class Nodes : public Node {
 public:
  using Visit = void (*)(void* context, const Node& item);
  virtual size_t count() const = 0;
  virtual void each(Visit visit, void* context) const = 0;
  Place place(size_t at) const final;
  void write(Out& out) const final;

 protected:
  ~Nodes() = default;
};

/// A field of a table: absent, a number, or a reference.
struct Field {
  const Node* child = nullptr;
  uint8_t size = 0;  // 0: absent
  uint64_t bits = 0;

  static Field absent() { return {}; }
  template <typename T>
  static Field scalar(T value) {
    Field field;
    field.size = sizeof(T);
    std::memcpy(&field.bits, &value, sizeof(T));  // little-endian, as the format
    return field;
  }
  /// nullptr: absent.
  static Field node(const Node* child) {
    Field field;
    field.child = child;
    field.size = child == nullptr ? 0 : 4;
    return field;
  }
};

class Table final : public Node {
 public:
  /// Fields in the order of the schema; must live as long as the table.
  explicit Table(Span<const Field> fields) : fields_(fields) {}
  Place place(size_t at) const override;
  void write(Out& out) const override;

 private:
  static constexpr size_t kMaxFields = 16;
  /// Where fields lie in the table; its size.
  size_t lay_out(uint16_t (&offsets)[kMaxFields]) const;
  size_t vtable_size() const { return 4 + 2 * fields_.size(); }

  Span<const Field> fields_;
};

/// Bytes of the whole.
size_t size_prefixed_nbytes(const Node& root);
/// The length of the rest, the offset of the root, the identifier of four letters, and the tree.
Error write_size_prefixed(Out& out, const Node& root, const char* identifier);

}  // namespace et::devtools
