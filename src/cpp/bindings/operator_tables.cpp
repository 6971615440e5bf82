/// What is known about operators: the compiler's table, the registered kernels, and which of them a method got.
///
/// For: `etpy ops` and the checks before lowering (export/dialect/custom_operators.py). Plain tuples; nothing is
/// decided here.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "bindings/runtime_method.h"
#include "bindings/runtime_registry.h"
#include "bindings/topics.h"
#include "ops/op_table.h"

namespace py = pybind11;

namespace et::bindings {
namespace {

using runtime::Kernel;
using runtime::KernelTable;

std::vector<std::string> operator_names() {
  std::set<std::string> names;
  for (const KernelTable& table : process_runtime().kernels.tables()) {
    for (const Kernel& kernel : table.kernels) {
      names.insert(kernel.name);
    }
  }
  return {names.begin(), names.end()};
}

py::list kernel_table() {
  struct Row {
    const Kernel* kernel;
    const KernelTable* table;
  };
  std::vector<Row> rows;
  for (const KernelTable& table : process_runtime().kernels.tables()) {
    for (const Kernel& kernel : table.kernels) {
      rows.push_back({&kernel, &table});
    }
  }
  std::reverse(rows.begin(), rows.end());  // of equal priority the last added is tried first
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    const int order = std::string_view(a.kernel->name).compare(b.kernel->name);
    return order != 0 ? order < 0 : a.kernel->priority > b.kernel->priority;
  });
  py::list out;
  for (const auto& [kernel, table] : rows) {
    out.append(py::make_tuple(kernel->name, table->library, table->variant(kernel), kernel->priority,
                              kernel->signature == nullptr ? "" : kernel->signature, kernel->prepare != nullptr));
  }
  return out;
}

py::list operator_table() {
  py::list out;
  for (const ops::OpInfo& op : ops::all_ops()) {
    std::vector<int> dtypes;
    for (int code = 0; code < 32; ++code) {
      if ((op.dtypes >> code & 1u) != 0) {
        dtypes.push_back(code);
      }
    }
    out.append(py::make_tuple(op.name, op.out_name, op.schema, op.out_schema, dtypes, op.tags, op.is_published));
  }
  return out;
}

py::list kernels_of(CallableMethod& method) {
  const runtime::Method& core = method.host().method();
  py::list out;
  for (size_t i = 0; i < core.meta().num_instructions(); ++i) {
    const Kernel* const kernel = core.kernel(i);
    if (kernel == nullptr) {
      continue;
    }
    for (const KernelTable& table : method.host().program()->options().kernels->tables()) {
      if (table.has(kernel)) {
        out.append(py::make_tuple(i, kernel->name, table.library, table.variant(kernel)));
      }
    }
  }
  return out;
}

}  // namespace

void init_operator_tables(py::module_& module) {
  module.def("operator_names", &operator_names, "Names of all operators that have a kernel, sorted");
  module.def(
      "kernel_table", &kernel_table,
      "[(name, library, variant, priority, signature, may step aside)] of all kernels, in the order of their use");
  module.def(
      "operator_table", &operator_table,
      "[(name, kernel, schema, kernel's schema, dtypes, tags as bits, is published)] of the compiler's operators");
  module.def("kernels_of", &kernels_of, py::arg("method"),
             "[(instruction, name, library, variant)]: the kernel that each instruction of a loaded method got");
}

}  // namespace et::bindings
