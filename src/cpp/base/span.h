/// Span<T>: a pointer and a length, for C++17.
///
/// Owns nothing; the caller keeps the elements alive. `Span<const int64_t>` is what sizes and strides are passed as.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <type_traits>

#include "base/error.h"

namespace et {

template <typename T>
class Span {
 public:
  using value_type = std::remove_cv_t<T>;

  constexpr Span() = default;
  constexpr Span(T* data, size_t size) : data_(data), size_(size) {}
  template <size_t N>
  constexpr Span(T (&array)[N]) : data_(array), size_(N) {}  // NOLINT(google-explicit-constructor)
  /// Any container of T with data() and size(): std::vector, std::array, another Span.
  template <typename Container,
            typename = std::enable_if_t<std::is_convertible_v<decltype(std::declval<Container&>().data()), T*>>>
  constexpr Span(Container& container)  // NOLINT(google-explicit-constructor)
      : data_(container.data()), size_(container.size()) {}
  template <typename Container,
            typename = std::enable_if_t<std::is_convertible_v<decltype(std::declval<const Container&>().data()), T*>>>
  constexpr Span(const Container& container)  // NOLINT(google-explicit-constructor)
      : data_(container.data()), size_(container.size()) {}
  // GCC warns of what the comment below says; the other compilers do not know the warning.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
#endif
  /// A list that lives until the end of the full expression: for arguments only.
  template <typename U = T, typename = std::enable_if_t<std::is_const_v<U>>>
  constexpr Span(std::initializer_list<value_type> list)  // NOLINT(google-explicit-constructor)
      : data_(list.begin()), size_(list.size()) {}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

  constexpr T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T& operator[](size_t i) const {
    ET_DCHECK(i < size_);
    return data_[i];
  }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }
  constexpr T& front() const { return (*this)[0]; }
  constexpr T& back() const { return (*this)[size_ - 1]; }
  /// `count` elements from `first`; both must lie inside.
  constexpr Span subspan(size_t first, size_t count) const {
    ET_DCHECK(first <= size_ && count <= size_ - first);
    return Span(data_ + first, count);
  }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

/// Element-wise equality.
template <typename A, typename B>
constexpr bool equal(Span<A> a, Span<B> b) {
  if (a.size() != b.size()) {
    return false;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] == b[i])) {
      return false;
    }
  }
  return true;
}

}  // namespace et
