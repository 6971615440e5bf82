#include "planning/planner.h"

#include <gtest/gtest.h>

#include <random>

#include "brute_force.h"
#include "planning/overlap.h"
#include "request.h"

namespace et::planning {
namespace {

constexpr uint64_t kAlignment = 16;

uint64_t total(const std::vector<Request>& requests, const std::vector<Placement>& places, size_t arenas) {
  uint64_t sum = 0;
  for (const uint64_t size : arena_sizes(requests, places, arenas)) {
    sum += size;
  }
  return sum;
}

/// Largest sum of bytes alive at one time.
uint64_t bound(const std::vector<Request>& requests) {
  uint64_t most = 0;
  for (const Request& at : requests) {
    uint64_t live = 0;
    for (const Request& other : requests) {
      live += other.first <= at.first && at.first <= other.last ? other.nbytes : 0;
    }
    most = std::max(most, live);
  }
  return most;
}

std::vector<Request> random_requests(std::mt19937& random, size_t count, uint32_t num_steps) {
  std::vector<Request> requests;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t first = random() % num_steps;
    requests.push_back(request(first, first + random() % (num_steps - first), kAlignment * (1 + random() % 40)));
  }
  return requests;
}

TEST(GreedyPlanner, NoRequests) {
  std::vector<Placement> places{{1, 0}};
  ASSERT_EQ(GreedyPlanner().plan({}, std::vector<Arena>{{"a", 0}}, places), Error::Ok);
  EXPECT_TRUE(places.empty());
}

TEST(GreedyPlanner, ReusesWhatIsDead) {
  const std::vector<Request> requests{request(0, 1, 64), request(1, 2, 32), request(2, 3, 64)};
  const std::vector<Arena> arenas{{"a", 0}};
  std::vector<Placement> places;
  ASSERT_EQ(GreedyPlanner().plan(requests, arenas, places), Error::Ok);
  EXPECT_EQ(places[0].offset, places[2].offset);
  EXPECT_EQ(total(requests, places, 1), 96u);
}

/// The bytes of a chain of convolutions: never more than two neighbours.
TEST(GreedyPlanner, ReachesTheBoundOnAChain) {
  std::mt19937 random(7);
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 200; ++i) {
    requests.push_back(request(i, i + 1, kAlignment * (1 + random() % 1000)));
  }
  const std::vector<Arena> arenas{{"a", 0}};
  std::vector<Placement> places;
  ASSERT_EQ(GreedyPlanner().plan(requests, arenas, places), Error::Ok);
  EXPECT_EQ(total(requests, places, 1), bound(requests));
}

TEST(GreedyPlanner, NearTheOptimumOnSmallRandomLifetimes) {
  const std::vector<Arena> arenas{{"a", 0}};
  size_t exact = 0;
  constexpr uint32_t kCases = 150;
  for (uint32_t seed = 0; seed < kCases; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const std::vector<Request> requests = random_requests(random, 3 + random() % 5, 8);
    std::vector<Placement> places;
    ASSERT_EQ(GreedyPlanner().plan(requests, arenas, places), Error::Ok);
    ASSERT_EQ(check_plan(requests, arenas, places, kAlignment), Error::Ok);
    const uint64_t best = smallest_arena(requests);
    ASSERT_LE(best, total(requests, places, 1));
    EXPECT_LE(static_cast<double>(total(requests, places, 1)), 1.06 * static_cast<double>(best));
    exact += total(requests, places, 1) == best ? 1 : 0;
  }
  EXPECT_GE(exact, kCases * 95 / 100);
}

/// Layers that each write over their input, in front of it or behind it: one buffer and a distance hold all of them.
TEST(GreedyPlanner, ResultsThatOverlapTheirInputsTakeTurnsInBothDirections) {
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 10; ++i) {
    requests.push_back(request(i, i + 1, 8000));
    if (i > 0) {
      requests.back().over = {i - 1, i % 2 != 0 ? 448u : 256u, i % 2 != 0 ? 448u : 256u};
    }
  }
  const std::vector<Arena> arenas{{"a", 0}};
  std::vector<Placement> places;
  ASSERT_EQ(GreedyPlanner().plan(requests, arenas, places), Error::Ok);
  EXPECT_EQ(check_plan(requests, arenas, places, kAlignment), Error::Ok);
  EXPECT_EQ(total(requests, places, 1), 8448u);
}

TEST(GreedyPlanner, NearTheOptimumWhereResultsMayOverlapTheirInputs) {
  const std::vector<Arena> arenas{{"a", 0}};
  uint64_t apart = 0, sum = 0, least = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    std::vector<Request> requests = random_requests(random, 3 + random() % 5, 8);
    const uint64_t without = smallest_arena(requests);
    for (uint32_t i = 0; i < requests.size(); ++i) {
      for (uint32_t j = 0; j < requests.size(); ++j) {
        if (i != j && requests[j].last == requests[i].first && requests[j].first < requests[i].first) {
          requests[i].over = {j, kAlignment * (random() % 20), kAlignment * (random() % 60)};
        }
      }
    }
    std::vector<Placement> places;
    ASSERT_EQ(GreedyPlanner().plan(requests, arenas, places), Error::Ok);
    ASSERT_EQ(check_plan(requests, arenas, places, kAlignment), Error::Ok);
    const uint64_t best = smallest_arena(requests), got = total(requests, places, 1);
    ASSERT_LE(best, got);
    ASSERT_LE(best, without);
    apart += without, sum += got, least += best;
  }
  EXPECT_LE(static_cast<double>(sum), 1.02 * static_cast<double>(least));
  EXPECT_LT(sum, apart);
}

TEST(GreedyPlanner, LargeRandomLifetimesAreValidAndRepeatable) {
  std::mt19937 random(11);
  const std::vector<Request> requests = random_requests(random, 400, 500);
  const std::vector<Arena> arenas{{"a", 0}};
  std::vector<Placement> first;
  std::vector<Placement> second;
  ASSERT_EQ(GreedyPlanner().plan(requests, arenas, first), Error::Ok);
  ASSERT_EQ(GreedyPlanner().plan(requests, arenas, second), Error::Ok);
  EXPECT_EQ(check_plan(requests, arenas, first, kAlignment), Error::Ok);
  EXPECT_LE(static_cast<double>(total(requests, first, 1)), 1.06 * static_cast<double>(bound(requests)));
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].offset, second[i].offset);
  }
}

TEST(GreedyPlanner, FillsTheFirstArenaWithWhatIsUsedMost) {
  const std::vector<Request> requests{request(0, 9, 64, 0, 1), request(0, 9, 64, 0, 50), request(0, 9, 64, 0, 2)};
  const std::vector<Arena> arenas{{"SRAM", 64}, {"DRAM", 0}};
  std::vector<Placement> places;
  ASSERT_EQ(GreedyPlanner().plan(requests, arenas, places), Error::Ok);
  EXPECT_EQ(check_plan(requests, arenas, places, kAlignment), Error::Ok);
  EXPECT_EQ(places[1].memory_id, 1u);
  EXPECT_EQ(places[0].memory_id, 2u);
  EXPECT_EQ(places[2].memory_id, 2u);
}

TEST(GreedyPlanner, KeepsPinnedRequestsWhereTheyMustBe) {
  const std::vector<Request> requests{request(0, 1, 64, 2), request(0, 1, 64)};
  const std::vector<Arena> arenas{{"a", 0}, {"b", 0}};
  std::vector<Placement> places;
  ASSERT_EQ(GreedyPlanner().plan(requests, arenas, places), Error::Ok);
  EXPECT_EQ(places[0].memory_id, 2u);
  EXPECT_EQ(places[1].memory_id, 1u);
}

TEST(GreedyPlanner, SaysWhenItDoesNotFit) {
  const std::vector<Request> requests{request(0, 1, 64), request(0, 1, 64)};
  std::vector<Placement> places;
  EXPECT_EQ(GreedyPlanner().plan(requests, std::vector<Arena>{{"SRAM", 96}}, places), Error::OutOfResources);
  const std::vector<Request> pinned{request(0, 1, 64, 3)};
  EXPECT_EQ(GreedyPlanner().plan(pinned, std::vector<Arena>{{"a", 0}}, places), Error::InvalidArgument);
}

TEST(NaivePlanner, ReusesNothing) {
  const std::vector<Request> requests{request(0, 1, 64), request(5, 6, 64), request(8, 9, 16)};
  const std::vector<Arena> arenas{{"small", 64}, {"rest", 0}};
  std::vector<Placement> places;
  ASSERT_EQ(NaivePlanner().plan(requests, arenas, places), Error::Ok);
  EXPECT_EQ(total(requests, places, 2), 144u);
  EXPECT_EQ(check_plan(requests, arenas, places, kAlignment), Error::Ok);
  EXPECT_EQ(NaivePlanner().plan(requests, std::vector<Arena>{{"small", 64}}, places), Error::OutOfResources);
}

}  // namespace
}  // namespace et::planning
