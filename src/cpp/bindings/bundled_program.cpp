/// Bundled programs as a Python class: a program with test cases, which check a method.
#include "devtools/bundled_program.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <string>

#include "bindings/errors.h"
#include "bindings/runtime_method.h"
#include "bindings/topics.h"
#include "devtools/host/etdump_gen.h"

namespace py = pybind11;

namespace et::bindings {
namespace {

/// The bytes of a `.bpte`, verified, in memory of their own.
class OwnedBundle {
 public:
  explicit OwnedBundle(const py::bytes& given) : OwnedBundle(static_cast<std::string_view>(given)) {}

  const devtools::BundledProgram& bundle() const { return bundle_; }
  py::bytes program() const {
    const Span<const uint8_t> bytes = bundle_.program();
    return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::vector<std::pair<std::string, size_t>> cases() const {
    std::vector<std::pair<std::string, size_t>> out;
    for (size_t i = 0; i < bundle_.num_methods(); ++i) {
      out.emplace_back(bundle_.method_name(i), bundle_.num_cases(bundle_.method_name(i)));
    }
    return out;
  }

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };

  explicit OwnedBundle(std::string_view given) : memory_(copy(given)), bundle_(load(memory_.get(), given.size())) {}
  static uint8_t* copy(std::string_view given) {
    void* const memory = std::aligned_alloc(kAlignment, (given.size() / kAlignment + 1) * kAlignment);
    if (memory == nullptr) {
      throw CoreError(Error::MemoryAllocationFailed, "no memory for the bundled program");
    }
    return static_cast<uint8_t*>(std::memcpy(memory, given.data(), given.size()));
  }
  static devtools::BundledProgram load(const uint8_t* memory, size_t nbytes) {
    clear_last_message();
    return unwrap(devtools::BundledProgram::load({memory, nbytes}));
  }

  std::unique_ptr<uint8_t, Free> memory_;
  devtools::BundledProgram bundle_;
};

py::list verify(const OwnedBundle& owned, CallableMethod& method, size_t index, double rtol, double atol) {
  // Only runtime_program.cpp gives programs a tracer, of this class.
  auto* const etdump = static_cast<devtools::ETDumpGen*>(method.host().program()->options().tracer.get());
  if (etdump != nullptr) {
    etdump->set_bundled_input_index(static_cast<int32_t>(index));
  }
  return method.execute_case(owned.bundle(), index, {rtol, atol});
}

}  // namespace

void init_bundled_program(py::module_& module) {
  py::class_<OwnedBundle>(module, "BundledProgram", "A program with test cases")
      .def(py::init<const py::bytes&>(), py::arg("bytes"))
      .def_property_readonly("program", &OwnedBundle::program, "The bytes of the program")
      .def_property_readonly("cases", &OwnedBundle::cases, "[(method, number of its test cases)]")
      .def("verify", &verify, py::arg("method"), py::arg("index"), py::arg("rtol") = 1e-5, py::arg("atol") = 1e-8,
           "Runs a test case on a method, compares its outputs with the expected ones and returns them");
}

}  // namespace et::bindings
