#include "ir/content_key.h"

#include <cstdint>
#include <cstring>

namespace et::ir {
namespace {

constexpr uint64_t kFirst = 0x87C37B91114253D5ull;
constexpr uint64_t kSecond = 0x4CF5AD432745937Full;

uint64_t rotated(uint64_t value, int bits) { return (value << bits) | (value >> (64 - bits)); }

uint64_t finalised(uint64_t value) {
  value = (value ^ (value >> 33)) * 0xFF51AFD7ED558CCDull;
  value = (value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53ull;
  return value ^ (value >> 33);
}

}  // namespace

std::string content_key(std::string_view bytes) {
  uint64_t a = 0, b = 0;
  const auto take = [&](const uint64_t (&block)[2]) {
    a ^= rotated(block[0] * kFirst, 31) * kSecond;
    a = (rotated(a, 27) + b) * 5 + 0x52DCE729;
    b ^= rotated(block[1] * kSecond, 33) * kFirst;
    b = (rotated(b, 31) + a) * 5 + 0x38495AB5;
  };
  size_t at = 0;
  for (; bytes.size() - at >= sizeof(uint64_t[2]); at += sizeof(uint64_t[2])) {
    uint64_t block[2];
    std::memcpy(block, bytes.data() + at, sizeof(block));
    take(block);
  }
  if (at < bytes.size()) {
    uint64_t block[2] = {0, 0};
    std::memcpy(block, bytes.data() + at, bytes.size() - at);
    take(block);
  }
  a ^= bytes.size();
  b ^= bytes.size();
  a += b;
  b += a;
  a = finalised(a);
  b = finalised(b);
  a += b;
  b += a;
  // 15 digits of 6 bits: with its length and the zero behind it a string of 20 bytes, in the tables and in each
  // payload.
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  constexpr int kDigitsOfHalf[] = {10, 5};
  std::string text;
  for (int half = 0; half < 2; ++half) {
    uint64_t& left = half == 0 ? a : b;
    for (int i = 0; i < kDigitsOfHalf[half]; ++i, left >>= 6) {
      text += kDigits[left & 63];
    }
  }
  return text;
}

}  // namespace et::ir
