#include <gtest/gtest.h>

#include "emit/named_tables.h"

namespace et::emit {
namespace {

void expect(const char* text, const char* symbol, int64_t scale, int64_t offset) {
  SCOPED_TRACE(text);
  const std::optional<AffineSize> size = parse_affine(text);
  ASSERT_TRUE(size.has_value());
  EXPECT_EQ(size->symbol, symbol);
  EXPECT_EQ(size->scale, scale);
  EXPECT_EQ(size->offset, offset);
}

TEST(ParseAffine, ReadsScaleAndOffset) {
  expect("s0", "s0", 1, 0);
  expect("2*s0", "s0", 2, 0);
  expect("s0*2 + 1", "s0", 2, 1);
  expect("1 + 2*s0 - 3", "s0", 2, -2);
  expect("(s0 - 1)*3", "s0", 3, -3);
  expect("2*(3*(s12 + 1))", "s12", 6, 6);
  expect("s0 + s0", "s0", 2, 0);
  expect("4 - -s0", "s0", 1, 4);
}

TEST(ParseAffine, RefusesTheRest) {
  for (const char* text :
       {"", "7", "s0*s0", "s0 + s1", "s0 // 2", "s0 % 2", "min(s0, 4)", "max(2, s0)", "-s0", "3 - s0", "s0 - s0", "(s0",
        "s0)", "s0 s0", "2*", "99999999999999999999*s0", "9223372036854775807*s0*2"}) {
    EXPECT_FALSE(parse_affine(text).has_value()) << text;
  }
  EXPECT_FALSE(parse_affine(std::string(100000, '(')).has_value()) << "deep nesting ends in an answer, not a crash";
}

}  // namespace
}  // namespace et::emit
