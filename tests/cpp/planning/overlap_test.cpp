#include "planning/overlap.h"

#include <gtest/gtest.h>

#include <vector>

#include "request.h"

namespace et::planning {
namespace {

const std::vector<Arena> kArenas{{"a", 1024}, {"b", 0}};

Error check(const std::vector<Request>& requests, const std::vector<Placement>& places) {
  return check_plan(requests, kArenas, places, 16);
}

TEST(CheckPlan, AcceptsNeighboursInSpaceAndTime) {
  EXPECT_EQ(check({request(0, 4, 32), request(0, 4, 32)}, {{1, 0}, {1, 32}}), Error::Ok);
  EXPECT_EQ(check({request(0, 4, 32), request(5, 9, 32)}, {{1, 0}, {1, 0}}), Error::Ok);
  EXPECT_EQ(check({request(0, 4, 32), request(0, 4, 32)}, {{1, 0}, {2, 0}}), Error::Ok);
  EXPECT_EQ(check({request(0, 4, 0), request(0, 4, 32)}, {{1, 0}, {1, 0}}), Error::Ok);
}

/// Each of these is a plan that would compute nonsense; the checker must refuse every one.
TEST(CheckPlan, RefusesWrongPlans) {
  const Request a = request(0, 4, 32);
  EXPECT_EQ(check({a, request(4, 9, 32)}, {{1, 0}, {1, 0}}), Error::InvalidArgument) << "alive at step 4, same bytes";
  EXPECT_EQ(check({a, request(2, 3, 16)}, {{1, 0}, {1, 16}}), Error::InvalidArgument) << "inside the other";
  EXPECT_EQ(check({request(2, 3, 16), a}, {{1, 16}, {1, 0}}), Error::InvalidArgument) << "in the other order";
  EXPECT_EQ(check({a, request(0, 9, 64)}, {{1, 48}, {1, 0}}), Error::InvalidArgument) << "overlaps at its end";
  EXPECT_EQ(check({a}, {{1, 8}}), Error::InvalidArgument) << "not aligned";
  EXPECT_EQ(check({a}, {{1, 1008}}), Error::InvalidArgument) << "past the arena's end";
  EXPECT_EQ(check({a}, {{2, UINT64_MAX - 15}}), Error::InvalidArgument) << "its end overflows";
  EXPECT_EQ(check({a}, {{0, 0}}), Error::InvalidArgument) << "memory ids begin at 1";
  EXPECT_EQ(check({a}, {{3, 0}}), Error::InvalidArgument) << "no such arena";
  EXPECT_EQ(check({a, a}, {{1, 0}}), Error::InvalidArgument) << "a request without a place";
  Request pinned = a;
  pinned.memory_id = 2;
  EXPECT_EQ(check({pinned}, {{1, 0}}), Error::InvalidArgument) << "in another arena than it must be";
}

/// A result may overlap its input, no nearer than it says and nothing but its input.
TEST(CheckPlan, HoldsOverlapsToTheirDistances) {
  Request result = request(4, 9, 64);
  result.over = {0, 16, 32};
  const std::vector<Request> requests{request(0, 4, 64), result};
  EXPECT_EQ(check(requests, {{1, 16}, {1, 0}}), Error::Ok);
  EXPECT_EQ(check(requests, {{1, 0}, {1, 32}}), Error::Ok);
  EXPECT_EQ(check(requests, {{1, 0}, {1, 64}}), Error::Ok) << "apart";
  EXPECT_EQ(check(requests, {{1, 0}, {1, 0}}), Error::InvalidArgument) << "no distance";
  EXPECT_EQ(check(requests, {{1, 0}, {1, 16}}), Error::InvalidArgument) << "too near behind";
  std::vector<Request> wrong = requests;
  wrong[0].last = 5;
  EXPECT_EQ(check(wrong, {{1, 16}, {1, 0}}), Error::InvalidArgument) << "the input is read later";
  EXPECT_EQ(check({requests[0], result, request(4, 4, 64)}, {{1, 16}, {1, 0}, {1, 32}}), Error::InvalidArgument)
      << "over another one";
}

/// A long life under many short ones is still seen at the end.
TEST(CheckPlan, RemembersLongLives) {
  std::vector<Request> requests{request(0, 100, 16)};
  std::vector<Placement> places{{1, 0}};
  for (uint32_t i = 0; i < 100; ++i) {
    requests.push_back(request(i, i, 16));
    places.push_back({1, 16});
  }
  EXPECT_EQ(check(requests, places), Error::Ok);
  requests.push_back(request(100, 101, 16));
  places.push_back({1, 0});
  EXPECT_EQ(check(requests, places), Error::InvalidArgument);
}

}  // namespace
}  // namespace et::planning
