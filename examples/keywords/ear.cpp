#include "ear.h"

#include <cstring>

#include "spectrum.h"

using application::Ear;

namespace application {
namespace {

/// Bands of equal width in mel, from 90 Hz to 7.2 kHz at 16 kHz.
constexpr uint16_t kEdges[kBands + 2] = {6,   12,  18,  25,  34,  43,  53,  64,  77,  91,  107,
                                         124, 144, 166, 190, 217, 247, 281, 319, 361, 408, 461};
constexpr int32_t kAboveFloor = 12 * 64;  // 9 dB
constexpr int32_t kQuietest = -80 * 64;   // below this nobody speaks
constexpr int32_t kHangover = 15;         // hops: words have pauses
constexpr int32_t kMargin = 45;           // votes between the first word and the second
constexpr int32_t kRest = 5;              // decisions after a word

/// Moves the floor: down at once by an eighth, up by 1/128.
void hear_noise(Ear& ear) {
  int32_t level = 0;
  const int8_t* const now = ear.levels[kFrames - 1];
  for (size_t b = 2; b < 14; ++b) {  // where vowels are
    level += now[b];
  }
  level = level * 64 / 12;
  const int32_t away = level - ear.floor;
  ear.floor += ear.hops == 1 ? away : away / (away < 0 ? 8 : 128);
  if (level > ear.floor + kAboveFloor && level > kQuietest) {
    ear.voiced = kHangover;
  } else if (ear.voiced > 0) {
    --ear.voiced;
  }
}

}  // namespace
}  // namespace application

using namespace application;  // NOLINT(google-build-using-namespace): the functions below are C

size_t ear_size() { return sizeof(Ear); }

void ear_reset(Ear* ear) {
  memset(ear, 0, sizeof(*ear));
  memset(ear->levels, -128, sizeof(ear->levels));
  memset(ear->votes, -128, sizeof(ear->votes));
}

bool ear_listen(Ear* ear, const int16_t* hop) {
  memmove(ear->samples, ear->samples + kHop, (kFrame - kHop) * sizeof(int16_t));
  memcpy(ear->samples + kFrame - kHop, hop, kHop * sizeof(int16_t));
  memmove(ear->levels[0], ear->levels[1], sizeof(ear->levels) - kBands);
  log_bands(ear->samples, kFrame, kEdges, kBands, ear->levels[kFrames - 1]);
  ++ear->hops;
  hear_noise(*ear);
  return ear->voiced > 0;
}

void ear_window(const Ear* ear, int8_t* window) { memcpy(window, ear->levels, sizeof(ear->levels)); }

int32_t ear_decide(Ear* ear, const int8_t* scores) {
  memmove(ear->votes[0], ear->votes[1], sizeof(ear->votes) - kWords);
  memcpy(ear->votes[kVotes - 1], scores, kWords);
  if (ear->deaf > 0) {
    --ear->deaf;
    return -1;
  }
  int32_t sums[kWords] = {};
  for (const auto& vote : ear->votes) {
    for (size_t w = 0; w < kWords; ++w) {
      sums[w] += vote[w];
    }
  }
  size_t best = 0;
  for (size_t w = 1; w < kWords; ++w) {
    best = sums[w] > sums[best] ? w : best;
  }
  int32_t second = INT32_MIN;
  for (size_t w = 0; w < kWords; ++w) {
    second = w != best && sums[w] > second ? sums[w] : second;
  }
  if (best == kWords - 1 || sums[best] - second < kMargin || ear->voiced == 0) {
    return -1;
  }
  ear->deaf = kRest;
  return static_cast<int32_t>(best);
}

void ear_windows(const int16_t* samples, size_t count, int8_t* windows) {
  Ear ear;
  ear_reset(&ear);
  constexpr size_t kHops = 50;
  for (size_t clip = 0; clip < count; ++clip) {
    for (size_t h = 0; h < kHops; ++h) {
      ear_listen(&ear, samples + (clip * kHops + h) * kHop);
    }
    ear_window(&ear, windows + clip * kFrames * kBands);
  }
}
