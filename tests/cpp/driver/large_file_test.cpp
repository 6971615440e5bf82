// Constants over 2 GiB in a file over 4 GiB: written, found again, read at their last element. The memory is reserved,
// not used: pages that hold nothing but zeros cost nothing, and neither the file nor the weights have others, but at
// their ends.
#include <sys/mman.h>

#include <cstring>

#include "runner.h"

namespace et::driver {
namespace {

constexpr int64_t kElements = 400'000'000;  // of f64: 3.2 GB each
constexpr uint64_t kNbytes = kElements * sizeof(double);

/// Zeroed bytes without pages.
std::shared_ptr<uint8_t> reserve(uint64_t nbytes) {
  void* data = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return nullptr;
  }
  return {static_cast<uint8_t*>(data), [nbytes](uint8_t* bytes) { munmap(bytes, nbytes); }};
}

/// Takes the file's bytes like a disk with holes: only what is not zero for certain is stored.
class SparseSink final : public emit::Sink {
 public:
  explicit SparseSink(uint8_t* to) : to_(to) {}
  Error write(const void* data, uint64_t nbytes) override {
    constexpr uint64_t kEnds = 1 << 16;
    if (nbytes == kNbytes) {
      std::memcpy(to_, data, kEnds);
      std::memcpy(to_ + nbytes - kEnds, static_cast<const uint8_t*>(data) + nbytes - kEnds, kEnds);
    } else {
      std::memcpy(to_, data, nbytes);
    }
    to_ += nbytes;
    return Error::Ok;
  }

 private:
  uint8_t* to_;
};

TEST(LargeFile, ConstantsBeyondFourGibAreWrittenAndRead) {
  if (sizeof(size_t) < 8) {
    GTEST_SKIP() << "an address space of 32 bits";
  }
  const auto program = parsed(R"(
constant @a : f64[400000000]
constant @b : f64[400000000]
method @forward(%i: f64[]) {
  %a = constant @a : f64[400000000]
  %b = constant @b : f64[400000000]
  %x = aten::select_copy.int(%a, 0, 399999999) : f64[]
  %y = aten::select_copy.int(%b, 0, 399999999) : f64[]
  %z = aten::add.Tensor(%x, %y, 10) : f64[]
  return %z, %y
})");
  double ends[] = {2, 3};
  size_t next = 0;
  for (const char* name : {"a", "b"}) {
    const std::shared_ptr<uint8_t> bytes = reserve(kNbytes);
    if (bytes == nullptr) {
      GTEST_SKIP() << "no address space";
    }
    auto* const elements = reinterpret_cast<double*>(bytes.get());
    elements[0] = -ends[next];
    elements[kElements - 1] = ends[next++];
    ir::Constant& constant = program->constants.at(name);
    constant.data = bytes.get();
    constant.keep_alive = bytes;
  }
  CompileOptions options;
  options.kernels = &kernels();
  options.disabled_passes.insert("fold-constants");  // or nothing large would be left
  Compiled compiled;
  ir::Diagnostics diagnostics;
  ASSERT_EQ(compile(program, options, compiled, diagnostics), Error::Ok)
      << (diagnostics.empty() ? "" : diagnostics[0].to_string());
  const emit::File& file = compiled.file.program;
  EXPECT_GT(file.nbytes, 2 * kNbytes);
  EXPECT_GT(file.nbytes, uint64_t{1} << 32);
  EXPECT_LT(file.head.size(), 10000u) << "the weights are beside the tables";

  const std::shared_ptr<uint8_t> stored = reserve(file.nbytes);
  if (stored == nullptr) {
    GTEST_SKIP() << "no address space";
  }
  SparseSink sink(stored.get());
  ASSERT_EQ(file.write(sink), Error::Ok);
  runtime::HostOptions host;
  host.kernels = &kernels();
  auto loaded = runtime::HostProgram::from_buffer(stored, stored.get(), file.nbytes, host);
  ASSERT_TRUE(loaded.ok());
  auto method = (*loaded)->load_method("forward");
  ASSERT_TRUE(method.ok());
  double unused = 0;
  runtime::TensorImpl impl(ScalarType::Double, 0, nullptr, nullptr, nullptr, &unused, sizeof(unused));
  ASSERT_EQ((*method)->method().set_input(runtime::EValue(runtime::Tensor(&impl)), 0), Error::Ok);
  ASSERT_EQ((*method)->method().execute(), Error::Ok);
  EXPECT_EQ(*(*method)->method().get_output(0).to_tensor().const_data_ptr<double>(), 32);
  EXPECT_EQ(*(*method)->method().get_output(1).to_tensor().const_data_ptr<double>(), 3);

  // The same file, cut off in the last of its weights, is refused.
  EXPECT_EQ(runtime::HostProgram::from_buffer(stored, stored.get(), file.nbytes - 8, host).error(),
            Error::InvalidProgram);
}

}  // namespace
}  // namespace et::driver
