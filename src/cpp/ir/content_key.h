/// Names constants by their content: named data of delegates, and what passes made of constants that are in a `.ptd`.
#pragma once

#include <string>
#include <string_view>

namespace et::ir {

/// A name for `bytes`: 90 bits of a hash of them and their length, in 15 letters. Equal bytes have equal names;
/// different ones with one name would be refused when delegates are cut out, so the hash need not withstand an
/// adversary. Source: the finalised 128-bit MurmurHash3 (x64), public domain.
std::string content_key(std::string_view bytes);

}  // namespace et::ir
