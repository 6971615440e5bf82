// Recurrent layers: sizes around strips, tiles and chunks, both directions, projections, packed batches, threads.

#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

struct Case {
  const char* cell = "lstm";
  int64_t steps = 5, batch = 3, features = 7, hidden = 20;
  int64_t layers = 1;
  bool bidirectional = false, batch_first = false, biases = true;
  int64_t projection = 0;
  std::vector<int64_t> batch_sizes = {};  // packed when there are any
};

bool is_lstm(const Case& c) { return std::string(c.cell) == "lstm"; }
int64_t gates(const Case& c) { return is_lstm(c) ? 4 : std::string(c.cell) == "gru" ? 3 : 1; }

/// The call up to its outputs. `constant`: the weights are constants of the program.
void add_arguments(Call& call, const Case& c, bool constant) {
  const int64_t directions = c.bidirectional ? 2 : 1;
  const int64_t state = c.projection != 0 ? c.projection : c.hidden;
  const bool packed = !c.batch_sizes.empty();
  const int64_t rows = std::accumulate(c.batch_sizes.begin(), c.batch_sizes.end(), int64_t{0});
  if (packed) {
    call.tensor({rows, c.features});
    call.numbers_of(c.batch_sizes);
  } else {
    call.tensor(c.batch_first ? std::vector<int64_t>{c.batch, c.steps, c.features}
                              : std::vector<int64_t>{c.steps, c.batch, c.features});
  }
  const int64_t batch = packed ? c.batch_sizes[0] : c.batch;
  call.tensor({c.layers * directions, batch, state});
  if (is_lstm(c)) {
    call.tensor({c.layers * directions, batch, c.hidden}).as_list(2);
  }
  // As torch.nn starts: a state that grew from step to step would grow rounding errors, too.
  const float bound = 1.0f / std::sqrt(static_cast<float>(c.hidden));
  size_t count = 0;
  const auto add = [&](std::vector<int64_t> sizes) {
    constant ? call.constant(std::move(sizes), kRowMajor, -bound, bound)
             : call.tensor(std::move(sizes), kRowMajor, -bound, bound);
    ++count;
  };
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    for (int64_t direction = 0; direction < directions; ++direction) {
      add({gates(c) * c.hidden, layer == 0 ? c.features : directions * state});
      add({gates(c) * c.hidden, state});
      if (c.biases) {
        add({gates(c) * c.hidden});
        add({gates(c) * c.hidden});
      }
      if (c.projection != 0) {
        add({c.projection, c.hidden});
      }
    }
  }
  call.as_list(count).flag(c.biases).integer(c.layers).number(0.0).flag(false).flag(c.bidirectional);
  if (!packed) {
    call.flag(c.batch_first);
  }
}

void expect_same(const Case& c) {
  SCOPED_TRACE(::testing::Message() << c.cell << ": " << c.steps << " steps, batch " << c.batch << ", " << c.features
                                    << " -> " << c.hidden << " -> " << c.projection << ", layers " << c.layers
                                    << ", both ways " << c.bidirectional << ", packed " << c.batch_sizes.size());
  const int64_t directions = c.bidirectional ? 2 : 1;
  const int64_t columns = directions * (c.projection != 0 ? c.projection : c.hidden);
  const int64_t batch = c.batch_sizes.empty() ? c.batch : c.batch_sizes[0];
  const std::string name = std::string("et::") + c.cell + (c.batch_sizes.empty() ? ".input_out" : ".data_out");
  Call call(name.c_str());
  add_arguments(call, c, true);
  if (!c.batch_sizes.empty()) {
    call.out({std::accumulate(c.batch_sizes.begin(), c.batch_sizes.end(), int64_t{0}), columns});
  } else {
    call.out(c.batch_first ? std::vector<int64_t>{c.batch, c.steps, columns}
                           : std::vector<int64_t>{c.steps, c.batch, columns});
  }
  call.out({c.layers * directions, batch, columns / directions});
  if (is_lstm(c)) {
    call.out({c.layers * directions, batch, c.hidden});
  }
  call.expect_same(kPriorityOptimized, 2e-5);
}

constexpr const char* kCells[] = {"lstm", "gru", "rnn_tanh", "rnn_relu"};

TEST(Recurrent, SizesAroundStripsAndTiles) {
  for (const char* cell : kCells) {
    for (const int64_t hidden : {1, 7, 8, 15, 16, 17, 33}) {
      expect_same({cell, 4, 2, 5, hidden});
    }
    for (const int64_t batch : {1, 2, 3, 4, 5, 6, 7, 11, 13}) {
      expect_same({cell, 3, batch, 9, 18});
    }
    for (const int64_t features : {1, 2, 31}) {
      expect_same({cell, 3, 2, features, 10});
    }
  }
}

TEST(Recurrent, SequencesLongerThanAChunkAndBatchesLargerThanAGroup) {
  for (const char* cell : kCells) {
    expect_same({cell, 205, 1, 6, 12});
    expect_same({cell, 40, 7, 6, 12, 2, true});
    expect_same({cell, 5, 101, 6, 12, 2, true, true});
  }
}

TEST(Recurrent, LayersDirectionsAndLayouts) {
  for (const char* cell : kCells) {
    for (const bool both : {false, true}) {
      for (const bool batch_first : {false, true}) {
        for (const bool biases : {false, true}) {
          expect_same({cell, 6, 3, 5, 19, 1, both, batch_first, biases});
          expect_same({cell, 6, 3, 5, 19, 3, both, batch_first, biases});
        }
      }
    }
  }
}

TEST(Recurrent, Projections) {
  for (const int64_t projection : {1, 8, 17}) {
    for (const bool both : {false, true}) {
      expect_same({"lstm", 6, 5, 5, 30, 2, both, true, true, projection});
      expect_same({"lstm", 6, 5, 5, 30, 2, both, false, false, projection});
    }
  }
}

TEST(Recurrent, PackedBatches) {
  for (const char* cell : kCells) {
    for (const bool both : {false, true}) {
      expect_same({cell, 0, 0, 5, 19, 2, both, false, true, 0, {4, 4, 3, 1, 1}});
      expect_same({cell, 0, 0, 5, 19, 1, both, false, false, 0, {1, 1, 1}});
      expect_same({cell, 0, 0, 5, 9, 1, both, false, true, 0, {70, 60, 47, 2}});
    }
  }
  expect_same({"lstm", 0, 0, 5, 30, 2, true, false, true, 7, {5, 3, 3, 2}});
}

/// Enough work for threads: by sequences, by directions, by units.
TEST(Recurrent, Threads) {
  for (const char* cell : kCells) {
    expect_same({cell, 12, 8, 64, 64, 2});
    expect_same({cell, 24, 1, 64, 96, 1, true});
    expect_same({cell, 6, 1, 64, 512});
  }
  expect_same({"lstm", 6, 1, 64, 512, 1, false, false, true, 300});
}

TEST(Recurrent, ComputedWeightsAreLeftToThePortableKernel) {
  Call call("et::lstm.input_out");
  add_arguments(call, {}, false);
  call.out({5, 3, 20}).out({1, 3, 20}).out({1, 3, 20});
  EXPECT_FALSE(call.fits(kPriorityOptimized));
}

}  // namespace
}  // namespace et::kernels::testing
