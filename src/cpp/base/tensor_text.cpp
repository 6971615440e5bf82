#include "base/tensor_text.h"

#include <cinttypes>
#include <cstdarg>

#include "base/format.h"

namespace et {
namespace {

/// Writes items of a tuple into a buffer of a fixed size, in which the longest one still fits.
template <size_t N>
class TupleWriter {
 public:
  explicit TupleWriter(char (&text)[N]) : text_(text) { append("("); }
  bool has_room() const { return used_ + kLongest < N; }
  __attribute__((format(printf, 2, 3))) void append(const char* format, ...) {
    va_list numbers;
    va_start(numbers, format);
    used_ += format_arguments(text_ + used_, N - used_, format, numbers);
    va_end(numbers);
  }
  void close(size_t num_items, bool is_whole) { append(!is_whole ? ", ...)" : num_items == 1 ? ",)" : ")"); }

 private:
  static constexpr size_t kLongest = 52;  // ", ", two numbers of 64 bits with " to " between them, and the end

  char (&text_)[N];
  size_t used_ = 0;
};

}  // namespace

ShapeText::ShapeText(Span<const int64_t> lower, Span<const int64_t> upper) {
  TupleWriter writer(text);
  size_t d = 0;
  for (; d < upper.size() && writer.has_room(); ++d) {
    writer.append("%s%" PRId64, d == 0 ? "" : ", ", lower[d]);
    if (upper[d] == INT64_MAX) {
      writer.append(" to any");
    } else if (lower[d] != upper[d]) {
      writer.append(" to %" PRId64, upper[d]);
    }
  }
  writer.close(upper.size(), d == upper.size());
}

ShapeText::ShapeText(FileSizes, Span<const int32_t> sizes) {
  TupleWriter writer(text);
  size_t d = 0;
  for (; d < sizes.size() && writer.has_room(); ++d) {
    writer.append("%s%" PRId32, d == 0 ? "" : ", ", sizes[d]);
  }
  writer.close(sizes.size(), d == sizes.size());
}

TensorText::TensorText(ScalarType dtype, const ShapeText& shape) {
  format_text(text, sizeof(text), "%s %s", to_string(dtype), shape.text);
}

}  // namespace et
