/// What tests of methods share: registries, the last log message, inputs and outputs in one line.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "kernels/prim/register.h"
#include "program_builder.h"
#include "runtime/host/module.h"
#include "test_kernels.h"

namespace et::test {

using namespace et::runtime;  // NOLINT: tests of that namespace

constexpr fb::TensorShapeDynamism kBound = fb::TensorShapeDynamism_DYNAMIC_BOUND;

/// Keeps the messages since the last call of clear().
inline std::string& messages() {
  static thread_local std::string text;
  return text;
}

/// A copy of a file at a multiple of 16, as the core wants it. A vector's memory stands at one of 8 on 32-bit machines.
inline std::shared_ptr<const uint8_t> aligned_copy(const std::vector<uint8_t>& file) {
  constexpr std::align_val_t alignment{16};
  const std::shared_ptr<uint8_t> copy(static_cast<uint8_t*>(::operator new(file.size() + 1, alignment)),
                                      [](uint8_t* p) { ::operator delete(p, alignment); });
  std::copy(file.begin(), file.end(), copy.get());
  return copy;
}

class MethodTest : public ::testing::Test {
 protected:
  MethodTest() {
    messages().clear();
    set_log_hook([](LogLevel, const char*, int, const char* message, size_t length) {
      messages().append(message, length).append("\n");
    });
    EXPECT_EQ(kernels_.add(kTestKernels), Error::Ok);
    EXPECT_EQ(kernels::prim::register_prim_kernels(kernels_), Error::Ok);
    EXPECT_EQ(backends_.add("AddBackend", &backend_), Error::Ok);
    options_.kernels = &kernels_;
    options_.backends = &backends_;
  }
  ~MethodTest() override { set_log_hook(nullptr); }

  std::shared_ptr<HostProgram> load(ProgramBuilder& builder) {
    bytes_ = builder.build();
    auto program = HostProgram::from_buffer(nullptr, bytes_.data(), bytes_.size(), options_);
    EXPECT_TRUE(program.ok()) << messages();
    return program.ok() ? program.get() : nullptr;
  }
  Error load_error(ProgramBuilder& builder) {
    bytes_ = builder.build();
    return HostProgram::from_buffer(nullptr, bytes_.data(), bytes_.size(), options_).error();
  }
  std::unique_ptr<HostMethod> method(ProgramBuilder& builder, const char* name = "forward") {
    auto program = load(builder);
    return program == nullptr ? nullptr : method(program, name);
  }
  std::unique_ptr<HostMethod> method(const std::shared_ptr<HostProgram>& program, const char* name = "forward",
                                     std::shared_ptr<HostSession> session = nullptr) {
    auto result = program->load_method(name, std::move(session), method_options_);
    EXPECT_TRUE(result.ok()) << messages();
    return result.ok() ? std::move(result.get()) : nullptr;
  }
  Error method_error(ProgramBuilder& builder, const char* name = "forward") {
    auto program = load(builder);
    return program->load_method(name, nullptr, method_options_).error();
  }
  static bool said(const std::string& text) {
    const bool found = messages().find(text) != std::string::npos;
    if (!found) {
      ADD_FAILURE() << "messages: " << messages();
    }
    return found;
  }

  KernelRegistry kernels_;
  BackendRegistry backends_;
  AddBackend backend_;
  HostOptions options_;
  HostMethodOptions method_options_;
  std::vector<uint8_t> bytes_;
};

/// A float tensor that owns its elements.
class TestTensor {
 public:
  explicit TestTensor(std::vector<int64_t> sizes, std::vector<float> elements = {})
      : sizes_(std::move(sizes)), strides_(sizes_.size()), elements_(std::move(elements)) {
    int64_t n = 1;
    for (size_t d = 0; d < sizes_.size(); ++d) {
      n *= sizes_[d];
      order_.push_back(static_cast<uint8_t>(d));
    }
    elements_.resize(static_cast<size_t>(n));
    impl_ = TensorImpl(ScalarType::Float, sizes_.size(), sizes_.data(), strides_.data(), order_.data(),
                       elements_.data(), elements_.size() * sizeof(float));
  }
  TestTensor(const TestTensor&) = delete;
  TestTensor& operator=(const TestTensor&) = delete;

  EValue value() { return EValue(Tensor(&impl_)); }
  TensorImpl& impl() { return impl_; }
  std::vector<float>& elements() { return elements_; }

 private:
  std::vector<int64_t> sizes_;
  std::vector<int64_t> strides_;
  std::vector<uint8_t> order_;
  std::vector<float> elements_;
  TensorImpl impl_;
};

inline std::vector<float> floats(const EValue& value) {
  const Tensor tensor = value.to_tensor();
  return {tensor.const_data_ptr<float>(), tensor.const_data_ptr<float>() + tensor.numel()};
}

}  // namespace et::test
