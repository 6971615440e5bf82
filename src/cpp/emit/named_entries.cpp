#include "emit/named_entries.h"

#include "emit/sparse_constants.h"
#include "numerics/sparse_bytes.h"

namespace et::emit {
namespace {

Span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

NamedEntries::NamedEntries(const ir::Program& program, const DataPool& constants)
    : program_(program), constants_(constants) {
  for (const ir::NamedData& entry : program.named_data) {
    if (!entry.external_file.empty()) {
      continue;
    }
    entries_.emplace(entry.key, entry.bytes);
    if (!entry.sparse_dtype) {
      dense_.find_or_add(entry.bytes.data(), entry.bytes.size(), 0);
    }
  }
}

void NamedEntries::add(std::string_view key, std::string bytes) { entries_.emplace(key, keep(std::move(bytes))); }

void NamedEntries::add_sparse(std::string_view name, std::string bytes) {
  entries_.emplace(keep(std::string(kSparseConstantPrefix).append(name)), keep(std::move(bytes)));
}

bool NamedEntries::is_dense(const ir::NamedData& entry) const {
  return !entry.sparse_dtype || entry.bytes.size() < kLeastSparseBytes ||
         constants_.find(entry.bytes.data(), entry.bytes.size()) || dense_.find(entry.bytes.data(), entry.bytes.size());
}

void NamedEntries::make_sparse(double least_zeros) {
  for (const ir::NamedData& entry : program_.named_data) {
    if (least_zeros > 1 || !entry.external_file.empty() || is_dense(entry)) {
      continue;
    }
    std::string key = std::string(kSparsePrefix) + entry.key;
    std::string bytes =
        entries_.count(key) == 0 ? sparse_form(bytes_of(entry.bytes), *entry.sparse_dtype, least_zeros) : std::string();
    if (!bytes.empty()) {
      entries_.erase(entry.key);
      const std::string_view name = keep(std::move(key));
      entries_.emplace(name, keep(std::move(bytes)));
    }
  }
}

}  // namespace et::emit
