// Texts of messages, beside snprintf's.
#include "base/format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace et {
namespace {

constexpr size_t kSize = 512;

struct Written {
  std::string text;
  bool is_known;
};

/// What a core writes; the length is that of the text, and nothing is written behind the buffer.
__attribute__((format(printf, 2, 3))) Written known(size_t size, const char* format, ...) {
  std::vector<char> text(size + 8, '#');
  va_list arguments;
  va_start(arguments, format);
  size_t length = 0;
  const bool is_known = detail::format_known(text.data(), size, &length, format, arguments);
  va_end(arguments);
  EXPECT_LT(length, size);
  EXPECT_EQ(strlen(text.data()), length);
  EXPECT_EQ(std::string(text.data() + size, 8), "########");
  return {text.data(), is_known};
}

__attribute__((format(printf, 1, 2))) std::string printed(const char* format, ...) {
  char text[kSize];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

#define EXPECT_AS_PRINTED(...)                                   \
  do {                                                           \
    const Written written = known(kSize, __VA_ARGS__);           \
    EXPECT_TRUE(written.is_known) << #__VA_ARGS__;               \
    EXPECT_EQ(written.text, printed(__VA_ARGS__));               \
    char text[kSize];                                            \
    const size_t length = format_text(text, kSize, __VA_ARGS__); \
    EXPECT_EQ(std::string(text, length), written.text);          \
  } while (false)

TEST(Format, NumbersOfEachLength) {
  for (const int64_t number : {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{9}, int64_t{10}, int64_t{65535},
                               int64_t{65536}, int64_t{INT32_MAX}, int64_t{INT32_MIN}, int64_t{UINT32_MAX}, INT64_MAX,
                               INT64_MIN, int64_t{1} << 48, int64_t{1000000000000000000}}) {
    const auto word = static_cast<int32_t>(number);
    EXPECT_AS_PRINTED("%d|%i|%u|%x|%c", word, word, static_cast<uint32_t>(word), static_cast<uint32_t>(word), 'a');
    EXPECT_AS_PRINTED("%ld|%li|%lu|%lx", static_cast<long>(number), static_cast<long>(number),
                      static_cast<unsigned long>(number), static_cast<unsigned long>(number));
    EXPECT_AS_PRINTED("%lld|%llu|%llx", static_cast<long long>(number), static_cast<unsigned long long>(number),
                      static_cast<unsigned long long>(number));
    EXPECT_AS_PRINTED("%zu|%zd|%zx|%td", static_cast<size_t>(number), static_cast<ssize_t>(number),
                      static_cast<size_t>(number), static_cast<ptrdiff_t>(number));
    EXPECT_AS_PRINTED("%jd|%ju", static_cast<intmax_t>(number), static_cast<uintmax_t>(number));
    EXPECT_AS_PRINTED("%" PRId64 "|%" PRIu64 "|%" PRIx64 "|%" PRId32, number, static_cast<uint64_t>(number),
                      static_cast<uint64_t>(number), word);
  }
  int there = 0;
  EXPECT_AS_PRINTED("%p and 100 %% of it", static_cast<void*>(&there));
}

TEST(Format, TextsWithPrecisions) {
  const char open[] = {'a', 'b', 'c'};  // no '\0' behind it
  EXPECT_AS_PRINTED("%s, '%.*s' and '%.64s', '%.4s'", "whole", 3, open, "longer than nothing", "ET12");
  EXPECT_AS_PRINTED("%.*s|%.*s|%.0s|%.s", 0, "none", -1, "all", "none", "none");
  EXPECT_AS_PRINTED("%s%s", "", "");
}

TEST(Format, Floats) {
  using Limits = std::numeric_limits<double>;
  for (const double value : {0.0,
                             1.0,
                             0.1,
                             0.5,
                             1.5,
                             100.0,
                             123456.0,
                             999999.0,
                             999999.5,
                             1234565.0,
                             1234575.0,
                             100000.5,
                             100001.5,
                             1e-4,
                             1e-5,
                             9.99999e-5,
                             9.999995e-5,
                             0.00012345678,
                             1e6,
                             1e7,
                             1e22,
                             1e100,
                             1e308,
                             1.0 / 3,
                             2.0 / 3,
                             3.14159265358979,
                             0.00390625,
                             0.0000152587890625,
                             Limits::max(),
                             Limits::min(),
                             Limits::denorm_min(),
                             Limits::infinity(),
                             Limits::quiet_NaN(),
                             Limits::epsilon(),
                             double{std::numeric_limits<float>::max()},
                             8388607.5,
                             4294967295.0,
                             1.350050105}) {
    for (const double signed_value : {value, -value}) {
      EXPECT_AS_PRINTED("%g|%.9g|%.0g|%.1g|%.3g|%.*g|%.*g", signed_value, signed_value, signed_value, signed_value,
                        signed_value, 2, signed_value, -3, signed_value);
    }
  }
}

TEST(Format, FloatsAtRandom) {
  std::mt19937_64 random(0);
  for (int i = 0; i < 5000; ++i) {
    const uint64_t bits = random();
    double any;
    memcpy(&any, &bits, sizeof(any));
    float single;
    memcpy(&single, &bits, sizeof(single));
    const double decimal = static_cast<double>(static_cast<int32_t>(bits >> 32)) / std::pow(10, bits % 12);
    const int digits = static_cast<int>(bits >> 8 & 7) + 2;
    EXPECT_AS_PRINTED("%.*g %.*g %.*g %g", digits, any, digits, static_cast<double>(single), digits, decimal,
                      std::ldexp(static_cast<double>(bits & 0xffffff), static_cast<int>(bits >> 58) - 32));
    if (HasFailure()) {
      return;
    }
  }
}

TEST(Format, FormatsAtRandom) {
  std::mt19937_64 random(1);
  const auto one_of = [&](const std::vector<std::string>& choices) { return choices[random() % choices.size()]; };
  const std::vector<std::string> between = {"", " ", "%%", "a text of some length, ", "(", "\n"};
  for (int i = 0; i < 20000 && !HasFailure(); ++i) {
    std::string format = one_of(between) + one_of({"%d", "%i", "%u", "%x", "%c"});
    format += one_of(between) + one_of({"%zu", "%zd", "%zx", "%ju", "%llu", "%lld", "%td"});
    format += one_of(between) + one_of({"%.*s", "%.*s%%"}) + one_of(between) + one_of({"%s", "%.7s", "%.0s"});
    format += one_of(between) + one_of({"%g", "%.9g", "%.3g", "%.1g"}) + one_of(between) + one_of({"%.*g", "%.*g."});
    const uint64_t bits = random();
    const auto word = static_cast<int>(bits % 255) + 1;  // no '\0', at which texts would end
    const auto value = static_cast<double>(bits >> 40) / static_cast<double>(random() % 1000 + 1);
    EXPECT_AS_PRINTED(format.c_str(), word, static_cast<size_t>(bits), static_cast<int>(bits % 12) - 1, "characters",
                      "torch.float32 (2, 8)", value, static_cast<int>(bits % 11) - 1, -value);
  }
}

TEST(Format, OtherFormatsAreLeftToTheLibrary) {
  for (const char* format : {"%5d %s", "%-5d %s", "%05d %s", "%.5d %s", "%hd %s", "%o %s"}) {
    const Written written = known(kSize, format, 42, "text");
    EXPECT_FALSE(written.is_known);
    EXPECT_EQ(written.text, format);  // no argument is read at the wrong place
    char text[kSize];
    EXPECT_EQ(std::string(text, format_text(text, kSize, format, 42, "text")), printed(format, 42, "text"));
  }
  EXPECT_EQ(known(kSize, "%s %f %s", "known", 1.5, "not any more").text, "known %f %s");
  const std::string no_end = "ends with %";
  EXPECT_EQ(known(kSize, no_end.c_str(), 0).text, no_end);
  const Written digits = known(kSize, "%.17g of %d", 0.1, 3);
  EXPECT_FALSE(digits.is_known);
  EXPECT_EQ(digits.text, "0.1 of 3");
  char text[kSize];
  EXPECT_EQ(std::string(text, format_text(text, kSize, "%.17g", 0.1)), printed("%.17g", 0.1));
}

TEST(Format, WhatDoesNotFitIsCutOff) {
  const std::string whole = printed("%s %d %g", "abc", -123, 0.25);
  for (size_t size = 1; size <= whole.size() + 2; ++size) {
    EXPECT_EQ(known(size, "%s %d %g", "abc", -123, 0.25).text, whole.substr(0, size - 1)) << size;
    char text[32];
    EXPECT_EQ(format_text(text, size, "%s %d %g", "abc", -123, 0.25), std::min(size - 1, whole.size()));
    EXPECT_EQ(format_text(text, size, "%5s %d", "abc", -123),
              std::min(size - 1, printed("%5s %d", "abc", -123).size()));
  }
}

}  // namespace
}  // namespace et
