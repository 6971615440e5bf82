/// Damages `.pte` files, in the ways files are damaged and in the ways an attacker would.
///
/// There are two kinds. Blind ones work on the bytes (flips, words, truncation, splices), and the FlatBuffers verifier
/// stops most of them. Informed ones work on the tables (indices, sizes, offsets, instructions); these are well-formed
/// flatbuffers and reach what comes behind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/program_generated.h"

namespace et::test {

using Bytes = std::vector<uint8_t>;

/// A small generator with the same numbers everywhere (SplitMix64).
/// Source: Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0, n); n > 0.
  size_t below(size_t n) { return static_cast<size_t>(next() % n); }
  /// A number that programs have trouble with, or a small one near `around`.
  int64_t awkward(int64_t around);

 private:
  uint64_t state_;
};

/// Damages the bytes of `seed`; `other` is what splices take from.
Bytes mutate_bytes(const Bytes& seed, const Bytes& other, Random& random);

/// The file `seed` with other tables; its segments stay.
Bytes with_tables(const Bytes& seed, const schema::ProgramT& program);

/// Damages one to three fields of the tables and writes the file again; the segments stay.
Bytes mutate_tables(const Bytes& seed, Random& random);

}  // namespace et::test
