// Errors, results, spans, checked arithmetic, dtypes, half floats, the log hook.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/checked_math.h"
#include "base/dtype.h"
#include "base/result.h"
#include "base/span.h"
#include "base/visit_dtype.h"

namespace et {
namespace {

TEST(ErrorTest, NamesAndValuesArePublishedOnes) {
  EXPECT_STREQ(to_string(Error::InvalidProgram), "InvalidProgram");
  EXPECT_EQ(static_cast<int>(Error::InvalidProgram), 0x23);
  EXPECT_EQ(static_cast<int>(Error::DelegateInvalidHandle), 0x32);
  EXPECT_STREQ(to_string(static_cast<Error>(0xee)), "Unknown");
}

/// Counts how many objects live.
struct Counted {
  static int live;
  Counted() { ++live; }
  Counted(Counted&&) noexcept { ++live; }
  Counted(const Counted&) = delete;
  ~Counted() { --live; }
};
int Counted::live = 0;

Result<Counted> make(bool good) {
  if (!good) {
    return Error::NotFound;
  }
  return Counted();
}
Error use(bool good) {
  ET_TRY(const Counted value, make(good));
  static_cast<void>(value);
  return Error::Ok;
}

TEST(ResultTest, HoldsAValueOrAnError) {
  EXPECT_EQ(use(true), Error::Ok);
  EXPECT_EQ(use(false), Error::NotFound);
  EXPECT_EQ(Counted::live, 0);
  EXPECT_EQ(Result<int>(Error::Ok).error(), Error::Internal) << "a failed result is never Ok";
  Result<std::string> a(std::string("text"));
  Result<std::string> b(std::move(a));
  EXPECT_EQ(*b, "text");
  EXPECT_EQ(b->size(), 4u);
}

TEST(SpanTest, ViewsContainers) {
  std::vector<int> v{1, 2, 3};
  Span<int> all(v);
  all[1] = 7;
  EXPECT_EQ(v[1], 7);
  Span<const int> tail = Span<const int>(v).subspan(1, 2);
  EXPECT_EQ(tail.front(), 7);
  EXPECT_EQ(tail.back(), 3);
  EXPECT_TRUE(equal(tail, Span<const int>({7, 3})));
  EXPECT_FALSE(equal(tail, Span<const int>({7})));
  EXPECT_TRUE(Span<int>().empty());
}

TEST(CheckedMathTest, SaysWhenItOverflowed) {
  size_t out;
  EXPECT_FALSE(mul_overflow<size_t>(6, 7, &out));
  EXPECT_EQ(out, 42u);
  EXPECT_TRUE(mul_overflow<size_t>(SIZE_MAX, 2, &out));
  EXPECT_TRUE(add_overflow<size_t>(SIZE_MAX, 1, &out));
  int32_t narrow;
  EXPECT_TRUE(narrow_overflow(int64_t{1} << 40, &narrow));
  EXPECT_TRUE(narrow_overflow(uint64_t{1} << 31, &narrow));
  EXPECT_FALSE(narrow_overflow(int64_t{-5}, &narrow));
  EXPECT_EQ(narrow, -5);
  uint32_t positive;
  EXPECT_TRUE(narrow_overflow(int64_t{-5}, &positive));
  EXPECT_FALSE(align_up_overflow(17, 16, &out));
  EXPECT_EQ(out, 32u);
  EXPECT_TRUE(align_up_overflow(SIZE_MAX - 3, 16, &out));
}

TEST(DtypeTest, ListIsConsistent) {
  EXPECT_EQ(element_size(ScalarType::BFloat16), 2u);
  EXPECT_STREQ(to_string(ScalarType::Long), "torch.int64");
  EXPECT_STREQ(short_name(ScalarType::Long), "i64");
  EXPECT_TRUE(is_valid_dtype(29));
  EXPECT_FALSE(is_valid_dtype(8));
  EXPECT_FALSE(is_valid_dtype(-1));
  EXPECT_FALSE(is_valid_dtype(int64_t{6} + 256));
  EXPECT_EQ(element_size(static_cast<ScalarType>(99)), 0u);
  EXPECT_STREQ(to_string(static_cast<ScalarType>(99)), "?");
  EXPECT_EQ(dtype_of<float>, ScalarType::Float);
  EXPECT_TRUE(is_integral(ScalarType::Bool, true));
  EXPECT_FALSE(is_integral(ScalarType::Bool, false));
  EXPECT_TRUE(is_complex(ScalarType::ComplexFloat));
}

TEST(DtypeTest, EachTypeIsVisitedAsItsOwn) {
  for (int value = 0; value < 64; ++value) {
    const auto dtype = static_cast<ScalarType>(value);
    const ScalarType visited = visit_dtype(dtype, [](auto zero) { return dtype_of<decltype(zero)>; });
    EXPECT_EQ(visited, is_valid_dtype(value) ? dtype : ScalarType::Byte) << value;
  }
}

TEST(HalfTest, EveryHalfSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    Half half;
    half.bits = static_cast<uint16_t>(bits);
    const float value = half;
    const Half back(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(back)));
    } else {
      EXPECT_EQ(back.bits, half.bits);
    }
  }
}

TEST(HalfTest, RoundsToNearestEven) {
  EXPECT_EQ(Half(65504.0f).bits, 0x7bff);
  EXPECT_EQ(Half(65519.0f).bits, 0x7bff);
  EXPECT_EQ(Half(65520.0f).bits, 0x7c00) << "half way to the next: infinity";
  EXPECT_EQ(Half(1.0f + 0x1p-11f).bits, 0x3c00) << "a tie goes to even";
  EXPECT_EQ(Half(1.0f + 3 * 0x1p-11f).bits, 0x3c02);
  EXPECT_EQ(Half(0x1p-24f).bits, 1) << "smallest subnormal";
  EXPECT_EQ(Half(0x1p-25f).bits, 0);
  EXPECT_EQ(Half(-0.0f).bits, 0x8000);
  EXPECT_EQ(Half(std::numeric_limits<float>::infinity()).bits, 0x7c00);
}

TEST(BFloat16Test, RoundsToNearestEven) {
  EXPECT_EQ(BFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(BFloat16(1.0f + 0x1p-8f).bits, 0x3f80);
  EXPECT_EQ(BFloat16(1.0f + 3 * 0x1p-8f).bits, 0x3f82);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::nanf("")))));
  EXPECT_TRUE(std::isinf(static_cast<float>(BFloat16(3.4e38f))));
}

std::string g_last;

Error fails() {
  ET_CHECK_OR_RETURN(false, OutOfResources, "%d of %s", 3, "four");
  return Error::Ok;
}

TEST(LogTest, MessagesReachTheHook) {
  const LogHook before =
      set_log_hook([](LogLevel level, const char* file, int line, const char* message, size_t length) {
        EXPECT_EQ(level, LogLevel::kError);
        EXPECT_STREQ(file, "base_test.cpp");
        EXPECT_GT(line, 0);
        EXPECT_EQ(message[length], '\0');
        g_last.assign(message, length);
      });
  EXPECT_EQ(fails(), Error::OutOfResources);
  EXPECT_EQ(g_last, "3 of four");
  ET_LOG_ERROR("%s", std::string(2000, 'x').c_str());
  EXPECT_EQ(g_last.size(), 511u) << "cut off, not overrun";
  EXPECT_NE(set_log_hook(before), nullptr);
  EXPECT_EQ(fails(), Error::OutOfResources);
}

}  // namespace
}  // namespace et
