#include "schema/table_verifier.h"

#include <cstring>

#include "schema/pte_header.h"

namespace et::schema {
namespace {

/// Tables in each other at most.
constexpr size_t kMaxDepth = 16;
/// Tables may refer to the same tables and strings again and again; what is looked at stays bounded by the file.
constexpr size_t kMoreWork = 65536;

class TableVerifier {
 public:
  TableVerifier(Span<const uint8_t> bytes, const TableLayouts& layouts)
      : data_(bytes.data()), size_(bytes.size()), layouts_(layouts), work_left_(bytes.size() + kMoreWork) {}

  bool run() {
    size_t root;
    if (size_ >= kMaxFlatbufferSize || !has(4, 4, 1) || std::memcmp(data_ + 4, layouts_.identifier, 4) != 0 ||
        !follow(0, &root) || !enter(root, 0)) {
      return false;
    }
    while (depth_ > 0) {
      Open& table = open_[depth_ - 1];
      if (table.field == layouts_.first_fields[table.layout + 1]) {
        --depth_;
      } else if (!look_at_field(table)) {
        return false;
      }
    }
    return true;
  }

 private:
  /// A table that is looked at, and how far.
  struct Open {
    uint32_t at;
    uint32_t item;  // of a vector of tables
    uint8_t layout;
    uint8_t field;
  };

  template <typename T>
  T read(size_t at) const {
    T value;
    std::memcpy(&value, data_ + at, sizeof(T));
    return value;
  }

  bool has(size_t at, size_t nbytes, size_t alignment) const {
    return at % alignment == 0 && nbytes < size_ && at <= size_ - nbytes;
  }

  /// The place that the offset at `at` leads to.
  bool follow(size_t at, size_t* to) const {
    if (!has(at, 4, 4)) {
      return false;
    }
    const auto offset = read<uint32_t>(at);
    *to = at + offset;
    return offset != 0 && offset <= INT32_MAX && has(*to, 1, 1);
  }

  bool is_vector(size_t at, size_t element_size, uint32_t* count) const {
    if (!has(at, 4, 4)) {
      return false;
    }
    *count = read<uint32_t>(at);
    return *count < size_t{kMaxFlatbufferSize} / element_size && has(at, 4 + *count * element_size, 1);
  }

  bool is_string(size_t at) const {
    uint32_t length;
    return is_vector(at, 1, &length) && has(at + 4 + length, 1, 1) && data_[at + 4 + length] == 0;
  }

  bool enter(size_t at, uint8_t layout) {
    if (depth_ == kMaxDepth || work_left_-- == 0 || !has(at, 4, 4)) {
      return false;
    }
    const size_t vtable = at - static_cast<size_t>(read<int32_t>(at));  // wraps around
    if (!has(vtable, 2, 2) || read<uint16_t>(vtable) % 2 != 0 || !has(vtable, read<uint16_t>(vtable), 1)) {
      return false;
    }
    open_[depth_++] = {static_cast<uint32_t>(at), 0, layout, layouts_.first_fields[layout]};
    return true;
  }

  /// Where the field `field` of a table stands; 0: it is absent.
  size_t place_of(const Open& table, uint8_t field) const {
    const size_t vtable = table.at - static_cast<size_t>(read<int32_t>(table.at));
    const size_t slot = size_t{4} + 2 * (field - layouts_.first_fields[table.layout]);
    const size_t offset = slot < read<uint16_t>(vtable) ? read<uint16_t>(vtable + slot) : 0;
    return offset == 0 ? 0 : table.at + offset;
  }

  /// Looks at the next field, or at the next table of it.
  bool look_at_field(Open& table) {
    const uint8_t field = table.field++;
    const FieldLayout layout = layouts_.fields[field];
    const size_t place = place_of(table, field);
    if (place == 0) {
      return true;
    }
    if (layout.kind == FieldKind::kNumber) {
      return has(place, layout.of, layout.of);
    }
    if (layout.kind == FieldKind::kUnionType) {
      return has(place, 1, 1);
    }
    size_t at;
    uint32_t count;
    if (!follow(place, &at)) {
      return false;
    }
    switch (layout.kind) {
      case FieldKind::kVector: return is_vector(at, layout.of, &count);
      case FieldKind::kString: return is_string(at);
      case FieldKind::kStrings: return are_strings(at);
      case FieldKind::kTable: return enter(at, layout.of);
      case FieldKind::kUnion: {
        const size_t type_at = place_of(table, static_cast<uint8_t>(field - 1));
        const size_t type = type_at == 0 ? 0 : data_[type_at];
        const bool is_known = type != 0 && type <= layouts_.fields[field - 1].of;
        return !is_known || enter(at, static_cast<uint8_t>(layout.of + type - 1));
      }
      default: break;
    }
    if (!is_vector(at, 4, &count)) {
      return false;
    }
    if (table.item == count) {
      table.item = 0;
      return true;
    }
    --table.field;  // it comes again for the next table
    const size_t item = at + 4 + size_t{4} * table.item++;
    return enter(item + read<uint32_t>(item), layout.of);
  }

  bool are_strings(size_t at) {
    uint32_t count;
    if (!is_vector(at, 4, &count) || count > work_left_) {
      return false;
    }
    work_left_ -= count;
    for (size_t item = at + 4; count-- > 0; item += 4) {
      if (!is_string(item + read<uint32_t>(item))) {
        return false;
      }
    }
    return true;
  }

  const uint8_t* data_;
  size_t size_;
  const TableLayouts& layouts_;
  size_t work_left_;  // tables and strings
  size_t depth_ = 0;
  Open open_[kMaxDepth];
};

}  // namespace

bool verify_tables(Span<const uint8_t> bytes, const TableLayouts& layouts) {
  return TableVerifier(bytes, layouts).run();
}

}  // namespace et::schema
