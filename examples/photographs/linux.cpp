// Of which photograph is a picture? Reads a .ppm file (P6, 8 bits), the sum of the scores of its patches decides.
//
//   photographs picture.ppm
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "network.h"

namespace application {
namespace {

const char* const kNames[] = {"china",  "flower",     "astronaut", "chelsea", "coffee",
                              "rocket", "motorcycle", "retina",    "ihc",     "hubble"};
constexpr size_t kClasses = 10;
constexpr size_t kSide = 48;
constexpr size_t kChannels = 3;

struct Picture {
  uint8_t* pixels;  // [height, width, 3]
  size_t width, height;
};

/// Null pixels where the file is no such picture; says why.
Picture read_picture(const char* path) {
  Picture picture{nullptr, 0, 0};
  std::FILE* const file = std::fopen(path, "rb");
  if (file == nullptr) {
    std::fprintf(stderr, "cannot open %s\n", path);
    return picture;
  }
  if (std::fscanf(file, "P6 %zu %zu 255", &picture.width, &picture.height) != 2 || std::fgetc(file) == EOF) {
    std::fprintf(stderr, "%s is no .ppm file of 8 bits\n", path);
  } else if (picture.width < kSide || picture.height < kSide || picture.width > 20000 || picture.height > 20000) {
    std::fprintf(stderr, "%s has %zu x %zu pixels, must have 48 x 48 to 20000 x 20000\n", path, picture.width,
                 picture.height);
  } else {
    const size_t nbytes = picture.width * picture.height * kChannels;
    picture.pixels = static_cast<uint8_t*>(std::malloc(nbytes));
    if (picture.pixels != nullptr && std::fread(picture.pixels, 1, nbytes, file) != nbytes) {
      std::fprintf(stderr, "%s ends before its pixels\n", path);
      std::free(picture.pixels);
      picture.pixels = nullptr;
    }
  }
  std::fclose(file);
  return picture;
}

/// The patch at a corner as the network takes it: int8 [3, 48, 48].
void load_patch(const Picture& picture, size_t top, size_t left, int8_t* values) {
  for (size_t c = 0; c < kChannels; ++c) {
    for (size_t y = 0; y < kSide; ++y) {
      for (size_t x = 0; x < kSide; ++x) {
        const uint8_t pixel = picture.pixels[((top + y) * picture.width + left + x) * kChannels + c];
        *values++ = static_cast<int8_t>(pixel - 128);
      }
    }
  }
}

}  // namespace

int run(Network& network, int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s PICTURE.ppm\n", argv[0]);
    return 2;
  }
  const Picture picture = read_picture(argv[1]);
  if (picture.pixels == nullptr) {
    return 2;
  }
  static int8_t patch[kChannels * kSide * kSide];
  long sums[kClasses] = {};
  unsigned long count = 0;
  const auto start = std::chrono::steady_clock::now();
  for (size_t top = 0; top + kSide <= picture.height; top += kSide) {
    for (size_t left = 0; left + kSide <= picture.width; left += kSide, ++count) {
      load_patch(picture, top, left, patch);
      const int8_t* const scores = network.run(patch);
      if (scores == nullptr) {
        return 3;
      }
      for (size_t c = 0; c < kClasses; ++c) {
        sums[c] += scores[c];
      }
    }
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  std::free(picture.pixels);
  size_t best = 0;
  for (size_t c = 0; c < kClasses; ++c) {
    std::printf("score %ld %s\n", sums[c], kNames[c]);
    best = sums[c] > sums[best] ? c : best;
  }
  std::printf("%s: %lu patches, %.0f us each\n", kNames[best], count, took.count() / static_cast<double>(count));
  return 0;
}

}  // namespace application
