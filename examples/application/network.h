// The network of an application: int8 in, int8 out, in static memory.
//
// For: programs that stand beside a project of `etpy firmware`, whose model, kernels and pools it uses.
//
//   int application::run(Network& network) {                   // each application defines it; network.cpp has main()
//     const int8_t* scores = network.run(features);
//     ...
//   }
#pragma once

#include "runtime/method.h"

namespace application {

class Network {
 public:
  explicit Network(et::runtime::Method& method) : method_(method) {}

  /// Computes the output from `values`, as many as the input has: null after an error, which was written.
  ///
  /// Values are a front end's integers. parameters.h, which run.py writes, says what they are in the network's steps.
  const int8_t* run(const int8_t* values);

  size_t num_outputs() const { return static_cast<size_t>(method_.get_output(0).to_tensor().numel()); }
  /// Instructions of all runs in the emulator; 0 on a host.
  uint64_t instructions() const { return instructions_; }

 private:
  et::runtime::Method& method_;
  uint64_t instructions_ = 0;
};

/// What the application does; the result is the program's exit status.
int run(Network& network, int argc, char** argv);

}  // namespace application
