#include "backends/ethos_u/runtime/command_payload.h"

#include <cinttypes>
#include <cstring>
#include <string_view>

namespace et::backends::ethos_u {
namespace {

constexpr size_t kHeader = 32, kName = 16, kPlace = 9 * sizeof(int32_t);
constexpr uint32_t kMaxPlaces = 64;

template <typename T>
T read(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

class Parser {
 public:
  explicit Parser(Span<const uint8_t> bytes) : bytes_(bytes) {}

  /// The bytes of the next block, whose name must be this.
  Result<Span<const uint8_t>> block(std::string_view name) {
    ET_CHECK_OR_RETURN(bytes_.size() - at_ >= kHeader, InvalidProgram, "Ethos-U payload: it ends before %s",
                       name.data());
    const uint8_t* const header = bytes_.data() + at_;
    char wanted[kName] = {};
    std::memcpy(wanted, name.data(), name.size());
    ET_CHECK_OR_RETURN(std::memcmp(header, wanted, kName) == 0, InvalidProgram,
                       "Ethos-U payload: another block at byte %zu, where %s must stand", at_, name.data());
    const auto size = read<uint32_t>(header + kName);
    const size_t left = bytes_.size() - at_ - kHeader;
    ET_CHECK_OR_RETURN(size <= left && (size_t{size} + 15) / 16 * 16 <= left, InvalidProgram,
                       "Ethos-U payload: %s has %" PRIu32 " bytes, %zu are left", name.data(), size, left);
    const Span<const uint8_t> found(header + kHeader, size);
    at_ += kHeader + (size_t{size} + 15) / 16 * 16;
    return found;
  }

  size_t left() const { return bytes_.size() - at_; }

 private:
  Span<const uint8_t> bytes_;
  size_t at_ = 0;
};

/// Checks a list of places and gives their number.
Result<uint32_t> count_of(Span<const uint8_t> list, const char* name, uint32_t scratch_nbytes) {
  ET_CHECK_OR_RETURN(list.size() >= sizeof(int32_t), InvalidProgram, "Ethos-U payload: %s has no count", name);
  const auto count = read<uint32_t>(list.data());
  ET_CHECK_OR_RETURN(count <= kMaxPlaces && list.size() == sizeof(int32_t) + count * kPlace, InvalidProgram,
                     "Ethos-U payload: %s has %zu bytes for %" PRIu32 " places", name, list.size(), count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t* const row = list.data() + sizeof(int32_t) + i * kPlace;
    uint64_t nbytes = 1;
    for (size_t d = 0; d < 7; ++d) {  // six sizes and the bytes of an element
      const auto size = read<int32_t>(row + d * sizeof(int32_t));
      ET_CHECK_OR_RETURN(size > 0, InvalidProgram, "Ethos-U payload: a size of %s is %" PRId32, name, size);
      nbytes *= static_cast<uint32_t>(size);
      ET_CHECK_OR_RETURN(nbytes <= scratch_nbytes, InvalidProgram,
                         "Ethos-U payload: the scratch of %" PRIu32 " bytes is too small for %s %" PRIu32,
                         scratch_nbytes, name, i);
    }
    const auto offset = read<int32_t>(row + 7 * sizeof(int32_t));
    ET_CHECK_OR_RETURN(offset >= 0 && static_cast<uint32_t>(offset) <= scratch_nbytes - nbytes, InvalidProgram,
                       "Ethos-U payload: %s %" PRIu32 " at byte %" PRId32 " leaves the scratch of %" PRIu32, name, i,
                       offset, scratch_nbytes);
  }
  return count;
}

}  // namespace

Place CommandPayload::place(uint32_t i) const {
  const uint8_t* const row = i < num_inputs ? places + i * kPlace : output_places + (i - num_inputs) * kPlace;
  uint32_t nbytes = 1;
  for (size_t d = 0; d < 7; ++d) {
    nbytes *= read<uint32_t>(row + d * sizeof(int32_t));
  }
  return {read<uint32_t>(row + 7 * sizeof(int32_t)), nbytes};
}

Result<CommandPayload> parse(Span<const uint8_t> bytes) {
  constexpr char kMagic[] = "vela_bin_stream";
  ET_CHECK_OR_RETURN(bytes.size() >= kHeader && std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) == 0,
                     DelegateInvalidCompatibility, "Ethos-U payload: it does not begin with vela_bin_stream");
  ET_CHECK_OR_RETURN(reinterpret_cast<uintptr_t>(bytes.data()) % 16 == 0, InvalidProgram,
                     "Ethos-U payload: it stands at no multiple of 16");
  Parser parser(bytes);
  ET_TRY([[maybe_unused]] const auto begin, parser.block(kMagic));
  CommandPayload out;
  ET_TRY(out.commands, parser.block("cmd_data"));
  ET_CHECK_OR_RETURN(
      out.commands.size() >= 4 && out.commands.size() % 4 == 0 && std::memcmp(out.commands.data(), "COP1", 4) == 0,
      InvalidProgram, "Ethos-U payload: the commands are no whole words that begin with COP1");
  ET_TRY(out.weights, parser.block("weight_data"));
  ET_TRY(const Span<const uint8_t> scratch, parser.block("scratch_size"));
  ET_CHECK_OR_RETURN(scratch.size() == sizeof(uint32_t), InvalidProgram,
                     "Ethos-U payload: scratch_size has %zu bytes, must have 4", scratch.size());
  out.scratch_nbytes = read<uint32_t>(scratch.data());
  ET_TRY(const Span<const uint8_t> inputs, parser.block("inputs"));
  ET_TRY(out.num_inputs, count_of(inputs, "inputs", out.scratch_nbytes));
  ET_TRY(const Span<const uint8_t> outputs, parser.block("outputs"));
  ET_TRY(out.num_outputs, count_of(outputs, "outputs", out.scratch_nbytes));
  out.places = inputs.data() + sizeof(int32_t);
  out.output_places = outputs.data() + sizeof(int32_t);
  ET_TRY([[maybe_unused]] const auto end, parser.block("vela_end_stream"));
  ET_CHECK_OR_RETURN(parser.left() == 0, InvalidProgram, "Ethos-U payload: %zu bytes behind its end", parser.left());
  return out;
}

}  // namespace et::backends::ethos_u
