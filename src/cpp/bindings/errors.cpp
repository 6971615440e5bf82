#include "bindings/errors.h"

#include <atomic>
#include <cstdio>
#include <deque>
#include <mutex>
#include <optional>

#include "base/log.h"

namespace py = pybind11;

namespace et::bindings {
namespace {

/// A line for Python's logging, kept until a thread that holds the GIL flushes it.
struct LogLine {
  LogLevel level;
  std::string file;
  int line;
  std::string text;
};

/// Lines wait here because the hook may run on a thread without the GIL, where taking it could deadlock with a caller
/// that waits for that thread. Bounded: a program that logs without end loses its oldest lines, not its memory.
constexpr size_t kMaxQueuedLines = 1024;

/// Before each place that an error passed.
constexpr char kAt[] = "\n  at ";

struct LogQueue {
  std::mutex mutex;
  std::deque<LogLine> lines;
  LogLevel lowest = LogLevel::kWarning;
};

/// Never destroyed: worker threads may log while the process exits.
LogQueue& queue() {
  static LogQueue* const instance = new LogQueue;
  return *instance;
}

std::atomic<bool> g_lines_wait{false};
thread_local std::string t_message;  // what went wrong
thread_local char t_scarce[512];     // its beginning, where there is no memory for it
thread_local std::string t_context;  // where, from the inside outwards, each line after kAt
thread_local std::optional<py::error_already_set> t_held_error;

void keep(LogLevel level, const char* file, int line, const char* message, size_t length) {
  // Errors travel in the exception; logging them as well would say everything twice.
  if (level == LogLevel::kError) {
    t_message.assign(message, length);
    t_context.clear();
    return;
  }
  if (level == LogLevel::kContext) {
    t_context.append(kAt).append(message, length);
    return;
  }
  LogQueue& lines = queue();
  const std::lock_guard<std::mutex> lock(lines.mutex);
  if (level < lines.lowest) {
    return;
  }
  if (lines.lines.size() == kMaxQueuedLines) {
    lines.lines.pop_front();
  }
  lines.lines.push_back({level, file, line, std::string(message, length)});
  g_lines_wait.store(true, std::memory_order_relaxed);
}

/// The hook. Who logs is built without exceptions.
void on_log(LogLevel level, const char* file, int line, const char* message, size_t length) {
  try {
    keep(level, file, line, message, length);
  } catch (const std::bad_alloc&) {
    if (level == LogLevel::kError) {
      clear_last_message();
      std::snprintf(t_scarce, sizeof(t_scarce), "%.*s", static_cast<int>(length), message);
    }
  }
}

/// Python objects of this module. Leaked on purpose: they must not be destroyed after the interpreter.
struct PythonHooks {
  py::object factory = py::none();
  py::object log_handler = py::none();
};
PythonHooks& hooks() {
  static PythonHooks* const instance = new PythonHooks;
  return *instance;
}

const char* meaning(Error error) {
  switch (error) {
#define ET_ERROR(name, value, python_class, text) \
  case Error::name: return text;
#include "base/error_codes.def"
#undef ET_ERROR
  }
  return "unknown error";
}

/// A text as str, whatever its bytes: messages quote names from files that nobody has to trust.
py::str to_text(const std::string& text) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

py::dict to_python(const Diagnostic& diagnostic) {
  py::dict out;
  out["code"] = static_cast<int>(diagnostic.code);
  out["message"] = to_text(diagnostic.message);
  const std::pair<const char*, const std::string*> texts[] = {
      {"method", &diagnostic.method},           {"op", &diagnostic.op},     {"node", &diagnostic.node},
      {"module_path", &diagnostic.module_path}, {"file", &diagnostic.file},
  };
  for (const auto& [key, text] : texts) {
    out[key] = text->empty() ? py::object(py::none()) : py::object(to_text(*text));
  }
  const auto known = [](bool is_known, int64_t number) {
    return is_known ? py::object(py::int_(number)) : py::object(py::none());
  };
  out["line"] = known(diagnostic.line > 0, diagnostic.line);
  out["instruction"] = known(diagnostic.instruction >= 0, diagnostic.instruction);
  out["debug_handle"] = known(diagnostic.debug_handle > 0, diagnostic.debug_handle);
  return out;
}

void set_python_error(const CoreError& error) {
  const py::object& factory = hooks().factory;
  if (factory.is_none()) {
    py::set_error(PyExc_RuntimeError, (std::string(to_string(error.code())) + ": " + error.message()).c_str());
    return;
  }
  py::list diagnostics;
  for (const Diagnostic& diagnostic : error.diagnostics()) {
    diagnostics.append(to_python(diagnostic));
  }
  const py::object exception = factory(static_cast<int>(error.code()), to_text(error.message()), diagnostics);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
}

/// Gives the queued lines to the handler. Called with the GIL.
void flush_log() {
  std::deque<LogLine> lines;
  {
    const std::lock_guard<std::mutex> lock(queue().mutex);
    lines.swap(queue().lines);
    g_lines_wait.store(false, std::memory_order_relaxed);
  }
  const py::object handler = hooks().log_handler;
  if (handler.is_none()) {
    return;
  }
  for (const LogLine& line : lines) {
    handler(static_cast<int>(line.level), line.file, line.line, to_text(line.text));
  }
}

py::list error_codes() {
  py::list codes;
#define ET_ERROR(name, value, python_class, text) codes.append(py::make_tuple(#name, value, #python_class, text));
#include "base/error_codes.def"
#undef ET_ERROR
  return codes;
}

}  // namespace

const std::string& last_message() { return t_message; }
void clear_last_message() {
  t_message.clear();
  t_context.clear();
  t_scarce[0] = '\0';
}

Error hold_python_error(py::error_already_set&& error) {
  Error code = Error::Internal;
  if (py::hasattr(error.value(), "code")) {  // one of ours keeps its code
    const py::object number = error.value().attr("code");
    if (PyLong_Check(number.ptr()) != 0 && PyObject_IsTrue(number.ptr()) == 1) {
      code = static_cast<Error>(PyLong_AsLong(number.ptr()));
    }
  }
  clear_last_message();
  t_held_error.emplace(std::move(error));
  return code;
}

void flush_log_if_waiting() {
  if (g_lines_wait.load(std::memory_order_relaxed)) {
    flush_log();
  }
}

void raise(Error error, std::string message, std::vector<Diagnostic> diagnostics) {
  if (t_held_error.has_value()) {
    const py::error_already_set held = std::move(*t_held_error);
    t_held_error.reset();
    if (!t_context.empty() && py::hasattr(held.value(), "add_note")) {
      held.value().attr("add_note")(to_text(t_context.substr(sizeof("\n  ") - 1)));
    }
    clear_last_message();
    throw held;
  }
  if (message.empty()) {
    message = (t_scarce[0] == '\0' ? t_message : t_scarce) + t_context;
    if (message.size() == t_context.size() && !t_context.empty()) {
      message.erase(0, sizeof(kAt) - 1);
    }
  }
  if (message.empty()) {
    message = diagnostics.empty() ? meaning(error) : diagnostics.front().message;
  }
  clear_last_message();
  throw CoreError(error, std::move(message), std::move(diagnostics));
}

void check(Error error, std::vector<Diagnostic> diagnostics) {
  if (error != Error::Ok) {
    raise(error, {}, std::move(diagnostics));
  }
}

void init_errors(py::module_& module) {
  set_log_hook(&on_log);
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) {
        std::rethrow_exception(pointer);
      }
    } catch (const CoreError& error) {
      set_python_error(error);
    } catch (const std::runtime_error&) {
      // pybind11's "Could not allocate …": Python has said MemoryError before.
      if (PyErr_Occurred() == nullptr || PyErr_ExceptionMatches(PyExc_MemoryError) == 0) {
        throw;
      }
    }
  });
  module.def("error_codes", &error_codes, "[(name, value, python_class, meaning)] of every error code");
  module.def(
      "set_exception_factory", [](py::object factory) { hooks().factory = std::move(factory); }, py::arg("factory"),
      "factory(code, message, diagnostics) makes the exceptions that this module raises; None: RuntimeError");
  module.def(
      "set_log_handler",
      [](py::object handler, int lowest) {
        hooks().log_handler = std::move(handler);
        const std::lock_guard<std::mutex> lock(queue().mutex);
        queue().lowest = static_cast<LogLevel>(lowest);
      },
      py::arg("handler"), py::arg("lowest") = static_cast<int>(LogLevel::kWarning),
      "handler(level, file, line, text) gets the lines from `lowest` (0 debug .. 3 error) up, when flush_log runs");
  module.def("flush_log", &flush_log, "Hands the lines that wait to the handler");
}

}  // namespace et::bindings
