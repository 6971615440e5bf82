/// From the text form to results: compiles a program, loads the bytes and runs a method with f32 inputs of rank 1.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "ir/parser.h"
#include "kernels/portable/register.h"
#include "kernels/prim/register.h"
#include "runtime/host/module.h"

namespace et::driver {

inline std::shared_ptr<ir::Program> parsed(const std::string& text) {
  ir::ParseError error;
  Result<std::unique_ptr<ir::Program>> program = ir::parse(text, &error);
  if (!program.ok()) {
    ADD_FAILURE() << error.to_string();
    return std::make_shared<ir::Program>();
  }
  return std::shared_ptr<ir::Program>(std::move(*program));
}

/// Portable and primitive kernels.
inline const runtime::KernelRegistry& kernels() {
  static const runtime::KernelRegistry* const registry = [] {
    auto* made = new runtime::KernelRegistry;
    EXPECT_EQ(et::kernels::portable::register_portable_kernels(*made), Error::Ok);
    EXPECT_EQ(et::kernels::prim::register_prim_kernels(*made), Error::Ok);
    return made;
  }();
  return *registry;
}

/// A compiled and loaded program.
class Runner {
 public:
  explicit Runner(const std::string& text, CompileOptions options = {},
                  const runtime::BackendRegistry* backends = nullptr) {
    options.kernels = &kernels();
    error_ = compile(parsed(text), options, compiled_, diagnostics_);
    if (error_ != Error::Ok) {
      return;
    }
    auto bytes = std::make_shared<std::vector<uint8_t>>(compiled_.file.program.nbytes);
    emit::MemorySink sink(bytes->data(), bytes->size());
    EXPECT_EQ(compiled_.file.program.write(sink), Error::Ok);
    host_.kernels = &kernels();
    host_.backends = backends;
    auto program = runtime::HostProgram::from_buffer(bytes, bytes->data(), bytes->size(), host_);
    EXPECT_TRUE(program.ok());
    if (program.ok()) {
      program_ = std::move(program.get());
    }
  }

  Error error() const { return error_; }
  const ir::Diagnostics& diagnostics() const { return diagnostics_; }
  const Compiled& compiled() const { return compiled_; }

  /// The elements of each output of `method`, all f32.
  std::vector<std::vector<float>> run(std::vector<std::vector<float>> inputs, const char* method_name = "forward") {
    if (methods_.count(method_name) == 0) {
      auto method = program_->load_method(method_name);
      EXPECT_TRUE(method.ok());
      methods_[method_name] = std::move(method.get());
    }
    runtime::Method& method = methods_[method_name]->method();
    static const uint8_t kOrder[] = {0};
    for (size_t i = 0; i < inputs.size(); ++i) {
      int64_t size = static_cast<int64_t>(inputs[i].size());
      int64_t stride = 1;
      runtime::TensorImpl impl(ScalarType::Float, 1, &size, &stride, kOrder, inputs[i].data(),
                               inputs[i].size() * sizeof(float));
      EXPECT_EQ(method.set_input(runtime::EValue(runtime::Tensor(&impl)), i), Error::Ok);
    }
    EXPECT_EQ(method.execute(), Error::Ok);
    std::vector<std::vector<float>> outputs;
    for (size_t i = 0; i < method.num_outputs(); ++i) {
      const runtime::Tensor out = method.get_output(i).to_tensor();
      outputs.emplace_back(out.const_data_ptr<float>(), out.const_data_ptr<float>() + out.numel());
    }
    return outputs;
  }

 private:
  Error error_ = Error::Ok;
  ir::Diagnostics diagnostics_;
  Compiled compiled_;
  runtime::HostOptions host_;
  std::shared_ptr<runtime::HostProgram> program_;
  std::map<std::string, std::unique_ptr<runtime::HostMethod>> methods_;
};

}  // namespace et::driver
