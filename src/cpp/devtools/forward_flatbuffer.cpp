#include "devtools/forward_flatbuffer.h"

namespace et::devtools {
namespace {

constexpr size_t kHead = 12;  // length, offset of the root, identifier

constexpr size_t align(size_t at, size_t to) { return (at + to - 1) / to * to; }

void write_offset(Out& out, size_t entry) { out.number(static_cast<uint32_t>(entry - out.position())); }

}  // namespace

void Out::bytes(const void* data, size_t nbytes) {
  position_ += nbytes;
  if (nbytes > sizeof(buffer_) - held_ && flush() != Error::Ok) {
    return;
  }
  if (nbytes > sizeof(buffer_)) {
    error_ = write_(context_, data, nbytes);
  } else if (nbytes > 0) {
    std::memcpy(buffer_ + held_, data, nbytes);
    held_ += nbytes;
  }
}

void Out::pad_to(size_t position) {
  static constexpr uint8_t kZeros[8] = {};
  bytes(kZeros, position - position_);
}

Error Out::flush() {
  if (error_ == Error::Ok && held_ > 0) {
    error_ = write_(context_, buffer_, held_);
  }
  held_ = 0;
  return error_;
}

Node::Place String::place(size_t at) const {
  const size_t entry = align(at, 4);
  return {entry, entry + 4 + text_.size() + rest_.size() + 1};
}

void String::write(Out& out) const {
  out.pad_to(place(out.position()).entry);
  out.number(static_cast<uint32_t>(text_.size() + rest_.size()));
  out.bytes(text_.data(), text_.size());
  out.bytes(rest_.data(), rest_.size());
  out.number('\0');
}

Node::Place Numbers::place(size_t at) const {
  const size_t first = align(at + 4, item_size_ < 4 ? 4 : item_size_);
  return {first - 4, first + count_ * item_size_};
}

void Numbers::write(Out& out) const {
  out.pad_to(place(out.position()).entry);
  out.number(static_cast<uint32_t>(count_));
  out.bytes(data_, count_ * item_size_);
}

Node::Place Nodes::place(size_t at) const {
  const size_t entry = align(at, 4);
  size_t end = entry + 4 + 4 * count();
  each(
      [](void* context, const Node& item) {
        auto* const item_end = static_cast<size_t*>(context);
        *item_end = item.place(*item_end).end;
      },
      &end);
  return {entry, end};
}

void Nodes::write(Out& out) const {
  out.pad_to(align(out.position(), 4));
  out.number(static_cast<uint32_t>(count()));
  struct Walk {
    Out& out;
    size_t end;
  } walk{out, out.position() + 4 * count()};
  each(
      [](void* context, const Node& item) {
        auto& walked = *static_cast<Walk*>(context);
        const Place place = item.place(walked.end);
        write_offset(walked.out, place.entry);
        walked.end = place.end;
      },
      &walk);
  each([](void* context, const Node& item) { item.write(*static_cast<Out*>(context)); }, &out);
}

size_t Table::lay_out(uint16_t (&offsets)[kMaxFields]) const {
  size_t end = 4;  // behind the reference to the vtable
  for (const size_t size : {4u, 2u, 1u, 8u}) {
    end = size == 8 && end != 4 ? align(end, 8) : end;
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i].size == size) {
        end = align(end, size);
        offsets[i] = static_cast<uint16_t>(end);
        end += size;
      } else if (fields_[i].size == 0) {
        offsets[i] = 0;
      }
    }
  }
  return align(end, 4);
}

Node::Place Table::place(size_t at) const {
  uint16_t offsets[kMaxFields];
  const size_t entry = align(align(at, 2) + vtable_size(), 8);
  size_t end = entry + lay_out(offsets);
  for (const Field& field : fields_) {
    end = field.child == nullptr ? end : field.child->place(end).end;
  }
  return {entry, end};
}

void Table::write(Out& out) const {
  uint16_t offsets[kMaxFields];
  const size_t size = lay_out(offsets);
  const size_t entry = align(align(out.position(), 2) + vtable_size(), 8);
  out.pad_to(entry - vtable_size());
  out.number(static_cast<uint16_t>(vtable_size()));
  out.number(static_cast<uint16_t>(size));
  out.bytes(offsets, 2 * fields_.size());
  out.number(static_cast<int32_t>(vtable_size()));
  size_t child_end = entry + size;
  for (const size_t wanted : {4u, 2u, 1u, 8u}) {  // as lay_out
    for (size_t i = 0; i < fields_.size(); ++i) {
      const Field& field = fields_[i];
      if (field.size != wanted) {
        continue;
      }
      out.pad_to(entry + offsets[i]);
      if (field.child == nullptr) {
        out.bytes(&field.bits, field.size);
        continue;
      }
      const Place place = field.child->place(child_end);
      write_offset(out, place.entry);
      child_end = place.end;
    }
  }
  out.pad_to(entry + size);
  for (const Field& field : fields_) {
    if (field.child != nullptr) {
      field.child->write(out);
    }
  }
}

size_t size_prefixed_nbytes(const Node& root) { return align(root.place(kHead).end, 8); }

Error write_size_prefixed(Out& out, const Node& root, const char* identifier) {
  const size_t nbytes = size_prefixed_nbytes(root);
  out.number(static_cast<uint32_t>(nbytes - 4));
  write_offset(out, root.place(kHead).entry);
  out.bytes(identifier, 4);
  root.write(out);
  out.pad_to(nbytes);
  return out.flush();
}

}  // namespace et::devtools
