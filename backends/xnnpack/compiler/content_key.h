/// Names constants by their content.
#pragma once

#include <string>
#include <string_view>

namespace et::backends::xnnpack {

/// A name for `bytes`: 90 bits of a hash of them and their length, in 15 letters. Equal bytes have equal names;
/// different ones with one name would be refused when delegates are cut out, so the hash need not withstand an
/// adversary. Source: the finalised 128-bit MurmurHash3 (x64), public domain.
std::string content_key(std::string_view bytes);

}  // namespace et::backends::xnnpack
