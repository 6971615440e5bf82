// Methods of one Program on several threads: they share packed weights and the pool, and each has its own sizes. Run it
// under the thread sanitizer (make sanitize SANITIZE=thread) to see what a plain build does not.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "networks.h"
#include "runtime/host/module.h"
#include "sparse_file.h"
#include "threads/thread_pool.h"

namespace et::test {
namespace {

using runtime::EValue;
using runtime::HostMethod;
using runtime::HostProgram;

struct Sizes {
  int64_t batch, height, width;
};
constexpr Sizes kSizes[] = {{1, 8, 8}, {4, 24, 24}, {2, 9, 23}, {3, 24, 8}, {1, 17, 16}};

/// Runs `method` on an image that `sizes` determine; empty when it fails.
std::vector<float> run(HostMethod& method, const Sizes& sizes) {
  int64_t extents[] = {sizes.batch, 3, sizes.height, sizes.width};
  int64_t strides[] = {3 * sizes.height * sizes.width, sizes.height * sizes.width, sizes.width, 1};
  static const uint8_t kOrder[] = {0, 1, 2, 3};
  std::vector<float> image(static_cast<size_t>(extents[0] * strides[0]));
  for (size_t i = 0; i < image.size(); ++i) {
    image[i] = static_cast<float>(i % 29) / 29.0f - 0.4f;
  }
  runtime::TensorImpl impl(ScalarType::Float, 4, extents, strides, kOrder, image.data(), image.size() * sizeof(float));
  if (method.method().set_input(EValue(runtime::Tensor(&impl)), 0) != Error::Ok ||
      method.method().execute() != Error::Ok) {
    return {};
  }
  const runtime::Tensor out = method.method().get_output(0).to_tensor();
  return {out.const_data_ptr<float>(), out.const_data_ptr<float>() + out.numel()};
}

bool close(const std::vector<float>& actual, const std::vector<float>& expected) {
  bool same = actual.size() == expected.size() && !actual.empty();
  for (size_t i = 0; same && i < actual.size(); ++i) {
    same = std::fabs(actual[i] - expected[i]) <= 1e-4f * (1.0f + std::fabs(expected[i]));
  }
  return same;
}

/// What the portable kernels say.
std::vector<std::vector<float>> expected_outputs() {
  const std::vector<uint8_t> bytes = lowered(dynamic_network(), false);
  runtime::HostOptions options;
  options.kernels = &portable_kernels();
  auto program = HostProgram::from_buffer(nullptr, bytes.data(), bytes.size(), options);
  EXPECT_TRUE(program.ok());
  auto method = (*program)->load_method("forward");
  EXPECT_TRUE(method.ok());
  std::vector<std::vector<float>> outputs;
  for (const Sizes& sizes : kSizes) {
    outputs.push_back(run(**method, sizes));
    EXPECT_FALSE(outputs.back().empty());
  }
  return outputs;
}

enum class Kind { kDelegate, kSparseWeights, kKernels };

/// On the delegate, and on single kernels, some of which stand on the same library.
class Concurrency : public ::testing::TestWithParam<Kind> {
 protected:
  Concurrency() : bytes_(lowered(dynamic_network(), GetParam() != Kind::kKernels)), pool_(threads::make_pool(2)) {
    if (GetParam() == Kind::kSparseWeights) {
      bytes_ = with_sparse_data(bytes_, [this](size_t i) { return entry_of(bytes_, i).size() >= 512; });  // filters
    }
    runtime::HostOptions options;
    options.kernels = &all_kernels();
    options.backends = &all_backends();
    options.pool = pool_;
    auto program = HostProgram::from_buffer(nullptr, bytes_.data(), bytes_.size(), options);
    EXPECT_TRUE(program.ok());
    program_ = std::move(*program);
  }
  ~Concurrency() override {
    program_.reset();
    threads::destroy_pool(pool_);
  }

  std::vector<uint8_t> bytes_;
  threads::ThreadPool* pool_;
  std::shared_ptr<HostProgram> program_;
};

TEST_P(Concurrency, MethodsRunLoadAndEndAtTheSameTime) {
  const std::vector<std::vector<float>> expected = expected_outputs();
  std::atomic<int> failures{0};
  std::atomic<bool> done{false};
  const auto runs = [&](const char* name, size_t first) {
    auto method = program_->load_method(name);
    for (size_t i = 0; i < 24 && method.ok(); ++i) {
      const size_t which = (first + i / 2) % std::size(kSizes);  // each twice: without a reshape, too
      failures += close(run(**method, kSizes[which]), expected[which]) ? 0 : 1;
    }
    failures += method.ok() ? 0 : 1;
  };
  const auto comes_and_goes = [&] {
    for (size_t i = 0; i < 8 || !done; ++i) {
      auto method = program_->load_method(i % 2 == 0 ? "forward" : "again");
      const size_t which = i % std::size(kSizes);
      failures += method.ok() && close(run(**method, kSizes[which]), expected[which]) ? 0 : 1;
      pool_->set_num_threads(1 + i % 3);
    }
  };
  std::thread last(comes_and_goes);
  {
    std::thread first(runs, "forward", 0), second(runs, "again", 1), third(runs, "forward", 2);
    first.join();
    second.join();
    third.join();
  }
  done = true;
  last.join();
  EXPECT_EQ(failures, 0);
}

TEST_P(Concurrency, ProgramsShareThePool) {
  const std::vector<std::vector<float>> expected = expected_outputs();
  std::atomic<int> failures{0};
  const auto work = [&](size_t first) {
    for (int load = 0; load < 3; ++load) {
      runtime::HostOptions options = program_->options();
      auto program = HostProgram::from_buffer(nullptr, bytes_.data(), bytes_.size(), options);
      auto method = (*program)->load_method("forward");
      program->reset();  // the method keeps it
      for (size_t i = 0; i < 4; ++i) {
        const size_t which = (first + i) % std::size(kSizes);
        failures += method.ok() && close(run(**method, kSizes[which]), expected[which]) ? 0 : 1;
      }
    }
  };
  std::thread first(work, 0), second(work, 2);
  first.join();
  second.join();
  EXPECT_EQ(failures, 0);
}

INSTANTIATE_TEST_SUITE_P(, Concurrency, ::testing::Values(Kind::kDelegate, Kind::kSparseWeights, Kind::kKernels),
                         [](const auto& info) {
                           return info.param == Kind::kDelegate        ? "Delegate"
                                  : info.param == Kind::kSparseWeights ? "SparseWeights"
                                                                       : "Kernels";
                         });

}  // namespace
}  // namespace et::test
