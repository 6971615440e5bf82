#include "emit/named_entries.h"

#include "base/sparse_bytes.h"

namespace et::emit {
namespace {

/// A file of many small entries spends more on their alignment than on their zeros.
constexpr size_t kLeastBytes = 1024;

Span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

/// The sparse form of an entry; empty when it is not worth it.
std::string sparse_form(const ir::NamedData& entry, double least_zeros) {
  const SparseLayout layout = sparse_layout(bytes_of(entry.bytes), *entry.sparse_dtype);
  const auto zeros = static_cast<double>(layout.num_elements - layout.num_values);
  if (layout.element_size == 0 || zeros < least_zeros * static_cast<double>(layout.num_elements) ||
      layout.nbytes > entry.bytes.size() - entry.bytes.size() / 16) {
    return {};
  }
  std::string out(layout.nbytes, '\0');
  write_sparse_bytes(layout, bytes_of(entry.bytes), reinterpret_cast<uint8_t*>(out.data()));
  return out;
}

}  // namespace

NamedEntries::NamedEntries(const ir::Program& program, const DataPool& constants)
    : program_(program), constants_(constants) {
  for (const ir::NamedData& entry : program.named_data) {
    entries_.emplace(entry.key, entry.bytes);
    if (!entry.sparse_dtype) {
      dense_.find_or_add(entry.bytes.data(), entry.bytes.size(), 0);
    }
  }
}

void NamedEntries::add(std::string_view key, std::string bytes) { entries_.emplace(key, keep(std::move(bytes))); }

bool NamedEntries::is_dense(const ir::NamedData& entry) const {
  return !entry.sparse_dtype || entry.bytes.size() < kLeastBytes ||
         constants_.find(entry.bytes.data(), entry.bytes.size()) || dense_.find(entry.bytes.data(), entry.bytes.size());
}

void NamedEntries::make_sparse(double least_zeros) {
  for (const ir::NamedData& entry : program_.named_data) {
    if (least_zeros > 1 || is_dense(entry)) {
      continue;
    }
    std::string key = std::string(kSparsePrefix) + entry.key;
    std::string bytes = entries_.count(key) == 0 ? sparse_form(entry, least_zeros) : std::string();
    if (!bytes.empty()) {
      entries_.erase(entry.key);
      const std::string_view name = keep(std::move(key));
      entries_.emplace(name, keep(std::move(bytes)));
    }
  }
}

}  // namespace et::emit
