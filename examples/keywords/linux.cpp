// Listens on Linux: a sound file, or a microphone's stream on stdin.
//
//   keywords sound.wav                                             16-bit PCM, one channel, 16 kHz or a multiple
//   arecord -q -f S16_LE -r 16000 -t raw | keywords -              samples without a header
//
// Prints when voice begins and ends and which words it hears, then how long a second of sound took.
#include <chrono>
#include <cstdio>
#include <cstring>

#include "ear.h"
#include "network.h"

namespace application {
namespace {

const char* const kNames[] = {"front", "left", "right", "rear", "center", "side"};
constexpr uint32_t kRate = 16000;

struct Sound {
  std::FILE* file;
  size_t every;  // samples of the file for one of ours
};

uint32_t little_endian(const uint8_t* bytes, size_t count) {
  uint32_t value = 0;
  for (size_t i = count; i > 0; --i) {
    value = value << 8 | bytes[i - 1];
  }
  return value;
}

/// Reads chunks up to the samples; says what it cannot read.
bool read_header(Sound& sound, const char* path) {
  uint8_t head[16];
  if (std::fread(head, 12, 1, sound.file) != 1 || std::memcmp(head, "RIFF", 4) != 0 ||
      std::memcmp(head + 8, "WAVE", 4) != 0) {
    std::fprintf(stderr, "%s is no .wav file\n", path);
    return false;
  }
  while (std::fread(head, 8, 1, sound.file) == 1) {
    const uint32_t nbytes = little_endian(head + 4, 4);
    if (std::memcmp(head, "data", 4) == 0) {
      return sound.every != 0;
    }
    const bool is_format = std::memcmp(head, "fmt ", 4) == 0 && nbytes >= 16;
    if (is_format) {
      if (std::fread(head, 16, 1, sound.file) != 1) {
        break;
      }
      const uint32_t kind = little_endian(head, 2), channels = little_endian(head + 2, 2);
      const uint32_t rate = little_endian(head + 4, 4), bits = little_endian(head + 14, 2);
      if (kind != 1 || channels != 1 || bits != 16 || rate == 0 || rate % kRate != 0) {
        std::fprintf(stderr,
                     "%s has %u channels of %u bits at %u Hz; must be one of 16-bit PCM at a multiple of %u Hz\n", path,
                     channels, bits, rate, kRate);
        return false;
      }
      sound.every = rate / kRate;
    }
    if (std::fseek(sound.file, static_cast<long>(nbytes + nbytes % 2 - (is_format ? 16 : 0)), SEEK_CUR) != 0) {
      break;
    }
  }
  std::fprintf(stderr, "%s ends before its samples\n", path);
  return false;
}

/// 20 ms; of a higher rate the mean of the samples that make one.
bool read_hop(const Sound& sound, int16_t* hop) {
  for (size_t i = 0; i < kHop; ++i) {
    int32_t sum = 0;
    for (size_t k = 0; k < sound.every; ++k) {
      int16_t sample;
      if (std::fread(&sample, sizeof(sample), 1, sound.file) != 1) {
        return false;
      }
      sum += sample;
    }
    hop[i] = static_cast<int16_t>(sum / static_cast<int32_t>(sound.every));
  }
  return true;
}

}  // namespace

int run(Network& network, int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FILE.wav   (-: samples of 16 kHz on stdin)\n", argv[0]);
    return 2;
  }
  const bool is_stream = std::strcmp(argv[1], "-") == 0;
  Sound sound{is_stream ? stdin : std::fopen(argv[1], "rb"), is_stream ? size_t{1} : 0};
  if (sound.file == nullptr) {
    std::fprintf(stderr, "cannot open %s\n", argv[1]);
    return 2;
  }
  if (!is_stream && !read_header(sound, argv[1])) {
    return 2;
  }
  static Ear ear;
  static int8_t window[kFrames * kBands];
  int16_t hop[kHop];
  bool voiced = false;
  uint32_t hops = 0;
  std::chrono::duration<double, std::milli> took{};
  ear_reset(&ear);
  while (read_hop(sound, hop)) {
    const auto start = std::chrono::steady_clock::now();
    const bool was_voiced = voiced;
    voiced = ear_listen(&ear, hop);
    int32_t word = -1;
    if (++hops % 5 == 0) {
      ear_window(&ear, window);
      const int8_t* const scores = network.run(window);
      if (scores == nullptr) {
        return 3;
      }
      word = ear_decide(&ear, scores);
    }
    took += std::chrono::steady_clock::now() - start;
    const double now = hops * 0.02;
    if (voiced != was_voiced) {
      std::printf("%7.2f s  voice %s\n", now, voiced ? "begins" : "ends");
    }
    if (word >= 0) {
      std::printf("%7.2f s  %s\n", now, kNames[word]);
    }
    std::fflush(stdout);
  }
  std::printf("%.1f s of sound, %.2f ms for each second\n", hops * 0.02,
              hops == 0 ? 0.0 : took.count() / (hops * 0.02));
  return 0;
}

}  // namespace application
