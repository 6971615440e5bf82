/// Result<T>: a value, or the Error that says why there is none.
///
///     Result<size_t> parse(std::string_view text);
///     ...
///     ET_TRY(const size_t n, parse(text));        // returns the error from here when there is one
///
/// The message that goes with an error has already been sent to the log hook by whoever made it.
#pragma once

#include <new>
#include <type_traits>
#include <utility>

#include "base/error.h"

namespace et {

/// Holds a T or a non-Ok Error. Movable when T is; never empty.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  /// A failed result. `error` must not be Ok; an Ok becomes Internal.
  Result(Error error) : error_(error == Error::Ok ? Error::Internal : error) {}  // NOLINT(google-explicit-constructor)
  Result(const T& value) : error_(Error::Ok), value_(value) {}                   // NOLINT(google-explicit-constructor)
  Result(T&& value) : error_(Error::Ok), value_(std::move(value)) {}             // NOLINT(google-explicit-constructor)
  Result(Result&& other) noexcept : error_(other.error_) {
    if (ok()) {
      new (&value_) T(std::move(other.value_));
    }
  }
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  Result& operator=(Result&&) = delete;
  ~Result() {
    if (ok()) {
      value_.~T();
    }
  }

  bool ok() const { return error_ == Error::Ok; }
  Error error() const { return error_; }

  /// The value. Only when ok().
  T& get() {
    ET_DCHECK(ok());
    return value_;
  }
  const T& get() const {
    ET_DCHECK(ok());
    return value_;
  }
  T& operator*() { return get(); }
  const T& operator*() const { return get(); }
  T* operator->() { return &get(); }
  const T* operator->() const { return &get(); }

 private:
  Error error_;
  union {
    char none_;
    T value_;
  };
};

}  // namespace et

#define ET_CONCAT_INNER_(a, b) a##b
#define ET_CONCAT_(a, b) ET_CONCAT_INNER_(a, b)

/// Declares or assigns `target` from a Result expression, or returns its error from the enclosing function.
#define ET_TRY(target, expression) ET_TRY_IMPL_(ET_CONCAT_(et_result_, __LINE__), target, expression)
#define ET_TRY_IMPL_(name, target, expression) \
  auto name = (expression);                    \
  if (__builtin_expect(!name.ok(), 0)) {       \
    return name.error();                       \
  }                                            \
  target = std::move(name.get())
