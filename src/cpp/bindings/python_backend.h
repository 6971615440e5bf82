/// PythonBackend: a runtime backend whose init and execute are Python, for tests and prototypes.
///
///     class Doubler:                                                     # the shape of BackendInterface
///         def init(self, context, processed: bytes, compile_specs: list[CompileSpec]) -> object: ...   # the handle
///         def execute(self, context, handle, args: list) -> None: args[1][...] = 2 * args[0]
///         def destroy(self, handle) -> None: ...                         # may be left out, as is_available
///
/// Tensors arrive as numpy arrays over the method's own memory, inputs first, then outputs; they are valid during the
/// call only. Numbers arrive as int, float or bool. `context.resize(i, sizes)` gives a dynamic output its size.
/// Not for: speed; each call takes the GIL.
///
/// An exception in Python is kept for the thread (errors.h), an Error goes through the runtime, and `check` raises the
/// exception again at the border.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "runtime/backend.h"

namespace et::bindings {

class PythonBackend final : public runtime::BackendInterface {
 public:
  /// The backend registered under that name, or nullptr. All static functions need the GIL.
  static PythonBackend* find(const std::string& name);
  /// Makes one, which lives until the process ends (registries and methods point at it).
  static PythonBackend* make(const std::string& name, pybind11::object implementation);
  /// Undoes make() when registering failed.
  static void forget(PythonBackend* backend);

  const char* name() const { return name_.c_str(); }
  /// What delegates are made with from now on; those that are there keep theirs.
  void replace(pybind11::object implementation) { implementation_ = std::move(implementation); }

  bool is_available() const override;
  Result<runtime::DelegateHandle*> init(runtime::BackendInitContext& context, runtime::FreeableBuffer* processed,
                                        Span<const runtime::CompileSpec> specs) const override;
  Error execute(runtime::BackendExecutionContext& context, runtime::DelegateHandle* handle,
                Span<runtime::EValue* const> args) const override;
  void destroy(runtime::DelegateHandle* handle) const override;

 private:
  PythonBackend(std::string name, pybind11::object implementation)
      : name_(std::move(name)), implementation_(std::move(implementation)) {}

  std::string name_;
  pybind11::object implementation_;
};

}  // namespace et::bindings
