/// Dtypes and shapes as messages tell them, which is as PyTorch prints them: "torch.float32 (2, 8)", "(3,)", "()".
///
/// For: every message, in all of C++. The text form of the IR has a notation of its own (short_name, ir/printer.h).
///
///     ET_CHECK_OR_RETURN(…, InvalidArgument, "self is %s", TensorText(self.scalar_type(), self.sizes()).text);
///
/// No heap: texts lie in a buffer, and shapes of more dimensions than it takes are cut off.
#pragma once

#include "base/dtype.h"
#include "base/span.h"

namespace et {

/// The sizes of a tensor, as a tuple.
struct ShapeText {
  char text[160];
  explicit ShapeText(Span<const int64_t> sizes) : ShapeText(sizes, sizes) {}
  /// Sizes as files hold them.
  template <typename T, typename = std::enable_if_t<std::is_same_v<T, int32_t>>>
  explicit ShapeText(Span<const T> sizes) : ShapeText(FileSizes{}, sizes) {}
  /// Sizes that vary within bounds: "(1 to 8, 16)"; an upper bound of INT64_MAX is "any".
  ShapeText(Span<const int64_t> lower, Span<const int64_t> upper);

 private:
  struct FileSizes {};
  ShapeText(FileSizes, Span<const int32_t> sizes);
};

/// The dtype and sizes of a tensor.
struct TensorText {
  char text[192];
  template <typename... Sizes>
  explicit TensorText(ScalarType dtype, Sizes... sizes) : TensorText(dtype, ShapeText(sizes...)) {}
  TensorText(ScalarType dtype, const ShapeText& shape);
};

}  // namespace et
