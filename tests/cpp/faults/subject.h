/// What is run while memory fails (memory_faults.cpp): a Module, one with a tracer, or training. Each does everything a
/// user does from the load on, and can do it again after an error.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "extension/module/module.h"

namespace et::faults {

struct Call {
  std::string method;
  std::vector<extension::Inputs> inputs;  // of each run
};

/// What is prepared while there is memory.
struct Plan {
  std::string path;
  std::vector<std::string> data_files;
  std::vector<Call> calls;
};

/// The numbers of all outputs. Where there is no memory to pack a weight another kernel may run, which adds in another
/// order.
struct Outputs {
  std::array<float, 32768> numbers;
  size_t count = 0;

  void add(const runtime::Tensor& tensor) {
    for (int64_t i = 0; i < tensor.numel() && tensor.scalar_type() == ScalarType::Float; ++i) {
      numbers[std::min(count++, numbers.size() - 1)] = tensor.const_data_ptr<float>()[i];
    }
  }
  bool are(const Outputs& others) const {
    bool same = count == others.count && count > 0 && count < numbers.size();
    for (size_t i = 0; same && i < count; ++i) {
      same = std::abs(numbers[i] - others.numbers[i]) <= 1e-5f * (1 + std::abs(others.numbers[i]));
    }
    return same;
  }
};

struct Outcome {
  Error error = Error::Ok;
  Outputs outputs;
  const char* step = "make";
};

/// Made while there is memory; what it holds is made in run().
class Subject {
 public:
  virtual ~Subject() = default;
  /// Everything, from what is not there yet.
  virtual Error run(Outcome& out) = 0;
  /// Puts state back. After an error at "load" there is nothing to go on with.
  virtual Error reset() = 0;
};

/// Reads what there is to call from the tables alone: no kernel, no delegate and no thread has been in this process
/// afterwards.
Plan make_plan(const char* path, std::vector<std::string> data_files);

std::unique_ptr<Subject> module_subject(const Plan& plan);
std::unique_ptr<Subject> traced_subject(const Plan& plan);
/// Of a program whose "forward" gives gradients.
std::unique_ptr<Subject> training_subject(const Plan& plan);

}  // namespace et::faults
