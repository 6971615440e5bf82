#include "backends/xnnpack/runtime/payload.h"

#include <cstring>

namespace et::backends::xnnpack {
namespace {

constexpr size_t kHeaderSize = 30;

template <typename T>
T number_at(Span<const uint8_t> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));  // both are little-endian
  return value;
}

bool is_range(Span<const uint8_t> bytes, uint64_t offset, uint64_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

}  // namespace

Result<Payload> read_payload(Span<const uint8_t> bytes) {
  ET_CHECK_OR_RETURN(bytes.size() > kHeaderSize && std::memcmp(bytes.data() + 4, "XH00", 4) == 0, InvalidProgram,
                     "xnnpack payload: %zu bytes do not begin with a payload header", bytes.size());
  const auto header_size = number_at<uint16_t>(bytes, 8);
  const auto graph_offset = number_at<uint32_t>(bytes, 10);
  const auto graph_size = number_at<uint32_t>(bytes, 14);
  const auto constants_offset = number_at<uint32_t>(bytes, 18);
  const auto constants_size = number_at<uint64_t>(bytes, 22);
  ET_CHECK_OR_RETURN(header_size >= kHeaderSize && graph_offset >= kHeaderSize && graph_offset % 8 == 0 &&
                         is_range(bytes, graph_offset, graph_size) && graph_size >= 8 &&
                         (constants_size == 0 || is_range(bytes, constants_offset, constants_size)),
                     InvalidProgram, "xnnpack payload: the header names bytes outside of the payload's %zu",
                     bytes.size());
  const uint8_t* const start = bytes.data() + graph_offset;
  ET_CHECK_OR_RETURN(payload::GraphBufferHasIdentifier(start), DelegateInvalidCompatibility,
                     "xnnpack payload: identifier '%.4s', this runtime reads '%s'; lower the model again",
                     reinterpret_cast<const char*>(start) + 4, payload::GraphIdentifier());
  flatbuffers::Verifier verifier(start, graph_size);
  ET_CHECK_OR_RETURN(payload::VerifyGraphBuffer(verifier), InvalidProgram,
                     "xnnpack payload: the %u bytes of the graph are damaged", graph_size);
  Payload out;
  out.graph = payload::GetGraph(start);
  if (constants_size != 0) {
    out.constants = {bytes.data() + constants_offset, static_cast<size_t>(constants_size)};
  }
  return out;
}

}  // namespace et::backends::xnnpack
