/// EXECUTORCH_LIBRARY: a kernel of the application, registered by one line beside it.
///
/// For: applications with a kernel or two. Not for: libraries of kernels. A linker leaves out object files of a static
/// library that nobody calls, and their registrations with them; executorch_py_add_kernel_library makes a function to
/// call.
///
///     Error triple_out(KernelContext& context, const Tensor& x, Tensor& out);
///     EXECUTORCH_LIBRARY(my_ops, "triple.out", triple_out);          // the operator my_ops::triple.out
///
/// A kernel may also be written in the published way: a KernelRuntimeContext, or no context, and any result:
///
///     Tensor& triple_out(KernelRuntimeContext& context, const Tensor& x, Tensor& out) {
///       ET_KERNEL_CHECK(context, resize_tensor(out, x.sizes()) == Error::Ok, InvalidArgument, out);
///       …
///
/// Place: the static object stands in the application's own file and only links itself into a list, which the process's
/// registry takes (process.h) before the next load. The runtime and its kernels have no such objects
/// (docs/design/05-explicit-registration.md).
#pragma once

#include <type_traits>

#include "runtime/kernel.h"

namespace et::extension {

/// One kernel in the list of those that the process has yet to take.
class KernelRegistration {
 public:
  KernelRegistration(const runtime::Kernel& kernel, const char* library);
  KernelRegistration(const KernelRegistration&) = delete;
  KernelRegistration& operator=(const KernelRegistration&) = delete;

  const runtime::Kernel& kernel() const { return kernel_; }
  const char* library() const { return library_; }
  const KernelRegistration* next() const { return next_; }
  /// False when the list is empty. Threads: safe.
  static bool any_left();
  /// The list, the last one first; it is empty afterwards. Threads: safe.
  static const KernelRegistration* take_all();
  /// Puts a list of take_all back. Threads: safe.
  static void give_back(const KernelRegistration* first);

 private:
  runtime::Kernel kernel_;
  const char* library_;
  mutable const KernelRegistration* next_ = nullptr;
};

/// The context of a published kernel: it keeps the first error, which the call then returns.
class KernelRuntimeContext {
 public:
  explicit KernelRuntimeContext(runtime::KernelContext& context);
  ~KernelRuntimeContext();
  KernelRuntimeContext(const KernelRuntimeContext&) = delete;
  KernelRuntimeContext& operator=(const KernelRuntimeContext&) = delete;

  void fail(Error error) { error_ = error_ == Error::Ok ? error : error_; }
  Error failure_state() const { return error_; }
  /// Memory until the end of this call. Errors: MemoryAllocationFailed.
  Result<void*> allocate_temp(size_t nbytes, size_t alignment = 16) {
    return context_.allocate_temp(nbytes, alignment);
  }
  runtime::KernelContext& context() { return context_; }

 private:
  runtime::KernelContext& context_;
  runtime::KernelContext* outer_;
  Error error_ = Error::Ok;
};

/// As runtime::resize_tensor, with the context of the published kernel that runs on this thread; outside of one, a
/// tensor grows within its own memory only. Errors: as there.
Error resize_tensor(const runtime::Tensor& out, runtime::IntArrayRef sizes);

namespace detail {

/// A kernel of any of the forms above as Error(KernelContext&, arguments…).
template <auto Function, typename Type = decltype(Function)>
struct Adapted;

template <auto Function, typename... Args>
struct Adapted<Function, Error (*)(runtime::KernelContext&, Args...)> {
  static Error run(runtime::KernelContext& context, Args... args) {
    return Function(context, static_cast<Args>(args)...);
  }
};

template <auto Function, typename R, typename... Args>
struct Adapted<Function, R (*)(KernelRuntimeContext&, Args...)> {
  static Error run(runtime::KernelContext& context, Args... args) {
    KernelRuntimeContext published(context);
    if constexpr (std::is_same_v<R, Error>) {
      return Function(published, static_cast<Args>(args)...);
    } else {
      static_cast<void>(Function(published, static_cast<Args>(args)...));
      return published.failure_state();
    }
  }
};

template <auto Function, typename R, typename First, typename... Args>
struct Adapted<Function, R (*)(First, Args...)> {
  static Error run(runtime::KernelContext& context, First first, Args... args) {
    return Adapted<&with_context>::run(context, static_cast<First>(first), static_cast<Args>(args)...);
  }

 private:
  static R with_context(KernelRuntimeContext&, First first, Args... args) {
    return Function(static_cast<First>(first), static_cast<Args>(args)...);
  }
};

}  // namespace detail

/// The table entry of a kernel of any of the forms above.
template <auto Function>
constexpr runtime::Kernel make_user_kernel(const char* name) {
  return runtime::make_kernel<&detail::Adapted<Function>::run>(name, runtime::kPriorityUser);
}

}  // namespace et::extension

/// Registers `function` as the kernel of the operator `library`::`name` ("triple.out"). At namespace scope, once an
/// operator.
#define EXECUTORCH_LIBRARY(library, name, function)                                                  \
  static const ::et::extension::KernelRegistration ET_CONCAT_(et_kernel_registration_, __COUNTER__)( \
      ::et::extension::make_user_kernel<function>(#library "::" name), #library)

/// In a published kernel: unless `condition` holds, the call fails with Error::`code` and returns `result`.
#define ET_KERNEL_CHECK(context, condition, code, result) \
  ET_KERNEL_CHECK_MSG(context, condition, code, result, "%s does not hold", #condition)
/// The same with a message, a printf format.
#define ET_KERNEL_CHECK_MSG(context, condition, code, result, ...) \
  do {                                                             \
    if (!(condition)) {                                            \
      (context).fail(ET_ERROR_WITH_MESSAGE(code, __VA_ARGS__));    \
      return result;                                               \
    }                                                              \
  } while (false)
