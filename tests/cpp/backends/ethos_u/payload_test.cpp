// Payloads of EthosUBackend are refused or safe to run, whatever happened to them; and the driver gets what they say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "../../robustness/mutator.h"
#include "../arguments.h"
#include "backends/ethos_u/runtime/delegate.h"

namespace et::backends::ethos_u {

/// The device of these tests: adds 1 to each byte of the input at 16, and writes that at 32.
bool is_there() { return true; }
Error invoke(const Invocation& call) {
  if (call.scratch.size() >= 48) {
    for (size_t i = 0; i < 4; ++i) {
      call.scratch[32 + i] = static_cast<uint8_t>(call.scratch[16 + i] + call.weights[0]);
    }
  }
  return Error::Ok;
}

}  // namespace et::backends::ethos_u

namespace et::test {
namespace {

using backends::ethos_u::CommandPayload;

void append(Bytes& out, const void* data, size_t size) {
  const auto* const bytes = static_cast<const uint8_t*>(data);
  out.insert(out.end(), bytes, bytes + size);
}

void append_block(Bytes& out, const std::string& name, const Bytes& data) {
  char header[32] = {};
  std::memcpy(header, name.data(), name.size());
  const auto size = static_cast<uint32_t>(data.size());
  std::memcpy(header + 16, &size, sizeof(size));
  append(out, header, sizeof(header));
  append(out, data.data(), data.size());
  out.resize((out.size() + 15) / 16 * 16);
}

Bytes words(const std::vector<int32_t>& values) {
  Bytes out;
  append(out, values.data(), values.size() * sizeof(int32_t));
  return out;
}

/// What can be wrong, each field on its own.
struct Fields {
  std::string magic = "vela_bin_stream";
  Bytes commands = {'C', 'O', 'P', '1', 0, 0, 0, 0};
  Bytes scratch = words({64});
  std::vector<int32_t> input = {1, 1, 1, 1, 1, 1, 4, 1, 16, 1};
  std::vector<int32_t> output = {1, 1, 1, 1, 1, 1, 4, 1, 32, 1};
  std::string end = "vela_end_stream";
  Bytes behind = {};
};

Bytes payload_of(const Fields& fields) {
  Bytes out;
  append_block(out, fields.magic, {});
  append_block(out, "cmd_data", fields.commands);
  append_block(out, "weight_data", {1, 0, 0});
  append_block(out, "scratch_size", fields.scratch);
  append_block(out, "inputs", words(fields.input));
  append_block(out, "outputs", words(fields.output));
  append_block(out, fields.end, {});
  append(out, fields.behind.data(), fields.behind.size());
  return out;
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

/// Parses `payload` at a multiple of 16 in a block of its own, and runs it where that works.
Error call(const Bytes& payload, std::vector<int8_t>* result = nullptr, size_t limit = 1 << 20) {
  const std::unique_ptr<uint8_t, Free> memory(
      static_cast<uint8_t*>(std::aligned_alloc(16, (payload.size() + 16) / 16 * 16)));
  uint8_t* const exact = memory.get();
  std::copy(payload.begin(), payload.end(), exact);
  ET_TRY(const CommandPayload parsed, backends::ethos_u::parse({exact, payload.size()}));
  Argument in(ScalarType::Char, {4}, {1, 2, 3, 4});
  Argument out(ScalarType::Char, {4}, std::vector<int8_t>(4));
  runtime::EValue* const args[] = {&in.value, &out.value};
  ET_RETURN_IF_ERROR(backends::ethos_u::check_arguments(parsed, args));
  LimitedAllocator temp(limit);
  runtime::KernelContext context(&temp, nullptr, nullptr, nullptr, nullptr);
  ET_RETURN_IF_ERROR(backends::ethos_u::execute(parsed, context, args));
  if (result != nullptr) {
    *result = out.data;
  }
  return Error::Ok;
}

TEST(EthosUPayload, ReachesTheDeviceAndComesBack) {
  std::vector<int8_t> result;
  ASSERT_EQ(call(payload_of({}), &result), Error::Ok);
  EXPECT_EQ(result, (std::vector<int8_t>{2, 3, 4, 5}));
}

TEST(EthosUPayload, SaysWhatIsWrong) {
  const auto with = [](auto change) {
    Fields fields;
    change(fields);
    return call(payload_of(fields));
  };
  EXPECT_EQ(with([](Fields& f) { f.magic = "vela_bin_strean"; }), Error::DelegateInvalidCompatibility);
  EXPECT_EQ(with([](Fields& f) { f.commands = {'C', 'O', 'P', '2'}; }), Error::InvalidProgram);
  EXPECT_EQ(with([](Fields& f) { f.commands = {'C', 'O', 'P', '1', 0}; }), Error::InvalidProgram);
  EXPECT_EQ(with([](Fields& f) { f.commands = {}; }), Error::InvalidProgram);
  EXPECT_EQ(with([](Fields& f) { f.scratch = words({35}); }), Error::InvalidProgram) << "the output ends at 36";
  EXPECT_EQ(with([](Fields& f) { f.scratch = words({2}); }), Error::InvalidProgram) << "smaller than an input";
  EXPECT_EQ(with([](Fields& f) { f.scratch = words({64, 0}); }), Error::InvalidProgram);
  EXPECT_EQ(with([](Fields& f) { f.input[8] = -1; }), Error::InvalidProgram) << "an offset in front of the scratch";
  EXPECT_EQ(with([](Fields& f) { f.input[8] = 61; }), Error::InvalidProgram) << "an offset behind it";
  EXPECT_EQ(with([](Fields& f) { f.input[3] = 0; }), Error::InvalidProgram);
  EXPECT_EQ(with([](Fields& f) { f.input[3] = INT32_MAX, f.input[4] = INT32_MAX; }), Error::InvalidProgram);
  EXPECT_EQ(with([](Fields& f) { f.input[0] = 2; }), Error::InvalidProgram) << "two places, one is there";
  EXPECT_EQ(with([](Fields& f) { f.end = "vela_end_strean"; }), Error::InvalidProgram);
  EXPECT_EQ(with([](Fields& f) { f.behind.resize(16); }), Error::InvalidProgram);
  EXPECT_EQ(with([](Fields& f) { f.input[6] = 8; }), Error::InvalidArgument) << "the call has 4 bytes";
  EXPECT_EQ(call(payload_of({}), nullptr, 63), Error::MemoryAllocationFailed) << "no room for the scratch";
}

TEST(EthosUPayload, MayBeDamagedAnyhow) {
  const char* const seed = std::getenv("ET_SEED");
  Random random(seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10));
  const Bytes whole = payload_of({});
  size_t refused = 0, run = 0;
  for (int i = 0; i < 100000; ++i) {
    ++(call(mutate_bytes(whole, whole, random), nullptr, 1 << 16) == Error::Ok ? run : refused);
  }
  EXPECT_GT(refused, run);
  EXPECT_GT(run, 100u) << "damage to weights and padding";
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(call(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))), Error::Ok);
  }
}

}  // namespace
}  // namespace et::test
