#include "bindings/python_planner.h"

#include <pybind11/stl.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "bindings/errors.h"

namespace py = pybind11;

namespace et::bindings {
namespace {

/// Planning runs without the GIL and without exceptions: the function is called with the GIL, and what it throws waits.
class PythonPlanner final : public planning::Planner {
 public:
  explicit PythonPlanner(py::object function) : function_(new py::object(std::move(function))) {}
  ~PythonPlanner() override {
    const py::gil_scoped_acquire gil;
    delete function_;
  }
  PythonPlanner(const PythonPlanner&) = delete;
  PythonPlanner& operator=(const PythonPlanner&) = delete;

  const char* name() const override { return "Python"; }

  Error plan(Span<const planning::Request> requests, Span<const planning::Arena> arenas,
             std::vector<planning::Placement>& placements) override {
    const py::gil_scoped_acquire gil;
    try {
      py::list wanted;
      for (const planning::Request& r : requests) {
        wanted.append(py::make_tuple(std::string(r.name), r.first, r.last, r.nbytes, r.accesses, r.memory_id));
      }
      py::list places;
      for (const planning::Arena& arena : arenas) {
        places.append(py::make_tuple(arena.name, arena.capacity));
      }
      read_places((*function_)(wanted, places), placements);
      return Error::Ok;
    } catch (...) {
      error_ = std::current_exception();
      ET_LOG_ERROR("the memory planner raised an exception");
      return Error::InvalidArgument;
    }
  }

  void rethrow() {
    if (error_ != nullptr) {
      std::rethrow_exception(std::exchange(error_, nullptr));
    }
  }

 private:
  static void read_places(const py::object& given, std::vector<planning::Placement>& placements) {
    std::vector<std::pair<uint32_t, uint64_t>> read;
    try {
      read = given.cast<std::vector<std::pair<uint32_t, uint64_t>>>();
    } catch (const py::cast_error&) {
      throw CoreError(Error::InvalidType,
                      "the memory planner returned " + std::string(py::str(py::repr(given))).substr(0, 80) +
                          ", must return a list with (memory id, offset) for each request, integers "
                          "from 0");
    }
    placements.clear();
    for (const auto& [memory_id, offset] : read) {
      placements.push_back({memory_id, offset});
    }
  }

  py::object* function_;  ///< a pointer, so that it can be dropped with the GIL held
  std::exception_ptr error_;
};

}  // namespace

std::shared_ptr<planning::Planner> to_planner(const py::object& planner) {
  if (planner.is_none()) {
    return nullptr;
  }
  if (py::isinstance<py::str>(planner)) {
    const auto name = planner.cast<std::string>();
    if (name == "greedy" || name == "best") {
      return nullptr;  // plan_memory's own, which also places large inputs and outputs apart
    }
    if (name == "naive") {
      return std::make_shared<planning::NaivePlanner>();
    }
    throw py::value_error("no memory planner is called '" + name +
                          "'; there are 'greedy', 'best' (the same) and 'naive'");
  }
  return std::make_shared<PythonPlanner>(planner);
}

void rethrow_planner_error(const std::shared_ptr<planning::Planner>& planner) {
  if (auto* own = dynamic_cast<PythonPlanner*>(planner.get())) {
    own->rethrow();
  }
}

}  // namespace et::bindings
