// Payloads that are damaged in thousands of ways are refused or run; nothing crashes. Run it under sanitizers
// (make sanitize). ET_MUTATIONS sets how many, ET_SEED which ones.
#include <gtest/gtest.h>

#include <cstdlib>

#include "../../robustness/mutator.h"
#include "call.h"

namespace et::test {
namespace {

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(HostilePayload, IsRefusedOrRun) {
  Random random(setting("ET_SEED", 1));
  size_t refused = 0, run = 0;
  for (uint64_t i = setting("ET_MUTATIONS", 200000); i > 0; --i) {
    const Example& example = examples()[random.below(examples().size())];
    const Example& other = examples()[random.below(examples().size())];
    Bytes payload = mutate_bytes(example.payload, other.payload, random);
    if (payload.size() >= 4 && random.below(3) == 0) {  // small numbers: sizes, axes, types, operators
      payload[random.below(payload.size()) / 4 * 4] = static_cast<uint8_t>(random.below(80));
    }
    std::vector<int8_t> output;
    ++(call(payload, example, output, 1 << 16) == Error::Ok ? run : refused);
  }
  EXPECT_GT(refused, run);
  EXPECT_GT(run, 100u) << "damage to weights and names that nothing reads leaves a graph that runs";
}

TEST(HostilePayload, MayBeCutOffAnywhere) {
  for (const Example& example : examples()) {
    std::vector<int8_t> output;
    for (size_t size = 0; size + 8 < example.payload.size(); ++size) {  // behind are at most 7 bytes of padding
      const Bytes payload(example.payload.begin(), example.payload.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_NE(call(payload, example, output), Error::Ok);
    }
  }
}

}  // namespace
}  // namespace et::test
