// Weights that the file holds without their zeros: the delegate computes the same, shares packed weights as before, and
// refuses what is damaged. Here any entry may be sparse, also biases and scales, which the compiler leaves dense.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>

#include "../../robustness/hostile_program.h"
#include "../../robustness/mutations.h"
#include "networks.h"
#include "numerics/sparse_bytes.h"
#include "runtime/host/module.h"
#include "schema/pte_header.h"
#include "sparse_file.h"

namespace et::test {
namespace {

using runtime::HostMethod;
using runtime::HostProgram;

runtime::HostOptions host_options() {
  runtime::HostOptions options;
  options.kernels = &all_kernels();
  options.backends = &all_backends();
  return options;
}

std::shared_ptr<HostProgram> load(const Bytes& file) {
  auto program = HostProgram::from_buffer(nullptr, file.data(), file.size(), host_options());
  EXPECT_TRUE(program.ok());
  return program.ok() ? *program : nullptr;
}

/// The bytes of all outputs, for inputs of ones; empty when it does not run.
Bytes outputs(HostProgram& program, const char* name = "forward") {
  auto method = program.load_method(name);
  detail::Inputs inputs;
  if (!method.ok() || detail::set_inputs((*method)->method(), false, inputs) != Error::Ok ||
      (*method)->method().execute() != Error::Ok) {
    return {};
  }
  Bytes out;
  for (size_t i = 0; i < (*method)->method().num_outputs(); ++i) {
    const runtime::Tensor tensor = (*method)->method().get_output(i).to_tensor();
    const auto* const data = static_cast<const uint8_t*>(tensor.const_data_ptr());
    out.insert(out.end(), data, data + tensor.nbytes());
  }
  return out;
}

TEST(SparseWeights, GiveTheSameNumbers) {
  for (const Network& network : networks()) {
    SCOPED_TRACE(network.name);
    const Bytes dense = lowered(network.text);
    const Bytes expected = outputs(*load(dense));
    ASSERT_FALSE(expected.empty());
    const size_t count = num_entries(dense);
    ASSERT_GT(count, 0u);
    EXPECT_EQ(outputs(*load(with_sparse_data(dense, [](size_t) { return true; }))), expected) << "all";
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(outputs(*load(with_sparse_data(dense, [i](size_t entry) { return entry == i; }))), expected)
          << "entry " << i << " alone";
    }
  }
}

TEST(SparseWeights, FromAFileThatIsRead) {
  const Bytes dense = lowered(networks()[0].text);
  const Bytes file = with_sparse_data(dense, [](size_t) { return true; });
  const std::string path = ::testing::TempDir() + "sparse_weights_" + std::to_string(::getpid()) + ".pte";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  for (const runtime::LoadMode mode : {runtime::LoadMode::kMmap, runtime::LoadMode::kFile}) {
    runtime::HostOptions options = host_options();
    options.mode = mode;
    auto program = HostProgram::from_file(path, options);
    ASSERT_TRUE(program.ok());
    EXPECT_EQ(outputs(**program), outputs(*load(dense)));
  }
  std::remove(path.c_str());
}

/// Filters have 512 bytes and more in this network, biases less.
Bytes with_sparse_filters(const Bytes& dense) {
  return with_sparse_data(dense, [&dense](size_t i) { return entry_of(dense, i).size() >= 512; });
}

TEST(SparseWeights, ASecondMethodFindsWhatTheFirstPacked) {
  Bytes file = with_sparse_filters(lowered(dynamic_network()));
  const std::shared_ptr<HostProgram> program = load(file);
  const Bytes expected = outputs(*program, "forward");
  ASSERT_FALSE(expected.empty());
  constexpr size_t kDepthwise = 32 * 3 * 3 * sizeof(float);  // packed by each method, the library does not share it
  size_t num_changed = 0;
  for (size_t i = 0; i < num_entries(file); ++i) {
    const Span<const uint8_t> entry = entry_of(file, i);
    SparseBytes sparse;
    if (entry.size() >= 512 && read_sparse_bytes("", entry, &sparse) == Error::Ok && sparse.nbytes() != kDepthwise) {
      uint8_t* const values = file.data() + (sparse.values - file.data());
      std::memset(values, 1, sparse.num_values * sparse.element_size);
      ++num_changed;
    }
  }
  ASSERT_EQ(num_changed, 3u);
  EXPECT_EQ(outputs(*program, "again"), expected) << "it packed its weights anew";
  EXPECT_NE(outputs(*load(file), "again"), expected);
}

TEST(SparseWeights, OfADelegateThatWentAreFoundByTheNextOne) {
  const Bytes dense = lowered(dynamic_network());
  const Bytes file = with_sparse_filters(dense);
  const std::shared_ptr<HostProgram> program = load(file);
  const Bytes expected = outputs(*load(dense));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(outputs(*program, i % 2 == 0 ? "forward" : "again"), expected);
  }
}

TEST(SparseWeights, DamagedOnesAreRefused) {
  static std::string messages;
  const Bytes file = with_sparse_filters(lowered(dynamic_network()));
  size_t checked = 0;
  for (size_t i = 0; i < num_entries(file); ++i) {
    const Span<const uint8_t> entry = entry_of(file, i);
    const size_t begin = static_cast<size_t>(entry.data() - file.data());
    for (const size_t at : {0, 4, 5, 6, 8, 15, 16, 20}) {  // each field of the header, and the mask
      if (entry.size() < 512) {
        continue;
      }
      Bytes bad = file;
      bad[begin + at] = static_cast<uint8_t>(bad[begin + at] ^ 0x10);
      messages.clear();
      const LogHook before = set_log_hook(
          [](LogLevel, const char*, int, const char* text, size_t length) { messages.append(text, length); });
      EXPECT_EQ(load(bad)->load_method("forward").error(), Error::InvalidProgram) << "byte " << at;
      set_log_hook(before);
      EXPECT_NE(messages.find("named data 'sparse:"), std::string::npos) << messages;
      ++checked;
    }
  }
  EXPECT_EQ(checked, 32u);
}

TEST(SparseWeights, DamagedAnywhereTheyNeverCrash) {
  static const auto* const files = [] {
    auto* all = new std::vector<Bytes>;
    for (const Network& network : networks()) {
      all->push_back(with_sparse_data(lowered(network.text), [](size_t) { return true; }));
    }
    return all;
  }();
  run_mutations(number_from("ET_MUTATIONS", 4000), [](Random& random) {
    Bytes file = (*files)[random.below(files->size())];
    const Span<const uint8_t> entry = entry_of(file, random.below(num_entries(file)));
    const size_t begin = static_cast<size_t>(entry.data() - file.data());
    for (size_t n = 1 + random.below(3); n > 0; --n) {
      const size_t at = random.below(2) == 0 ? random.below(32) : random.below(entry.size());
      file[begin + at % entry.size()] = static_cast<uint8_t>(random.awkward(file[begin + at % entry.size()]));
    }
    return run_hostile_program(file.data(), file.size(), {&all_kernels(), &all_backends()});
  });
}

}  // namespace
}  // namespace et::test
