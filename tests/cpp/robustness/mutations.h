/// Runs damaged inputs by the thousand and counts what becomes of them.
///
/// ET_MUTATIONS in the environment sets how many, ET_SEED which ones: a failure names the seed that repeats it alone.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "hostile_program.h"
#include "mutator.h"

namespace et::test {

inline size_t number_from(const char* variable, size_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<size_t>(std::strtoull(text, nullptr, 10));
}

/// Calls `run_one(random)`, which returns an Outcome, `count` times; prints what came of it.
template <typename RunOne>
void run_mutations(size_t count, RunOne run_one) {
  const uint64_t first = number_from("ET_SEED", 20261121);
  size_t outcomes[4] = {};
  for (size_t i = 0; i < count; ++i) {
    SCOPED_TRACE(::testing::Message() << "ET_SEED=" << first + i << " ET_MUTATIONS=1");
    Random random(first + i);
    ++outcomes[static_cast<size_t>(run_one(random))];
  }
  std::printf("%zu files: %zu refused at load, %zu at load_method, %zu at the run, %zu ran\n", count, outcomes[0],
              outcomes[1], outcomes[2], outcomes[3]);
  if (count > 1000) {
    EXPECT_LT(outcomes[3], count);
    EXPECT_GT(outcomes[3], 0u) << "mutations that nothing survives reach only the first check";
  }
}

}  // namespace et::test
