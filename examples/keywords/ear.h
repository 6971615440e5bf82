// What hears on the device: levels of a stream, whether there is speech, and which keyword the scores say.
//
// For: the device, the Linux program and, through ctypes, Python: all three get the same integers.
//
//   ear_listen(&ear, hop);                        // 320 samples of 16 kHz: every 20 ms
//   ear_window(&ear, window);                     // the network's input
//   const int32_t word = ear_decide(&ear, scores);  // every 100 ms
#pragma once

#include <cstddef>
#include <cstdint>

namespace application {

inline constexpr size_t kHop = 320;
inline constexpr size_t kFrame = 480;
inline constexpr size_t kBands = 20;
inline constexpr size_t kFrames = 49;  // one second
inline constexpr size_t kWords = 7;    // the last one: anything else
inline constexpr size_t kVotes = 3;    // scores that are added up

struct Ear {
  int16_t samples[kFrame];
  int8_t levels[kFrames][kBands];  // the oldest first
  int32_t floor;                   // of noise, 1/64 steps
  int32_t voiced;                  // hops for which voice is assumed to go on
  int32_t hops;
  int8_t votes[kVotes][kWords];
  int32_t deaf;  // decisions to wait after a word
};

}  // namespace application

extern "C" {
size_t ear_size();
void ear_reset(application::Ear* ear);
/// Takes 20 ms; true while there is speech.
bool ear_listen(application::Ear* ear, const int16_t* hop);
/// The levels of the last second: int8 [49, 20], in steps of 0.75 dB.
void ear_window(const application::Ear* ear, int8_t* window);
/// Takes the network's scores, int8 [7]; the word that is said now, or -1.
int32_t ear_decide(application::Ear* ear, const int8_t* scores);
/// Windows of clips of one second each. **Shapes** samples [count, 16000]; windows [count, 49, 20]
void ear_windows(const int16_t* samples, size_t count, int8_t* windows);
}
