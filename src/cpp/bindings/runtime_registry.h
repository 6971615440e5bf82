/// The process's kernels and backends (extension/process.h) for the bindings of programs and methods.
#pragma once

#include "bindings/errors.h"
#include "extension/process.h"

namespace et::bindings {

/// extension::process(). Errors (CoreError): those of registering what this build holds.
extension::Process& process_runtime();

/// Runs a function that returns a Result, without the GIL and as a load.
template <typename Load>
auto load_without_gil(Load&& load) {
  clear_last_message();
  auto result = [&] {
    const pybind11::gil_scoped_release release;
    const extension::LoadScope scope(process_runtime().gate);
    return load();
  }();
  flush_log_if_waiting();
  return unwrap(std::move(result));
}

}  // namespace et::bindings
