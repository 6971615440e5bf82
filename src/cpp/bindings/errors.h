/// The one place where an Error becomes a Python exception.
///
/// For: every binding. Core code returns `Error` or `Result<T>`; a binding passes it to `check` or `unwrap`, which
/// throw a CoreError, and pybind11 hands that to the translator in errors.cpp. The Python classes live in
/// executorch_py/errors.py, which registers a factory when it is imported:
///
///     _core.set_exception_factory(make_exception)
///     make_exception(code: int, message: str, diagnostics: list[dict]) -> BaseException
///
/// Without a factory (_core was imported alone) the exception is a RuntimeError with the same text.
/// The message is what the caller gives, or else the last error that this thread sent to the log hook and the context
/// lines after it: the text that came with the error (base/log.h).
///
/// Place: bindings only; nothing below knows Python.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace et::bindings {

/// One thing that is wrong, and where. Empty fields and negative numbers mean "not known".
struct Diagnostic {
  Error code = Error::Internal;
  std::string message;        ///< one sentence, and what to do
  std::string method;         ///< name of the method
  std::string op;             ///< operator of the node or instruction
  std::string node;           ///< name in fx or in the IR
  std::string module_path;    ///< "layers.0.attention"
  std::string file;           ///< Python source of the user
  int32_t line = 0;           ///< 0 = unknown
  int64_t instruction = -1;   ///< index in the method's chain
  uint32_t debug_handle = 0;  ///< 0 = unknown
};

/// An Error on its way to Python.
class CoreError : public std::exception {
 public:
  CoreError(Error code, std::string message, std::vector<Diagnostic> diagnostics = {})
      : code_(code), message_(std::move(message)), diagnostics_(std::move(diagnostics)) {}

  Error code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  Error code_;
  std::string message_;
  std::vector<Diagnostic> diagnostics_;
};

/// The last error (LogLevel::kError) that this thread sent to the log hook since `clear_last_message`, without the
/// context lines that followed it; empty when there is none.
const std::string& last_message();
void clear_last_message();

/// Keeps an exception of Python code that the core called (a backend written in Python) for this thread, and gives the
/// Error to return to the core. The next `check` of a failed call on this thread raises the exception again.
Error hold_python_error(pybind11::error_already_set&& error);

/// Throws the held Python exception, or CoreError. An empty message is the last one with its context, or else the
/// code's meaning.
[[noreturn]] void raise(Error error, std::string message = {}, std::vector<Diagnostic> diagnostics = {});

/// raise(error, {}, diagnostics) unless `error` is Ok.
void check(Error error, std::vector<Diagnostic> diagnostics = {});

/// The value of `result`, or CoreError.
template <typename T>
T unwrap(Result<T>&& result) {
  check(result.error());
  return std::move(result.get());
}

/// Hands lines that wait for Python's logging over, if there are any. Needs the GIL; costs one load when there are
/// none.
void flush_log_if_waiting();

/// Installs the log hook and the translator; defines `error_codes()`, `set_exception_factory(factory)`,
/// `set_log_handler(handler)` and `flush_log()`.
void init_errors(pybind11::module_& module);

}  // namespace et::bindings
