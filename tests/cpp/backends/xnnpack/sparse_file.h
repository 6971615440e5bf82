/// Files whose named data is stored sparse, whatever it is and however few zeros it has: for tests of readers.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "../../robustness/mutator.h"
#include "numerics/sparse_bytes.h"
#include "schema/pte_header.h"

namespace et::test {

/// Positions of the entries that are a delegate's, in the order of the file.
inline std::vector<uint32_t> delegates_entries(const Bytes& file) {
  std::vector<uint32_t> out;
  const auto* const entries = schema::GetProgram(file.data())->named_data();
  for (uint32_t i = 0; entries != nullptr && i < entries->size(); ++i) {
    if (entries->Get(i)->key()->str().rfind("executorch_py.", 0) != 0) {
      out.push_back(i);
    }
  }
  return out;
}

inline size_t num_entries(const Bytes& file) { return delegates_entries(file).size(); }

/// The bytes of entry `i`, of those of delegates.
inline Span<const uint8_t> entry_of(const Bytes& file, size_t i) {
  const auto layout = schema::parse_pte_header({file.data(), file.size()}, file.size());
  const schema::Program& tables = *schema::GetProgram(file.data());
  const schema::NamedData* const entry = tables.named_data()->Get(delegates_entries(file)[i]);
  const schema::DataSegment* const segment = tables.segments()->Get(entry->segment_index());
  return {file.data() + layout->segment_base_offset + segment->offset(), segment->size()};
}

/// The file with entry `i` stored sparse where `is_chosen(i)`, byte by byte, so that every bit comes back.
inline Bytes with_sparse_data(const Bytes& dense, const std::function<bool(size_t)>& is_chosen) {
  Bytes file = dense;
  const uint64_t base = schema::parse_pte_header({dense.data(), dense.size()}, dense.size())->segment_base_offset;
  schema::ProgramT tables;
  schema::GetProgram(dense.data())->UnPackTo(&tables);
  const std::vector<uint32_t> positions = delegates_entries(dense);
  for (size_t i = 0; i < positions.size(); ++i) {
    if (!is_chosen(i)) {
      continue;
    }
    const Span<const uint8_t> bytes = entry_of(dense, i);
    const SparseLayout layout = sparse_layout(bytes, ScalarType::Char);
    schema::NamedDataT& entry = *tables.named_data[positions[i]];
    file.resize((file.size() + 127) / 128 * 128);
    auto segment = std::make_unique<schema::DataSegmentT>();
    segment->offset = file.size() - base;
    segment->size = layout.nbytes;
    file.resize(file.size() + layout.nbytes);
    write_sparse_bytes(layout, bytes, file.data() + file.size() - layout.nbytes);
    entry.key = std::string(kSparsePrefix) + entry.key;
    entry.segment_index = static_cast<uint32_t>(tables.segments.size());
    tables.segments.push_back(std::move(segment));
  }
  return with_tables(file, tables);
}

}  // namespace et::test
